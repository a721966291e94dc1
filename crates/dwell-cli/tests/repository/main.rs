//! What the repository says of itself: the drawing of the house, and its pages.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../../tests/generated.rs"]
mod generated;
#[path = "../../../../tests/skip.rs"]
mod skip;

mod architecture;
mod docs_match;
mod readme_runs;
