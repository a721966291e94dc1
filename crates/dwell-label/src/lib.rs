//! From what sources saw and engines told to labelled accesses, regions, KV lives and tokens.
//!
//! ```text
//! frames ─▶ Labeller ─┬─ engine events ─▶ timeline: phases, requests, steps, tokens
//!                     └─ graphs, steps ─▶ ggml: accesses of each operation, lives of KV blocks
//!                                           │ each access
//!                                           ▼
//! any other source ──── accesses ───────▶ regions: whose memory, by declaration or by rules ─▶ rows of `trace`
//! ```
//!
//! [`timeline`] and [`regions`] know no source: [`Labelling`] joins them, and [`ggml`] is the first that uses it.
//! Accesses that come without a label are labelled by [`rules`]: those of a collector that sees functions and addresses
//! but no buffers, and those of a graph that nobody knows the owner of.
//!
//! It opens no file, starts no thread and reads no clock: the same frames always give the same rows, whether they come
//! from a running worker or from a raw stream of last year.

#![forbid(unsafe_code)]

pub mod ggml;
mod labeller;
mod labelling;
mod loss_count;
mod moved;
mod output;
pub mod regions;
pub mod rules;
pub mod timeline;

pub use dwell_events::address_space::PROCESSES_MAX;
pub use ggml::FileTensor;
pub use labeller::Labeller;
pub use labelling::{Labelling, LabellingEnd};
pub use loss_count::LossCount;
pub use output::{Labelled, Outcome, Output, ServerFigure};
pub use rules::{RuleLabeller, RuleSet, RulesError, UnknownPolicy, UnlabelledAccess};
