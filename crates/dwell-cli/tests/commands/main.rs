//! Commands of `dwell` on models, runs, streams and this machine.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::duplicate_mod, reason = "the publishers' driver and the other tests skip by the same file")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../../tests/http.rs"]
mod http;
#[path = "../../../dwell-kv-events/tests/publisher/mod.rs"]
mod publisher;
#[path = "../../../dwell-packages/tests/fetching/registry.rs"]
mod registry;

mod analyse_parts;
mod compare;
mod doctor;
mod export;
mod figure;
mod hostile;
mod import;
mod interface;
mod kv_events;
mod memray;
mod models;
mod other_users;
mod perfetto;
mod relabel;
mod report;
mod sql;
mod tensors;
mod view;
mod web;
mod web_pages;
