//! Recorded accesses and figures against what is known of them: arithmetic, and the programs of others.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../common/mod.rs"]
mod common;

mod arithmetic_truths;
mod foreign_layout;
mod mrm_trace_agrees;
mod pages_agree;
#[path = "../architectures/tiny.rs"]
mod tiny;
mod unmodified_llama_cpp;
