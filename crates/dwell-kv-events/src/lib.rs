//! The `kv_events` collector: what vLLM and SGLang say about the blocks of their KV cache.
//!
//! ```text
//! server ─ZeroMQ─▶ Subscription ─▶ KvEventsRecorder ─▶ raw/kv_events.arrows ─▶ build_kv_blocks ─▶ kv_block_lifecycle
//!          ◀─replay─┘                                       ▲                       │
//!                              recorded files ─▶ copy ──────┘       decode_batch ─▶ BlockTracker
//! ```
//!
//! What it sees: which block was stored, stored again, built upon, removed, where, and when. What it cannot see: which
//! bytes a block has, when it is read by attention, and anything that the server does not publish.

#![forbid(unsafe_code)]

mod build;
mod copy;
mod decode;
mod decode_error;
mod error;
mod event;
mod fields;
mod json;
mod lifetimes;
pub mod limits;
mod live_blocks;
mod long_names;
mod msgpack;
mod places;
mod prefix;
mod raw;
mod recorder;
mod recording;
mod report;
mod sequence;
mod subscribe;
mod tokens;
mod tracker;
pub mod zmtp;

pub use build::build_kv_blocks;
pub use copy::{CopiedFile, CopiedRecordings, copy_recordings};
pub use decode::decode_batch;
pub use decode_error::DecodeError;
pub use dwell_events::kv_blocks::{BlockCounts, KvBlocksReport, MediumCounts};
pub use error::{RecordingError, SubscribeError};
pub use event::{BlockHash, BlockRemoved, BlockStored, Event, EventBatch};
pub use json::{JsonBatch, batch_of_line};
pub use prefix::CachedPrompt;
pub use raw::{RawBatch, RawBatchWriter, raw_schema};
pub use recorder::KvEventsRecorder;
pub use recording::RecordingForm;
pub use report::losses;
pub use subscribe::{SubscribeOptions, Subscription, SubscriptionSummary};
pub use tokens::TokenPolicy;
pub use tracker::{BlockTracker, TrackOptions};

/// Name of its raw stream.
pub const KV_EVENTS_STREAM: &str = "kv_events";
