//! Experiments with the real binary: from an experiment file to a tree of runs, whatever interrupts it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod collectors;
#[path = "../common/mod.rs"]
mod common;
mod engines;
mod files;
mod key_effects;
mod keys;
mod kv_study;
mod lab;
mod resumed;
mod served;
mod server_effects;
mod side_by_side;
mod slowdown;
mod tiny;
mod unfinished;
