//! The runs of an experiment, in order.

use std::fmt;

use dwell_events::Hint;
use dwell_events::engine::KvType;
use dwell_events::server::StartKind;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Experiment;

/// Most runs of one experiment.
pub const MOST_RUNS: u64 = 100_000;

/// The runs of an experiment, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Runs, in the order in which they are done.
    pub runs: Vec<PlannedRun>,
}

/// One value of everything that is swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Combination {
    /// Positions in the KV cache, over all sequences.
    pub context_length: u32,
    /// Sequences side by side.
    pub batch_size: u32,
    /// Tokens generated after each prompt, per sequence.
    pub output_tokens: u32,
    /// Type of keys and values.
    pub kv_type: KvType,
    /// Whether attention runs as one fused operation.
    pub flash_attention: bool,
    /// Threads that compute.
    pub threads: u32,
    /// In which state the model is when the run begins.
    pub start: StartKind,
}

/// What a run is for. Runs of a kind are counted from 1 within their combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedKind {
    /// Warms up the machine and does not count.
    Warmup(u32),
    /// Is not recorded; what recorded runs are compared with.
    Untraced(u32),
    /// Counts.
    Repetition(u32),
}

/// One run to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlannedRun {
    /// Index in [`Experiment::models`].
    pub model_index: usize,
    /// What is set up.
    pub combination: Combination,
    /// What it is for.
    pub kind: PlannedKind,
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Combination { context_length, batch_size, output_tokens, kv_type, flash_attention, threads, start } = self;
        let (kv_type, flash) = (kv_type.name(), if *flash_attention { "on" } else { "off" });
        write!(f, "ctx{context_length}_batch{batch_size}_out{output_tokens}_{kv_type}_fa-{flash}_t{threads}")?;
        match start {
            StartKind::AsFound => Ok(()),
            start => write!(f, "_{}", start.name()),
        }
    }
}

impl fmt::Display for PlannedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlannedKind::Warmup(number) => write!(f, "warmup{number}"),
            PlannedKind::Untraced(number) => write!(f, "untraced{number}"),
            PlannedKind::Repetition(number) => write!(f, "rep{number}"),
        }
    }
}

impl PlannedRun {
    /// Name of the run, unique among the runs of its model.
    pub fn name(&self) -> String {
        format!("{}_{}", self.combination, self.kind)
    }
}

/// Why an experiment cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// It has too many runs.
    #[error("planning the experiment found {found} runs, needed at most {MOST_RUNS}")]
    TooManyRuns {
        /// Runs that it has.
        found: u128,
    },
}

impl Hint for PlanError {
    fn hints(&self) -> Vec<String> {
        match self {
            PlanError::TooManyRuns { .. } => {
                vec!["sweep fewer values, or split the experiment into several files".to_owned()]
            }
        }
    }
}

impl Experiment {
    /// How many runs the experiment has; nothing is built.
    pub fn run_count(&self) -> u128 {
        let sweep = &self.sweep;
        let lengths = [
            self.models.len(),
            sweep.context_lengths.len(),
            sweep.batch_sizes.len(),
            sweep.output_tokens.len(),
            sweep.kv_cache_types.len(),
            sweep.flash_attention.len(),
            sweep.threads.as_ref().map_or(1, Vec::len),
            sweep.starts.len(),
        ];
        let combinations = lengths.iter().fold(1u128, |product, &length| product.saturating_mul(length as u128));
        let kinds =
            u128::from(sweep.warmup_runs) + u128::from(self.telemetry.measure_slowdown) + u128::from(sweep.repetitions);
        combinations.saturating_mul(kinds)
    }

    /// The runs of the experiment, in order: by model, context length, batch size, output tokens, cache type, flash
    /// attention, threads and start; then warm-ups, the unrecorded run, repetitions.
    pub fn plan(&self, default_threads: u32) -> Result<Plan, PlanError> {
        let found = self.run_count();
        if found > u128::from(MOST_RUNS) {
            return Err(PlanError::TooManyRuns { found });
        }
        let combinations = self.sweep.combinations(default_threads);
        let runs = (0..self.models.len()).flat_map(|model_index| {
            combinations.iter().flat_map(move |&combination| {
                self.kinds().map(move |kind| PlannedRun { model_index, combination, kind })
            })
        });
        Ok(Plan { runs: runs.collect() })
    }

    /// The runs of one combination.
    fn kinds(&self) -> impl Iterator<Item = PlannedKind> + use<> {
        let untraced = u32::from(self.telemetry.measure_slowdown);
        (1..=self.sweep.warmup_runs)
            .map(PlannedKind::Warmup)
            .chain((1..=untraced).map(PlannedKind::Untraced))
            .chain((1..=self.sweep.repetitions).map(PlannedKind::Repetition))
    }
}

impl crate::Sweep {
    fn combinations(&self, default_threads: u32) -> Vec<Combination> {
        let default_threads = [default_threads];
        let all_threads = self.threads.as_deref().unwrap_or(&default_threads);
        let mut combinations = Vec::new();
        for &context_length in &self.context_lengths {
            for &batch_size in &self.batch_sizes {
                for &output_tokens in &self.output_tokens {
                    for &kv_type in &self.kv_cache_types {
                        for &flash_attention in &self.flash_attention {
                            for &threads in all_threads {
                                combinations.extend(self.starts.iter().map(|&start| Combination {
                                    context_length,
                                    batch_size,
                                    output_tokens,
                                    kv_type,
                                    flash_attention,
                                    threads,
                                    start,
                                }));
                            }
                        }
                    }
                }
            }
        }
        combinations
    }
}
