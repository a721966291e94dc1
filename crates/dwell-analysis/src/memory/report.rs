//! The report on the memory of one run.

use dwell_events::Phase;
use dwell_events::server::{BufferKind, ReportedBuffer};
use serde::{Deserialize, Serialize};

use super::growth::{Growth, growth};
use super::inputs::{MemoryInputs, ModelStart};
use super::kv::{KvFigures, reported_bytes};
use super::series::{MemoryKind, Series};
use super::split::{Split, split, totals, totals_of};
use super::timings::RunTimings;
use super::token_times::Counts;
use super::verdict::{KvPresence, Verdict};
use crate::Basis;
use crate::statistics::median;

/// What the memory of one run says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryReport {
    /// Samples of the engine's processes.
    pub samples: u64,
    /// Median time between two of them.
    pub sample_gap_ns: Option<f64>,
    /// The highest samples of each kind of memory.
    pub peaks: MemoryPeaks,
    /// The typical moment while tokens came: that of the median total.
    pub steady: Option<Split>,
    /// Memory without a file behind it at that moment.
    pub steady_own_bytes: Option<u64>,
    /// The moment of the highest total.
    pub peak: Option<Split>,
    /// Resident memory where the totals are of PSS, to compare them with those of runs that have none.
    #[serde(default)]
    pub rss: RssTotals,
    /// How memory without a file behind it grew with the tokens that the model chose.
    pub growth: Option<Growth>,
    /// The same over all positions, those of prompts included.
    pub growth_over_positions: Option<Growth>,
    /// Whether the KV cache explains that.
    pub verdict: Verdict,
    /// The KV cache.
    pub kv: KvFigures,
    /// Times and speed.
    pub timings: RunTimings,
    /// In which state the model was when the run began.
    pub start: ModelStart,
    /// `cold`, `page_cache` or `warm`; none if that is not known.
    pub start_name: Option<String>,
    /// Buffers that the runtime reports.
    pub buffers: Vec<ReportedBuffer>,
}

/// Resident memory with that on GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RssTotals {
    /// At the moment of the steady state.
    pub steady_bytes: Option<u64>,
    /// The highest sample.
    pub peak_bytes: Option<u64>,
}

/// The highest samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryPeaks {
    /// Resident memory.
    pub rss_bytes: Option<u64>,
    /// Resident memory, as the kernel remembers it.
    pub rss_kernel_bytes: Option<u64>,
    /// Resident memory, shared pages divided.
    pub pss_bytes: Option<u64>,
    /// Anonymous memory.
    pub anon_bytes: Option<u64>,
    /// File-backed memory.
    pub file_bytes: Option<u64>,
    /// Swapped-out memory.
    pub swap_bytes: Option<u64>,
    /// Memory on GPUs.
    pub gpu_bytes: Option<u64>,
    /// How all of them but `rss_kernel_bytes` were obtained: what was higher between two samples is not in them.
    pub basis: Option<Basis>,
}

impl MemoryReport {
    /// The report on what was observed.
    pub fn of(inputs: &MemoryInputs<'_>) -> Self {
        let generated = Counts::of(inputs.tokens.chosen());
        let positions = positions(inputs);
        let kind = growth_kind(inputs);
        let memory = inputs.series.of(kind);
        let over_tokens = growth(kind, memory, &generated);
        let over_positions = growth(kind, memory, &positions);
        let theory = inputs.theory.map(|theory| theory.bytes_per_token);
        // Tokens of prompts that come between those of answers take their part of the cache too.
        let judged = over_positions.as_ref().or(over_tokens.as_ref());
        let verdict = Verdict::of(judged, theory, presence(inputs, memory));
        let kv = KvFigures::of(inputs, judged, &verdict);
        let totals = totals(inputs);
        let split_at = |moment| split(inputs, moment, &kv, verdict.kind, &positions);
        let steady = steady_moment(inputs, &totals);
        Self {
            samples: inputs.series.of(MemoryKind::Rss).points().len() as u64,
            sample_gap_ns: sample_gap_ns(inputs.series.of(MemoryKind::Rss)),
            peaks: peaks(inputs),
            steady: steady.map(split_at),
            steady_own_bytes: steady
                .and_then(|(time_ns, _)| inputs.series.of(MemoryKind::Own).at(time_ns))
                .map(|value| value.bytes),
            peak: totals.peak().filter(|_| is_sampled_when_loaded(inputs, &totals)).map(split_at),
            rss: rss_totals(inputs, steady.map(|(time_ns, _)| time_ns)),
            growth: over_tokens,
            growth_over_positions: over_positions,
            verdict,
            kv,
            timings: RunTimings::of(inputs),
            start: inputs.start,
            start_name: inputs.start.name().map(str::to_owned),
            buffers: inputs.buffers.to_vec(),
        }
    }
}

