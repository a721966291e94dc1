//! The figures by which runs are compared.

use dwell_analysis::Unit;
use dwell_analysis::memory::{MemoryKind, MemoryPart, MemoryReport};
use dwell_events::RegionType;

use crate::numbers::{count, of_unit};
use crate::run_results::{MetricsLine, RunResults};

/// A figure of a run.
pub struct Figure {
    /// Its name; columns of `compare.csv` begin with it.
    pub name: &'static str,
    /// What it is, in a few words.
    pub label: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// The figure of a run; none if the run does not say.
    pub of: fn(&RunResults) -> Option<f64>,
}

impl Figure {
    /// Whether it depends on the kind of memory that totals are of.
    pub(crate) fn is_of_kind(&self) -> bool {
        ["peak_bytes", "steady_bytes", "steady_weights_bytes", "steady_not_resident_bytes", "steady_unaccounted_bytes"]
            .contains(&self.name)
    }

    /// A value of it as text.
    pub(crate) fn text(&self, value: f64) -> String {
        match self.name {
            PROMPT_TOKENS | GENERATED_TOKENS => count(value.round() as u64),
            // The time is that of whole steps.
            name if name.starts_with("needed_p99") && value == 0.0 => "< 1 step".to_owned(),
            _ => of_unit(self.unit, value),
        }
    }

    /// The figure of a run, with totals of this kind of memory.
    pub(crate) fn value(&self, run: &RunResults, kind: MemoryKind) -> Option<f64> {
        match self.name {
            "peak_bytes" => Some(memory(run)?.peak_total(kind)? as f64),
            "steady_bytes" => Some(memory(run)?.steady_total(kind)? as f64),
            // What is left of another total is another rest, and of shared pages another share is resident.
            "steady_unaccounted_bytes" => part_of(run, MemoryPart::Unaccounted, kind),
            "steady_not_resident_bytes" => part_of(run, MemoryPart::NotResident, kind),
            "steady_weights_bytes" => weights_of(run, kind),
            _ => (self.of)(run),
        }
    }
}

/// The kind of memory that all runs have totals of: PSS if every run does, else RSS.
pub(crate) fn common_kind<'a>(runs: impl Iterator<Item = &'a RunResults>) -> MemoryKind {
    let has_pss = |memory: &MemoryReport| memory.has_totals_of(MemoryKind::Pss);
    let mut memories = runs.filter_map(memory);
    if memories.all(has_pss) { MemoryKind::Pss } else { MemoryKind::Rss }
}

/// The figure of the tokens that prompts have.
pub(crate) const PROMPT_TOKENS: &str = "prompt_tokens";
/// The first of the figures of required retention.
pub(crate) const NEEDED_P99: &str = "needed_p99_weight_s";
/// The figure of the tokens that were generated.
pub(crate) const GENERATED_TOKENS: &str = "generated_tokens";

/// Every figure, in the order of the table.
pub const FIGURES: [Figure; 29] = [
    Figure { name: PROMPT_TOKENS, label: "prompt tokens", unit: Unit::None, of: prompt_tokens },
    Figure { name: GENERATED_TOKENS, label: "generated tokens", unit: Unit::None, of: generated_tokens },
    Figure {
        name: "load_s",
        label: "load time",
        unit: Unit::Seconds,
        of: |run| seconds(memory(run)?.timings.load_ns? as f64),
    },
    Figure {
        name: "time_to_first_token_s",
        label: "time to first token",
        unit: Unit::Seconds,
        of: |run| seconds(memory(run)?.timings.time_to_first_token_ns?),
    },
    Figure {
        name: "inter_token_p50_s",
        label: "between tokens p50",
        unit: Unit::Seconds,
        of: |run| seconds(memory(run)?.timings.inter_token_p50_ns?),
    },
    Figure {
        name: "inter_token_p99_s",
        label: "between tokens p99",
        unit: Unit::Seconds,
        of: |run| seconds(memory(run)?.timings.inter_token_p99_ns?),
    },
    Figure {
        name: "prompt_tokens_per_s",
        label: "prompt tokens/s",
        unit: Unit::None,
        of: |run| run.metadata.generation?.prompt_tokens_per_s,
    },
    Figure {
        name: "decode_tokens_per_s",
        label: "decode tokens/s",
        unit: Unit::None,
        of: |run| run.metadata.generation?.decode_tokens_per_s,
    },
    Figure {
        name: "client_decode_tokens_per_s",
        label: "decode tokens/s, as they came",
        unit: Unit::None,
        of: |run| memory(run)?.timings.client.decode_tokens_per_s,
    },
    Figure {
        name: "peak_bytes",
        label: "peak memory, sampled",
        unit: Unit::Bytes,
        of: |run| Some(memory(run)?.peak.as_ref()?.total_bytes as f64),
    },
    Figure {
        name: "steady_bytes",
        label: "steady memory",
        unit: Unit::Bytes,
        of: |run| Some(memory(run)?.steady.as_ref()?.total_bytes as f64),
    },
    Figure { name: "steady_weights_bytes", label: "  weights", unit: Unit::Bytes, of: weights },
    Figure {
        name: "steady_kv_cache_bytes",
        label: "  KV cache",
        unit: Unit::Bytes,
        of: |run| part(run, MemoryPart::KvCache),
    },
    Figure {
        name: "steady_compute_bytes",
        label: "  compute",
        unit: Unit::Bytes,
        of: |run| part(run, MemoryPart::Compute),
    },
    Figure {
        name: "steady_not_resident_bytes",
        label: "  not resident",
        unit: Unit::Bytes,
        of: |run| part(run, MemoryPart::NotResident),
    },
    Figure {
        name: "steady_unaccounted_bytes",
        label: "  unaccounted",
        unit: Unit::Bytes,
        of: |run| part(run, MemoryPart::Unaccounted),
    },
    Figure {
        name: "kv_theory_bytes_per_token",
        label: "KV per token, theory",
        unit: Unit::Bytes,
        of: |run| Some(memory(run)?.kv.theory_bytes_per_token? as f64),
    },
    Figure {
        name: "kv_measured_bytes_per_token",
        label: "KV per token, measured",
        unit: Unit::Bytes,
        of: |run| memory(run)?.kv.measured_bytes_per_token,
    },
    Figure {
        name: "growth_bytes_per_token",
        label: "growth per token",
        unit: Unit::Bytes,
        of: |run| memory(run)?.verdict.measured_bytes_per_token,
    },
    Figure {
        name: "efficiency",
        label: "efficiency (theory/measured)",
        unit: Unit::Ratio,
        of: |run| memory(run)?.kv.efficiency,
    },
    Figure {
        name: "kv_allocated_bytes",
        label: "KV allocated",
        unit: Unit::Bytes,
        of: |run| Some(memory(run)?.kv.allocated_bytes? as f64),
    },
    Figure {
        name: "kv_used_bytes",
        label: "KV used",
        unit: Unit::Bytes,
        of: |run| Some(memory(run)?.kv.used_bytes? as f64),
    },
    Figure {
        name: "kv_used_share",
        label: "KV used/allocated",
        unit: Unit::Ratio,
        of: |run| memory(run)?.kv.used_share,
    },
    Figure {
        name: NEEDED_P99,
        label: "needed p99, weights",
        unit: Unit::Seconds,
        of: |run| needed_p99(run, RegionType::Weight),
    },
    Figure {
        name: "needed_p99_low_weight_s",
        label: "needed p99, weights ≥",
        unit: Unit::Seconds,
        of: |run| needed_p99_at_least(run, RegionType::Weight),
    },
    Figure {
        name: "needed_p99_kv_cache_s",
        label: "needed p99, KV cache",
        unit: Unit::Seconds,
        of: |run| needed_p99(run, RegionType::KvCache),
    },
    Figure {
        name: "needed_p99_low_kv_cache_s",
        label: "needed p99, KV cache ≥",
        unit: Unit::Seconds,
        of: |run| needed_p99_at_least(run, RegionType::KvCache),
    },
    Figure {
        name: "needed_p99_activation_s",
        label: "needed p99, activations",
        unit: Unit::Seconds,
        of: |run| needed_p99(run, RegionType::Activation),
    },
    Figure {
        name: "needed_p99_low_activation_s",
        label: "needed p99, activations ≥",
        unit: Unit::Seconds,
        of: |run| needed_p99_at_least(run, RegionType::Activation),
    },
];

