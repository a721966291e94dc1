//! Memory over context lengths: how a preallocated KV cache is measured.

use std::collections::{BTreeMap, BTreeSet};

use dwell_analysis::memory::{MemoryKind, MemoryPart, MemoryReport, Point, robust_line};
use serde::Serialize;

use crate::compare::{CompareKey, Spread};
use crate::run_results::RunResults;

/// Memory over the context lengths of one engine, model and type of cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContextLine {
    /// Name of the engine.
    pub engine: String,
    /// The model.
    pub model_id: String,
    /// Type of keys and values.
    pub kv_type: Option<String>,
    /// Which memory, at its steady state.
    pub memory: MemoryKind,
    /// Whether the compute buffers that the runtime reports, which grow with the context too, are taken off.
    pub is_without_compute: bool,
    /// Context length and memory of every run.
    pub points: Vec<(u64, f64)>,
    /// Distinct context lengths.
    pub context_lengths: usize,
    /// Bytes per position of the context, by robust regression.
    pub bytes_per_token: f64,
    /// Lower end of the 95 % confidence interval; none with fewer than three context lengths.
    pub low_bytes_per_token: Option<f64>,
    /// Upper end.
    pub high_bytes_per_token: Option<f64>,
    /// Memory at a context length of 0.
    pub base_bytes: f64,
    /// Bytes per position that the KV cache takes by theory.
    pub theory_bytes_per_token: Option<f64>,
    /// Measured by theory.
    pub measured_by_theory: Option<f64>,
}

/// Engine, model and type of cache.
type Family<'a> = (&'a str, &'a str, Option<&'a str>);

/// A line for every engine, model and type of cache with at least two context lengths.
pub(crate) fn context_lines(groups: &BTreeMap<CompareKey, Vec<&RunResults>>) -> Vec<ContextLine> {
    let mut families: BTreeMap<Family<'_>, Vec<(u64, &MemoryReport)>> = BTreeMap::new();
    for (key, runs) in groups {
        let family = families.entry((&key.engine, &key.model_id, key.kv_type.as_deref())).or_default();
        let memories = runs.iter().filter_map(|run| run.metadata.memory.as_ref());
        family.extend(
            key.context_length.into_iter().flat_map(|length| memories.clone().map(move |memory| (length, memory))),
        );
    }
    families.into_iter().filter_map(|(names, runs)| line(names, &runs)).collect()
}

fn line((engine, model_id, kv_type): Family<'_>, runs: &[(u64, &MemoryReport)]) -> Option<ContextLine> {
    let has_own = runs.iter().all(|(_, memory)| memory.steady_own_bytes.is_some());
    let has_pss = runs.iter().all(|(_, memory)| memory.has_totals_of(MemoryKind::Pss));
    let kind = if has_pss { MemoryKind::Pss } else { MemoryKind::Rss };
    // Of reported buffers that are partly not resident, nobody knows how much is in the memory that was measured.
    let is_resident =
        |memory: &MemoryReport| memory.steady_part(MemoryPart::NotResident).is_none_or(|bytes| bytes == 0);
    let has_compute = |memory: &MemoryReport| memory.steady_part(MemoryPart::Compute).is_some();
    let is_without_compute = runs.iter().all(|(_, memory)| has_compute(memory) && is_resident(memory));
    let bytes = |memory: &MemoryReport| {
        let total = if has_own { memory.steady_own_bytes? } else { memory.steady_total(kind)? };
        let compute = memory.steady_part(MemoryPart::Compute).filter(|_| is_without_compute).unwrap_or(0);
        Some(total as f64 - compute as f64)
    };
    let mut points: Vec<(u64, f64)> =
        runs.iter().filter_map(|(length, memory)| Some((*length, bytes(memory)?))).collect();
    points.sort_by(|first, second| first.0.cmp(&second.0).then(first.1.total_cmp(&second.1)));
    let lengths: BTreeSet<u64> = points.iter().map(|(length, _)| *length).collect();
    let fit = robust_line(&points.iter().map(|&(length, y)| Point { x: length as f64, y }).collect::<Vec<_>>())?;
    let theories = runs.iter().filter_map(|(_, memory)| Some(memory.kv.theory_bytes_per_token? as f64));
    let theory = Spread::of(theories).map(|spread| spread.median);
    let is_sure = lengths.len() > 2;
    Some(ContextLine {
        engine: engine.to_owned(),
        model_id: model_id.to_owned(),
        kv_type: kv_type.map(str::to_owned),
        memory: if has_own { MemoryKind::Own } else { kind },
        is_without_compute,
        context_lengths: lengths.len(),
        points,
        bytes_per_token: fit.slope,
        low_bytes_per_token: is_sure.then_some(fit.low),
        high_bytes_per_token: is_sure.then_some(fit.high),
        base_bytes: fit.intercept,
        theory_bytes_per_token: theory,
        measured_by_theory: theory.map(|theory| fit.slope / theory),
    })
}
