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

/// Context length and memory of the runs of every engine, model and type of cache.
fn families<'a>(
    groups: &'a BTreeMap<CompareKey, Vec<&'a RunResults>>,
) -> BTreeMap<Family<'a>, Vec<(u64, &'a MemoryReport)>> {
    let mut families: BTreeMap<Family<'a>, Vec<(u64, &'a MemoryReport)>> = BTreeMap::new();
    for (key, runs) in groups {
        let family = families.entry((&key.engine, &key.model_id, key.kv_type.as_deref())).or_default();
        let memories = runs.iter().filter_map(|run| run.metadata.memory.as_ref());
        family.extend(
            key.context_length.into_iter().flat_map(|length| memories.clone().map(move |memory| (length, memory))),
        );
    }
    families
}

/// A line for every family with at least two context lengths, each of the memory that says most of its cache.
pub(crate) fn context_lines(groups: &BTreeMap<CompareKey, Vec<&RunResults>>) -> Vec<ContextLine> {
    families(groups).into_iter().filter_map(|(names, runs)| line(names, &runs, LineBasis::best_of(&runs))).collect()
}

/// The same lines on one basis, as one axis needs it. If the best bases differ, it is PSS if all runs have it, else RSS;
/// compute buffers are then taken off all lines or none. None if a line is known on another basis only.
pub(crate) fn context_lines_on_one_basis(groups: &BTreeMap<CompareKey, Vec<&RunResults>>) -> Vec<ContextLine> {
    let mut families = families(groups);
    // Families with one context length have no line, and no say.
    families.retain(|names, runs| line(*names, runs, LineBasis::best_of(runs)).is_some());
    let bases: Vec<LineBasis> = families.values().map(|runs| LineBasis::best_of(runs)).collect();
    let Some(&first) = bases.first() else { return Vec::new() };
    let all: Vec<(u64, &MemoryReport)> = families.values().flatten().copied().collect();
    let has = |kind| all.iter().all(|(_, memory)| memory.steady_total(kind).is_some());
    let kind = [MemoryKind::Pss, MemoryKind::Rss].into_iter().find(|kind| has(*kind));
    let common =
        kind.map(|memory| LineBasis { memory, is_without_compute: bases.iter().all(|basis| basis.is_without_compute) });
    let Some(basis) = bases.iter().all(|basis| *basis == first).then_some(first).or(common) else { return Vec::new() };
    families.into_iter().filter_map(|(names, runs)| line(names, &runs, basis)).collect()
}

/// Which memory a line is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LineBasis {
    memory: MemoryKind,
    is_without_compute: bool,
}

impl LineBasis {
    /// Own memory if all runs have it, else PSS, else RSS.
    fn best_of(runs: &[(u64, &MemoryReport)]) -> Self {
        let has_own = runs.iter().all(|(_, memory)| memory.steady_own_bytes.is_some());
        let has_pss = runs.iter().all(|(_, memory)| memory.has_totals_of(MemoryKind::Pss));
        // Of reported buffers that are partly not resident, nobody knows how much is in the memory that was measured.
        let is_resident =
            |memory: &MemoryReport| memory.steady_part(MemoryPart::NotResident).is_none_or(|bytes| bytes == 0);
        let has_compute = |memory: &MemoryReport| memory.steady_part(MemoryPart::Compute).is_some();
        Self {
            memory: match (has_own, has_pss) {
                (true, _) => MemoryKind::Own,
                (false, true) => MemoryKind::Pss,
                (false, false) => MemoryKind::Rss,
            },
            is_without_compute: runs.iter().all(|(_, memory)| has_compute(memory) && is_resident(memory)),
        }
    }
}

fn line(
    (engine, model_id, kv_type): Family<'_>,
    runs: &[(u64, &MemoryReport)],
    LineBasis { memory: kind, is_without_compute }: LineBasis,
) -> Option<ContextLine> {
    let bytes = |memory: &MemoryReport| {
        let total = if kind == MemoryKind::Own { memory.steady_own_bytes? } else { memory.steady_total(kind)? };
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
        memory: kind,
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
