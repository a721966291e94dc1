//! How long an experiment takes and how much it writes, before it is run.

use dwell_config::{PlannedRun, PromptItem};
use dwell_store::{ManifestRow, ResultsManifest};
use serde::Serialize;

use crate::{Model, ModelFile, Setup};

/// Bytes of weights that a processor core is taken to go through in a second, where nothing better is known.
const ASSUMED_WEIGHT_BYTES_PER_CORE_S: f64 = 4e9;
/// Prompt tokens are computed together: that many times faster than generated ones.
const ASSUMED_PROMPT_SPEEDUP: f64 = 3.0;
/// Tokens that a server is taken to generate in a second, where nothing is known of its model.
const ASSUMED_SERVER_TOKENS_PER_S: f64 = 20.0;
/// Layers of a model of which nothing is known.
const ASSUMED_LAYERS: f64 = 32.0;
/// Starting a server, waiting for it, ending it.
const SERVER_OVERHEAD_S: f64 = 1.5;
/// Loading, building the tables, starting and ending the worker.
const OVERHEAD_S: f64 = 0.6;
/// Letters of a token, for prompts that have not been cut into tokens yet.
const BYTES_PER_TOKEN: f64 = 4.0;
/// Raw records and tables, of one layer in one step; measured with SmolLM2-135M, timed by op.
const BYTES_PER_LAYER_AND_STEP: f64 = 340.0;
/// What a run writes however short it is.
const BYTES_PER_RUN: f64 = 300_000.0;

/// What the estimate of the time is based on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpeedBasis {
    /// Earlier runs of the same models in the same results.
    EarlierRuns {
        /// How many.
        runs: usize,
    },
    /// The size of the models and an assumed speed of memory.
    Assumed,
}

/// Time and bytes of every run of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Seconds of each run, in the order of the plan.
    pub run_s: Vec<f64>,
    /// Bytes of each run, in the order of the plan.
    pub run_bytes: Vec<u64>,
    /// What the time is based on.
    pub basis: SpeedBasis,
}

impl Estimate {
    /// Estimates every run of an experiment.
    pub fn of(setup: &Setup) -> Self {
        // A manifest that cannot be read only costs the better estimate; running will say what is wrong with it.
        let earlier = ResultsManifest::open(&setup.results).rows().unwrap_or_default();
        let known: Vec<Option<f64>> = setup.models.iter().map(|model| earlier_tokens_per_s(model, &earlier)).collect();
        let is_earlier = |row: &&ManifestRow| setup.models.iter().any(|model| model.id == row.model_id);
        let runs = earlier.iter().filter(is_earlier).filter(|row| row.avg_tok_per_s.is_some()).count();
        let basis =
            if known.iter().all(Option::is_some) { SpeedBasis::EarlierRuns { runs } } else { SpeedBasis::Assumed };
        let work = |run: &PlannedRun| Work::of(run, &setup.prompts);
        let model = |run: &PlannedRun| &setup.models[run.model_index];
        let seconds = |run: &PlannedRun| {
            let seconds = work(run).seconds(run, model(run), known[run.model_index]);
            setup.experiment.telemetry.baseline_secs + seconds
        };
        let bytes = |run: &PlannedRun| work(run).bytes(model(run));
        let runs = &setup.plan.runs;
        Self { run_s: runs.iter().map(seconds).collect(), run_bytes: runs.iter().map(bytes).collect(), basis }
    }

    /// Seconds of all runs.
    pub fn total_s(&self) -> f64 {
        self.run_s.iter().sum()
    }

    /// Bytes of all runs.
    pub fn total_bytes(&self) -> u64 {
        self.run_bytes.iter().copied().fold(0, u64::saturating_add)
    }
}

/// The mean over earlier runs of a model that came to their end.
fn earlier_tokens_per_s(model: &Model, rows: &[ManifestRow]) -> Option<f64> {
    let of_model = rows.iter().filter(|row| row.model_id == model.id);
    let rates: Vec<f64> = of_model.filter_map(|row| row.avg_tok_per_s).filter(|rate| rate.is_finite()).collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

/// Tokens of one run.
struct Work {
    prompt_tokens: f64,
    decode_steps: f64,
    turns: f64,
}

impl Work {
    fn of(run: &PlannedRun, prompts: &[PromptItem]) -> Self {
        let combination = &run.combination;
        let sequences = f64::from(combination.batch_size);
        let mut work = Self { prompt_tokens: 0.0, decode_steps: 0.0, turns: 0.0 };
        for prompt in prompts {
            let turns = 1.0 + prompt.follow_ups.len() as f64;
            let follow_up_bytes: usize = prompt.follow_ups.iter().map(String::len).sum();
            let first = match prompt.fill_context {
                Some(share) => share * f64::from(combination.context_length) / sequences,
                None => prompt.text.len() as f64 / BYTES_PER_TOKEN,
            };
            work.prompt_tokens += (first + follow_up_bytes as f64 / BYTES_PER_TOKEN) * sequences;
            work.decode_steps += turns * f64::from(combination.output_tokens);
            work.turns += turns;
        }
        work
    }

    fn seconds(&self, run: &PlannedRun, model: &Model, known_tokens_per_s: Option<f64>) -> f64 {
        let cores = f64::from(run.combination.threads);
        let of_file = |file: &ModelFile| ASSUMED_WEIGHT_BYTES_PER_CORE_S * cores / file.weights_bytes.max(1) as f64;
        let assumed = model.file.as_ref().map_or(ASSUMED_SERVER_TOKENS_PER_S, of_file);
        // Small models do not come near the speed of memory.
        let tokens_per_s = known_tokens_per_s.unwrap_or(assumed.min(1000.0)).max(1e-3);
        let overhead_s = if model.engine.is_embedded() { OVERHEAD_S } else { OVERHEAD_S + SERVER_OVERHEAD_S };
        overhead_s + self.decode_steps / tokens_per_s + self.prompt_tokens / (tokens_per_s * ASSUMED_PROMPT_SPEEDUP)
    }

    fn bytes(&self, model: &Model) -> u64 {
        // Each prompt takes a few graphs of up to 512 tokens.
        let steps = self.decode_steps + self.turns + self.prompt_tokens / 512.0;
        let layers = model.file.as_ref().map_or(ASSUMED_LAYERS, |file| file.info.layers as f64);
        (BYTES_PER_RUN + steps * layers * BYTES_PER_LAYER_AND_STEP) as u64
    }
}
