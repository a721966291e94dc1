//! Models in the browser: a server on this machine for a page, the runtimes that it uses, and the models that they run.
//!
//! ```text
//! connection ─▶ dwell-loopback: limits, Host, Origin ─▶ token in the path ─▶ shelf: a fixed list of addresses ─▶ file, in pieces
//! ```
//!
//! [`Release`] knows the packages of each runtime, [`WebModel`] checks a model before it is served, and [`WebServer`] serves them
//! beside the page. Only addresses that were listed when the server began are answered, so that no request can name another
//! file. Every answer is cross-origin isolated: threads, shared memory and exact memory readings need that.

#![forbid(unsafe_code)]

mod answer;
mod config;
mod error;
mod file_body;
mod folder;
#[cfg(test)]
#[path = "../../../tests/http.rs"]
mod http;
mod media_type;
mod model;
mod page;
mod range;
mod release;
mod server;
mod shelf;

pub use dwell_loopback::Stopper;
pub use error::WebError;
pub use model::{GgufFacts, WebModel};
pub use release::{Release, Runtime, RuntimeFiles};
pub use server::{WebOptions, WebServer};
