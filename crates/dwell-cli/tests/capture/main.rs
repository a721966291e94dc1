//! `dwell capture` with the real binary: what must be in a stream is known from the model's shape, from its tokens, from
//! numpy's rules of slicing, and from transformers.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod architectures;
#[path = "../common/mod.rs"]
mod common;
mod cut_off;
mod lab;
mod refusals;
mod selection;
mod transformers_agrees;
mod truths;
