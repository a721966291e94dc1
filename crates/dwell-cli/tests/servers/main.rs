//! `dwell run` with engines that are programs of their own: real ones, on small models.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::duplicate_mod, reason = "the publishers' driver and the other tests skip by the same file")]

mod allocations;
mod arithmetic;
#[path = "../common/mod.rs"]
mod common;
mod deaths;
mod in_browser;
mod joined;
mod kv_events;
mod lab;
mod llama_cli;
mod ollama;
#[path = "../../../dwell-kv-events/tests/publisher/mod.rs"]
mod publisher;
mod refusals;
mod same_work;
mod sequences;
mod vllm;
mod vllm_server;
