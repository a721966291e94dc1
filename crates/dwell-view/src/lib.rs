//! A folder of results in the browser: a server on this machine that only reads.
//!
//! ```text
//! connection ─▶ guard: address, origin, token, method ─▶ api ─▶ desk: a few requests at a time ─▶ run on disk
//!                                                         │                                         ▲
//!                                                         └─ page of the viewer         live: a snapshot, while a run is recorded
//! ```
//!
//! The API is documented in `docs/formats/view-api.md`. Whoever asks must know the token, and may not come from another site. Nothing
//! in the folder is written to, and nothing outside of it is read.

#![forbid(unsafe_code)]

mod api;
mod desk;
mod error;
mod guard;
mod live;
mod page_cache;
mod params;
mod server;
mod tree;
mod viewer;

pub use dwell_loopback::Stopper;
pub use error::ViewError;
pub use server::{ViewOptions, ViewServer};
