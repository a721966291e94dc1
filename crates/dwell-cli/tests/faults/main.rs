//! What goes wrong with the real binary: each test provokes a fault and looks at the exit code, at what is said on
//! standard error, and at what is left on disk.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;
mod disk;
mod file_size_limit;
mod interruption;
mod killed_observer;
mod killed_worker;
mod live_run;
mod models;
mod options;
mod outcome;
mod results;
mod short_run;
mod slow_observer;
mod streams;
mod trees;
mod verification;
