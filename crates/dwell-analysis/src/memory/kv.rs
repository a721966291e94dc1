//! The KV cache: what it takes by theory, what was measured, and how much of it was used.

use dwell_events::RequestSpan;
use dwell_events::server::{BufferKind, ReportedBuffer};
use serde::{Deserialize, Serialize};

use super::growth::Growth;
use super::inputs::MemoryInputs;
use super::verdict::{Verdict, VerdictKind};
use crate::Basis;

/// The KV cache of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KvFigures {
    /// Keys and values of one token, by the shape of the model.
    pub theory_bytes_per_token: Option<u64>,
    /// Where that comes from.
    pub theory_basis: Option<Basis>,
    /// Bytes per token that were measured: of traced cells, else the growth of memory.
    pub measured_bytes_per_token: Option<f64>,
    /// How they were.
    pub measured_basis: Option<Basis>,
    /// Theory by measurement: 1 if a token takes what it must, less if it takes more.
    pub efficiency: Option<f64>,
    /// The whole cache: what the runtime reports, else theory at the context length.
    pub allocated_bytes: Option<u64>,
    /// Which of the two.
    pub allocated_basis: Option<Basis>,
    /// The most that was in use: of traced cells, else theory times the tokens of the run.
    pub used_bytes: Option<u64>,
    /// Which of the two.
    pub used_basis: Option<Basis>,
    /// Bytes used by bytes allocated, where the cache is preallocated.
    pub used_share: Option<f64>,
}

/// What was measured, and how.
type Measured<T> = (T, Basis);

impl KvFigures {
    pub(super) fn of(inputs: &MemoryInputs<'_>, growth: Option<&Growth>, verdict: &Verdict) -> Self {
        let theory = inputs.theory.filter(|theory| theory.bytes_per_token > 0);
        let per_token = theory.map(|theory| theory.bytes_per_token);
        let measured = traced_bytes_per_token(inputs).or_else(|| grown_bytes_per_token(growth?, verdict.kind));
        let allocated = allocated(inputs);
        let used = used(inputs, allocated.map(|(bytes, _)| bytes));
        let is_filled = verdict.kind == VerdictKind::Preallocated || inputs.traced_kv.is_some();
        let used_share = used.zip(allocated).filter(|_| is_filled);
        Self {
            theory_bytes_per_token: per_token,
            theory_basis: theory.map(|theory| theory.basis),
            measured_bytes_per_token: measured.map(|(bytes, _)| bytes),
            measured_basis: measured.map(|(_, basis)| basis),
            efficiency: per_token.zip(measured).map(|(theory, (bytes, _))| theory as f64 / bytes),
            allocated_bytes: allocated.map(|(bytes, _)| bytes),
            allocated_basis: allocated.map(|(_, basis)| basis),
            used_bytes: used.map(|(bytes, _)| bytes),
            used_basis: used.map(|(_, basis)| basis),
            used_share: used_share.map(|((used, _), (allocated, _))| used as f64 / allocated as f64),
        }
    }
}

/// Bytes of the buffers of one kind; none if there is none.
pub(super) fn reported_bytes<'a>(
    buffers: impl IntoIterator<Item = &'a ReportedBuffer>,
    kind: BufferKind,
) -> Option<u64> {
    let sizes = buffers.into_iter().filter(|buffer| buffer.kind == kind).map(|buffer| buffer.bytes);
    sizes.reduce(u64::saturating_add).filter(|bytes| *bytes > 0)
}

/// Tokens that were put into the cache over the run: of prompts, without those that were in it, and generated ones.
pub(super) fn tokens_computed(inputs: &MemoryInputs<'_>) -> u64 {
    let listed = inputs.tokens.prompt_tokens();
    let told = || inputs.requests.iter().filter_map(RequestSpan::computed_prompt_tokens).sum();
    let prompts: u64 = if listed > 0 { listed } else { told() };
    prompts.saturating_add(inputs.tokens.generated())
}

fn traced_bytes_per_token(inputs: &MemoryInputs<'_>) -> Option<Measured<f64>> {
    inputs.traced_kv?.bytes_per_token().map(|bytes| (bytes, Basis::Exact))
}

/// Growth that the cache has a part in.
fn grown_bytes_per_token(growth: &Growth, verdict: VerdictKind) -> Option<Measured<f64>> {
    let is_growth = matches!(verdict, VerdictKind::KvGrowthExplained | VerdictKind::UnexplainedGrowth);
    is_growth.then_some((growth.bytes_per_token, Basis::Sampled))
}

fn allocated(inputs: &MemoryInputs<'_>) -> Option<Measured<u64>> {
    let reported = reported_bytes(inputs.buffers, BufferKind::KvCache).map(|bytes| (bytes, Basis::Reported));
    reported.or_else(|| Some((inputs.theory?.cache_bytes.filter(|bytes| *bytes > 0)?, Basis::Inferred)))
}

/// A cache cannot hold more than it has.
fn used(inputs: &MemoryInputs<'_>, allocated: Option<u64>) -> Option<Measured<u64>> {
    let traced = inputs.tokens.live_kv_bytes().max().filter(|bytes| inputs.traced_kv.is_some() && *bytes > 0);
    let by_theory = || {
        let bytes = inputs.theory?.bytes_per_token.saturating_mul(tokens_computed(inputs));
        Some((bytes.min(allocated.unwrap_or(u64::MAX)), Basis::Inferred))
    };
    traced.map(|bytes| (bytes, Basis::Exact)).or_else(by_theory).filter(|(bytes, _)| *bytes > 0)
}
