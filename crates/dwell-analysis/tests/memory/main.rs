//! Memory per token, by series and tokens whose truth is known.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod lab;
mod properties;
mod series;
mod slopes;
mod splits;
mod times;
mod verdicts;
