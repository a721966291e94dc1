//! What memory is for: weights, KV cache, compute, and what nothing accounts for.

use dwell_events::server::{BufferKind, ReportedBuffer};
use serde::{Deserialize, Serialize};

use super::MemoryReport;
use super::growth::SAMPLES_MIN;
use super::inputs::MemoryInputs;
use super::kv::{KvFigures, reported_bytes};
use super::series::{MemoryKind, Series};
use super::token_times::Counts;
use super::verdict::VerdictKind;
use crate::Basis;

dwell_events::choices! {
    /// What memory is for.
    MemoryPart {
        /// Weights mapped from their file, as far as they are resident.
        WeightsMapped = "weights_mapped",
        /// Weights in memory of their own.
        WeightsCopied = "weights_copied",
        /// KV cache.
        KvCache = "kv_cache",
        /// State of layers without attention.
        RecurrentState = "recurrent_state",
        /// Intermediate results.
        Compute = "compute",
        /// Other buffers that the runtime reports.
        Other = "other",
        /// Of the buffers above, what is not resident: pages that nobody has touched yet. Fewer than none, because they are
        /// counted above in full.
        NotResident = "not_resident",
        /// All the rest: programs and libraries, heaps, what the runtime does not report.
        Unaccounted = "unaccounted",
    }
}

impl MemoryPart {
    /// What tables for people call it.
    pub fn label(self) -> &'static str {
        match self {
            Self::WeightsMapped => "weights (mapped)",
            Self::WeightsCopied => "weights (copied)",
            Self::KvCache => "KV cache",
            Self::RecurrentState => "recurrent state",
            Self::Compute => "compute",
            Self::Other => "other",
            Self::NotResident => "not resident",
            Self::Unaccounted => "unaccounted",
        }
    }
}

/// One part of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitPart {
    /// What it is for.
    pub part: MemoryPart,
    /// Bytes; fewer than none only for what the other parts hold too much of ([`MemoryPart::NotResident`]).
    pub bytes: i64,
    /// How they were obtained.
    pub basis: Basis,
}

/// Memory at one moment. The parts add up to the total.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// The moment, that of a sample.
    pub time_ns: u64,
    /// Which memory of the processes the total is of; memory on GPUs is added to it.
    pub total_kind: MemoryKind,
    /// The total.
    pub total_bytes: u64,
    /// The parts.
    pub parts: Vec<SplitPart>,
    /// Whether buffers that are known are more than there was: some of them are not resident.
    pub is_overfull: bool,
}

/// Resident memory by PSS from which on most memory is shared.
const SHARING: f64 = 1.5;

/// PSS where it was sampled often enough while tokens came, for shared pages count once in it; the kernel takes long to
/// give it, so it has fewer samples than the rest.
fn total_kind(inputs: &MemoryInputs<'_>) -> MemoryKind {
    let (first_ns, last_ns) = inputs.tokens.span().unwrap_or((0, u64::MAX));
    let sampled = inputs.series.of(MemoryKind::Pss).between(first_ns, last_ns).len();
    let enough = if shares_most_memory(inputs) { 1 } else { SAMPLES_MIN };
    if sampled < enough { MemoryKind::Rss } else { MemoryKind::Pss }
}

/// Processes of a browser share half of their memory: a sum of resident memory is then farther from the truth than a few samples
/// of PSS.
fn shares_most_memory(inputs: &MemoryInputs<'_>) -> bool {
    let peak = |kind| inputs.series.of(kind).peak().map_or(0, |(_, bytes)| bytes);
    let (rss, pss) = (peak(MemoryKind::Rss), peak(MemoryKind::Pss));
    pss > 0 && rss as f64 > SHARING * pss as f64
}

/// Memory of the processes and on GPUs, over time.
pub(super) fn totals(inputs: &MemoryInputs<'_>) -> Series {
    totals_of(inputs, total_kind(inputs))
}

/// The same with this kind of memory of the processes.
pub(super) fn totals_of(inputs: &MemoryInputs<'_>, kind: MemoryKind) -> Series {
    let mut totals = Series::default();
    for &(time_ns, bytes) in inputs.series.of(kind).points() {
        let gpu = inputs.series.of(MemoryKind::Gpu).at(time_ns).map_or(0, |value| value.bytes);
        totals.push(time_ns, bytes.saturating_add(gpu));
    }
    totals
}

