//! Turns recorded graphs and steps into labelled accesses, regions and KV lives.
//!
//! ```text
//! frames ─▶ Labeller ─┬─ Graph ─▶ touch: which operands an operation reads and writes, as byte ranges
//!                     ├─ Step  ─▶ rows of `trace`, with what only the step knows: rows, cells, experts, times
//!                     │             └─▶ kv: lives of KV blocks ─▶ rows of `kv_block_lifecycle`
//!                     └─ engine events ─▶ phases, tokens, sequences
//! ```
//!
//! Accesses that come without a label are labelled by [`rules`]: those of a collector that sees functions and addresses
//! but no buffers, and those of a graph that nobody knows the owner of.
//!
//! It opens no file, starts no thread and reads no clock: the same frames always give the same rows, whether they come
//! from a running worker or from a raw stream of last year.

#![forbid(unsafe_code)]

mod compiled;
mod expand;
mod kv;
mod labelled;
mod labeller;
mod loss_count;
mod ranges;
mod regions;
mod rule_stage;
pub mod rules;
mod sequences;
mod token_log;
mod touch;
mod unreported_steps;

pub use labelled::{FileTensor, Labelled, Outcome, Output, ServerFigure};
pub use labeller::Labeller;
pub use rules::{RuleLabeller, RuleSet, RulesError, UnknownPolicy, UnlabelledAccess};