/// Nothing tells more of the cache than a runtime that shows its tensors. File-backed memory grows as weights are read, not with
/// tokens, so it is left out where the kinds are known.
fn growth_kind(inputs: &MemoryInputs<'_>) -> MemoryKind {
    let has = |kind| !inputs.series.of(kind).points().is_empty();
    [MemoryKind::ToldKv, MemoryKind::Own, MemoryKind::Pss]
        .into_iter()
        .find(|kind| has(*kind))
        .unwrap_or(MemoryKind::Rss)
}

/// How many positions had been computed at which time. A server lists no prompt tokens; they were computed when the first
/// token of its answer came.
fn positions(inputs: &MemoryInputs<'_>) -> Counts {
    let listed = inputs.tokens.prompts().iter().copied();
    let is_told = inputs.tokens.prompts().is_empty();
    let told = inputs.requests.iter().filter(|_| is_told);
    let told = told.filter_map(|request| request.first_token_ns.zip(request.computed_prompt_tokens()));
    Counts::of(inputs.tokens.chosen().chain(listed).chain(told))
}

/// Where the cache was when the first token came. Weights that were copied take their part of the memory.
fn presence(inputs: &MemoryInputs<'_>, memory: &Series) -> KvPresence {
    let copied = inputs.buffers.iter().filter(|buffer| buffer.kind == BufferKind::Weights && !buffer.is_mapped);
    let copied: u64 = copied.map(|buffer| buffer.bytes).fold(0, u64::saturating_add);
    let reported = inputs.buffers.iter().filter(|buffer| !buffer.is_mapped).map(|buffer| buffer.bytes);
    let reported = reported.fold(0, u64::saturating_add);
    let held = inputs.tokens.span().and_then(|(first_ns, last_ns)| {
        let first_sample = memory.between(first_ns, last_ns).first().map(|&(_, bytes)| bytes);
        memory.at(first_ns).map(|value| value.bytes).or(first_sample)
    });
    let cache = inputs.theory.and_then(|theory| theory.cache_bytes).filter(|bytes| *bytes > 0);
    let fits = |cache: &u64| held.is_some_and(|held| held.saturating_sub(copied) >= *cache);
    // Who traces the cache has seen its buffer, whose size is that of the cache by theory.
    let traced = cache.filter(|_| inputs.traced_kv.is_some_and(|kv| kv.bytes_per_token().is_some()));
    KvPresence {
        buffer_bytes: reported_bytes(inputs.buffers, BufferKind::KvCache).or(traced),
        fitting_bytes: cache.filter(fits),
        unreported_bytes: held.unwrap_or(0).saturating_sub(reported),
    }
}

/// The sample of the median total between the first and the last token; without one there, of the generation.
fn steady_moment(inputs: &MemoryInputs<'_>, totals: &Series) -> Option<(u64, u64)> {
    let generation = inputs.phase(Phase::Generation).map(|span| (span.begin_ns, span.end_ns));
    let spans = [inputs.tokens.span(), generation];
    let samples = spans.into_iter().flatten().map(|(from_ns, to_ns)| totals.between(from_ns, to_ns));
    let mut samples = samples.into_iter().find(|samples| !samples.is_empty())?.to_vec();
    let middle = (samples.len() - 1) / 2;
    Some(*samples.select_nth_unstable_by_key(middle, |&(_, bytes)| bytes).1)
}

/// Whether memory was sampled once the model was loaded. In a run that is shorter than the time between two samples, the
/// largest sample can be from before that, and says nothing about the peak.
fn is_sampled_when_loaded(inputs: &MemoryInputs<'_>, series: &Series) -> bool {
    let last_ns = series.points().last().map(|&(sampled_ns, _)| sampled_ns);
    inputs.phase(Phase::Generation).is_none_or(|span| last_ns.is_some_and(|last_ns| last_ns >= span.begin_ns))
}

fn rss_totals(inputs: &MemoryInputs<'_>, steady_ns: Option<u64>) -> RssTotals {
    let totals = totals_of(inputs, MemoryKind::Rss);
    let peak = totals.peak().filter(|_| is_sampled_when_loaded(inputs, &totals));
    RssTotals {
        steady_bytes: steady_ns.and_then(|time_ns| totals.at(time_ns)).map(|value| value.bytes),
        peak_bytes: peak.map(|(_, bytes)| bytes),
    }
}

fn sample_gap_ns(series: &Series) -> Option<f64> {
    median(&mut series.points().windows(2).map(|pair| (pair[1].0 - pair[0].0) as f64).collect::<Vec<_>>())
}

fn peaks(inputs: &MemoryInputs<'_>) -> MemoryPeaks {
    let peak = |kind| inputs.series.of(kind).peak().map(|(_, bytes)| bytes);
    MemoryPeaks {
        rss_bytes: peak(MemoryKind::Rss),
        rss_kernel_bytes: inputs.peak_rss_bytes,
        pss_bytes: peak(MemoryKind::Pss),
        anon_bytes: peak(MemoryKind::Anon),
        file_bytes: peak(MemoryKind::File),
        swap_bytes: peak(MemoryKind::Swap),
        gpu_bytes: peak(MemoryKind::Gpu),
        basis: Some(Basis::Sampled),
    }
}