/// What memory was for at a moment of the totals.
pub(super) fn split(
    inputs: &MemoryInputs<'_>,
    (time_ns, total_bytes): (u64, u64),
    kv: &KvFigures,
    verdict: VerdictKind,
    positions: &Counts,
) -> Split {
    let has_gpu = !inputs.series.of(MemoryKind::Gpu).points().is_empty();
    let seen: Vec<&ReportedBuffer> =
        inputs.buffers.iter().filter(|buffer| has_gpu || is_in_host_memory(&buffer.device)).collect();
    let reported = |kind| reported_bytes(seen.iter().copied(), kind).map(|bytes| (bytes, Basis::Reported));
    let private = private_bytes(inputs, time_ns).map(|bytes| bytes.min(total_bytes));
    let [mapped, copied] = weights(inputs, &seen, time_ns, total_bytes - private.unwrap_or(0));
    let is_kv_elsewhere =
        reported(BufferKind::KvCache).is_none() && reported_bytes(inputs.buffers, BufferKind::KvCache).is_some();
    let kv_cache = reported(BufferKind::KvCache)
        .or_else(|| kv_by_theory(inputs, kv, verdict, positions.reached_by(time_ns)).filter(|_| !is_kv_elsewhere));
    let state = reported(BufferKind::RecurrentState).or_else(|| Some((inputs.theory?.state_bytes?, Basis::Inferred)));
    let state = state.filter(|(bytes, _)| *bytes > 0);
    let known = [
        (MemoryPart::WeightsMapped, mapped),
        (MemoryPart::WeightsCopied, copied),
        (MemoryPart::KvCache, kv_cache),
        (MemoryPart::RecurrentState, state),
        (MemoryPart::Compute, reported(BufferKind::Compute)),
        (MemoryPart::Other, reported(BufferKind::Other)),
    ];
    let mut parts: Vec<SplitPart> = known
        .into_iter()
        .filter_map(|(part, found)| found.map(|(bytes, basis)| SplitPart { part, bytes: signed(bytes), basis }))
        .collect();
    let accounted = parts.iter().map(|part| part.bytes).fold(0, i64::saturating_add);
    let mapped_bytes = signed(mapped.map_or(0, |(bytes, _)| bytes));
    let room = private.map_or(signed(total_bytes).saturating_sub(mapped_bytes), signed);
    let excess = excess_bytes(accounted.saturating_sub(mapped_bytes), room);
    if excess > 0 {
        parts.push(SplitPart { part: MemoryPart::NotResident, bytes: -excess, basis: Basis::Inferred });
    }
    let rest = signed(total_bytes).saturating_sub(accounted).saturating_add(excess);
    parts.push(SplitPart { part: MemoryPart::Unaccounted, bytes: rest, basis: Basis::Inferred });
    Split { time_ns, total_kind: total_kind(inputs), total_bytes, parts, is_overfull: excess > 0 }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Bytes of buffers that cannot be resident. What a runtime allocates becomes resident page by page as it is written, and
/// nobody counts the resident pages of a single buffer; but all buffers together have no more of them than there is memory
/// that is not backed by a file.
fn excess_bytes(buffers: i64, room: i64) -> i64 {
    buffers.saturating_sub(room).max(0)
}

/// Resident memory that is not backed by a file, on this machine and on GPUs; none if it was not sampled.
fn private_bytes(inputs: &MemoryInputs<'_>, time_ns: u64) -> Option<u64> {
    let at = |kind| inputs.series.of(kind).at(time_ns).map(|value| value.bytes);
    let others = [MemoryKind::Shmem, MemoryKind::Gpu].into_iter().filter_map(at);
    Some(others.fold(at(MemoryKind::Anon)?, u64::saturating_add))
}

type Found = Option<(u64, Basis)>;

/// Mapped weights, of which no more can be resident than file-backed memory is, and copied ones. Pages that others map too
/// are in PSS in part only, so that no more can be in the total than it has room for beside private memory.
fn weights(inputs: &MemoryInputs<'_>, seen: &[&ReportedBuffer], time_ns: u64, room_bytes: u64) -> [Found; 2] {
    let resident_file = inputs.series.of(MemoryKind::File).at(time_ns).map(|value| value.bytes);
    let resident = |mapped: u64| match resident_file {
        Some(file) => (mapped.min(file).min(room_bytes), Basis::Sampled),
        None => (mapped.min(room_bytes), Basis::Inferred),
    };
    let of = |is_mapped| {
        reported_bytes(seen.iter().copied().filter(|buffer| buffer.is_mapped == is_mapped), BufferKind::Weights)
    };
    let is_reported = reported_bytes(inputs.buffers, BufferKind::Weights).is_some();
    match inputs.weights {
        _ if is_reported => [of(true).map(resident), of(false).map(|bytes| (bytes, Basis::Reported))],
        Some(weights) if weights.is_mapped == Some(true) => [Some(resident(weights.bytes)), None],
        Some(weights) if weights.is_mapped == Some(false) => [None, Some((weights.bytes, Basis::Inferred))],
        _ => [None, None],
    }
}

/// The whole cache, unless memory grows with it; then what the tokens so far take.
fn kv_by_theory(inputs: &MemoryInputs<'_>, kv: &KvFigures, verdict: VerdictKind, positions: f64) -> Found {
    let grows = match verdict {
        VerdictKind::KvGrowthExplained => true,
        // Memory that grows for another reason says nothing of a cache that is known to have its place.
        VerdictKind::UnexplainedGrowth => inputs.traced_kv.is_none(),
        _ => false,
    };
    if !grows {
        return kv.allocated_bytes.zip(kv.allocated_basis);
    }
    let bytes = kv.theory_bytes_per_token? as f64 * positions;
    Some((bytes.round() as u64, Basis::Inferred))
}

/// Whether a device of this name has its memory in that of the processes. Apple's GPUs share it.
fn is_in_host_memory(device: &str) -> bool {
    let name = device.to_lowercase();
    ["cpu", "host", "metal", "blas"].iter().any(|known| name.contains(known))
}

impl MemoryReport {
    /// Whether its totals are of this kind, or can be told in it.
    pub fn has_totals_of(&self, kind: MemoryKind) -> bool {
        let mut splits = self.steady.iter().chain(&self.peak);
        kind == MemoryKind::Rss || splits.all(|split| split.total_kind == kind)
    }

    /// The total at the steady state, in this kind of memory.
    pub fn steady_total(&self, kind: MemoryKind) -> Option<u64> {
        let own = self.steady.as_ref().filter(|split| split.total_kind == kind).map(|split| split.total_bytes);
        own.or_else(|| self.rss.steady_bytes.filter(|_| kind == MemoryKind::Rss))
    }

    /// The highest total among the samples, in this kind of memory.
    pub fn peak_total(&self, kind: MemoryKind) -> Option<u64> {
        let own = self.peak.as_ref().filter(|split| split.total_kind == kind).map(|split| split.total_bytes);
        own.or_else(|| self.rss.peak_bytes.filter(|_| kind == MemoryKind::Rss))
    }

    /// Bytes of a part at the steady state, of a total in this kind of memory. Parts that the runtime reports are the same in
    /// every kind; what is resident of mapped weights, and the rest, are not. None if the report does not tell them.
    pub fn steady_part_of(&self, part: MemoryPart, kind: MemoryKind) -> Option<i64> {
        let split = self.steady.as_ref()?;
        match part {
            _ if split.total_kind == kind => self.steady_part(part),
            MemoryPart::WeightsMapped => self.resident_weights_in_rss().filter(|_| kind == MemoryKind::Rss),
            MemoryPart::Unaccounted if kind == MemoryKind::Rss => {
                let total = signed(self.rss.steady_bytes?).saturating_sub(signed(split.total_bytes));
                let own_weights = self.steady_part(MemoryPart::WeightsMapped).unwrap_or(0);
                let weights = match own_weights {
                    0 => 0,
                    own => self.resident_weights_in_rss()?.saturating_sub(own),
                };
                Some(self.steady_part(part)?.saturating_add(total).saturating_sub(weights))
            }
            MemoryPart::Unaccounted => None,
            // It is what memory without a file cannot hold, and no kind divides that among processes.
            MemoryPart::NotResident => self.steady_part(part).filter(|_| self.steady_own_bytes.is_some()),
            _ => self.steady_part(part),
        }
    }

    /// Mapped weights in resident memory, where every process counts a shared page in full: no more than is reported, nor
    /// than memory with a file behind it.
    fn resident_weights_in_rss(&self) -> Option<i64> {
        // Memory on GPUs is in the totals, and neither own memory nor that of files.
        if self.peaks.gpu_bytes.is_some() {
            return None;
        }
        let is_mapped = |buffer: &&ReportedBuffer| buffer.is_mapped;
        let mapped = reported_bytes(self.buffers.iter().filter(is_mapped), BufferKind::Weights)?;
        let file = self.rss.steady_bytes?.checked_sub(self.steady_own_bytes?)?;
        Some(signed(mapped.min(file)))
    }

    /// Bytes of a part at the steady state. Runs recorded before it was told apart have what is not resident as a rest of
    /// fewer than no bytes.
    pub fn steady_part(&self, part: MemoryPart) -> Option<i64> {
        let split = self.steady.as_ref()?;
        let bytes = |wanted| split.parts.iter().find(|found| found.part == wanted).map(|found| found.bytes);
        match part {
            MemoryPart::Unaccounted => bytes(part).map(|rest| rest.max(0)),
            MemoryPart::NotResident => bytes(part).or(bytes(MemoryPart::Unaccounted).filter(|rest| *rest < 0)),
            _ => bytes(part),
        }
    }
}