fn line_of(run: &RunResults, region_type: RegionType) -> Option<&MetricsLine> {
    run.metrics.iter().find(|line| line.region_type == region_type.name())
}

/// How long 99 % of the bytes are needed, at the speed that suitability holds at; none if the run ended before.
fn needed_p99(run: &RunResults, region_type: RegionType) -> Option<f64> {
    line_of(run, region_type)?.number("needed_p99_s")
}

/// What is known of it where the run ended before.
fn needed_p99_at_least(run: &RunResults, region_type: RegionType) -> Option<f64> {
    let bound = line_of(run, region_type)?.number("needed_p99_low_s").filter(|bound| *bound > 0.0);
    bound.filter(|_| needed_p99(run, region_type).is_none())
}

fn memory(run: &RunResults) -> Option<&MemoryReport> {
    run.metadata.memory.as_ref()
}

/// Tokens of all prompts, with those that were found in a cache. No run has none: 0 is what nobody said.
fn prompt_tokens(run: &RunResults) -> Option<f64> {
    Some(run.metadata.generation?.prompt_tokens as f64).filter(|tokens| *tokens > 0.0)
}

fn generated_tokens(run: &RunResults) -> Option<f64> {
    Some(run.metadata.generation?.generated_tokens as f64).filter(|tokens| *tokens > 0.0)
}

fn seconds(ns: f64) -> Option<f64> {
    Some(ns / 1e9)
}

fn part(run: &RunResults, part: MemoryPart) -> Option<f64> {
    memory(run)?.steady_part(part).map(|bytes| bytes as f64)
}

/// The part of a total in this kind of memory.
fn part_of(run: &RunResults, part: MemoryPart, kind: MemoryKind) -> Option<f64> {
    memory(run)?.steady_part_of(part, kind).map(|bytes| bytes as f64)
}

/// The same of mapped and copied weights; none if a part that there is cannot be told in this kind.
fn weights_of(run: &RunResults, kind: MemoryKind) -> Option<f64> {
    let is_mapped = part(run, MemoryPart::WeightsMapped).is_some();
    let mapped = part_of(run, MemoryPart::WeightsMapped, kind).filter(|_| is_mapped);
    let copied = part(run, MemoryPart::WeightsCopied);
    if is_mapped && mapped.is_none() { None } else { mapped.into_iter().chain(copied).reduce(|one, other| one + other) }
}

/// Whether the run has a split of its memory that cannot be told in this kind.
pub(crate) fn is_split_in_another_kind(run: &RunResults, kind: MemoryKind) -> bool {
    let has = |of: Option<f64>| of.is_some();
    has(part(run, MemoryPart::Unaccounted)) && !has(part_of(run, MemoryPart::Unaccounted, kind))
}

/// Mapped and copied weights; none if neither is known.
fn weights(run: &RunResults) -> Option<f64> {
    let parts = [MemoryPart::WeightsMapped, MemoryPart::WeightsCopied].map(|kind| part(run, kind));
    parts.into_iter().flatten().reduce(|mapped, copied| mapped + copied)
}
