//! `dwell watch` with the real binary: trees of processes, files, ends of every kind, and what can go wrong.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../common/mod.rs"]
mod common;
mod endings;
mod faults;
mod files;
mod lab;
mod observe;
mod refusals;
