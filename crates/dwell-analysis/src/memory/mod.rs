//! Memory per token: samples of the engine's processes lined up with its tokens, and what they say.
//!
//! [`MemorySeries`] and [`TokenTimes`] take rows one by one and keep pairs of numbers; [`MemoryReport::of`] makes of
//! them the bytes per token, the [verdict](Verdict) against what the model's shape says, the split of memory into
//! weights, KV cache, compute and what is not accounted for, and the times of the run. `docs/metrics/memory_per_token.md`
//! has every rule.

mod growth;
mod inputs;
mod kv;
mod regression;
mod report;
mod series;
mod split;
mod timings;
mod token_times;
mod verdict;

pub use growth::{Growth, GrowthShape};
pub use inputs::{KvTheory, MemoryInputs, ModelStart, Weights};
pub use kv::KvFigures;
pub use regression::{Line, Point, robust_line};
pub use report::{MemoryPeaks, MemoryReport, RssTotals};
pub use series::{MemoryAt, MemoryKind, MemorySeries, Series, ValueAt};
pub use split::{MemoryPart, Split, SplitPart};
pub use timings::{RunTimings, Speed};
pub use token_times::TokenTimes;
pub use verdict::{Verdict, VerdictKind};
