//! An engine that computes nothing: it tells of a small model and records it through a real ring, so that recording,
//! building and experiments are tested without llama.cpp. The tests of every crate take this file in.

use std::path::Path;
use std::time::Duration;

use dwell_clock::monotonic_ns;
use dwell_events::engine::{Action, BatchToken, EngineEvent, Job, LoadedModel, StopReason};
use dwell_events::{LossKind, Phase};
use dwell_records::testing::{RecordBuilder, SmallModel};
use dwell_ring::Producer;

/// Time from one record to the next.
const TICK_NS: u64 = 1_000;
/// Tokens of every prompt.
pub const PROMPT_TOKENS: u64 = 1;
/// Losses that every run of the mock has, as those of llama.cpp do: what is outside of graphs.
#[allow(dead_code, reason = "not every test looks at losses")]
pub const USUAL_LOSSES: [LossKind; 3] = [LossKind::InputUpload, LossKind::LogitsReadBack, LossKind::WorkBuffer];

/// What becomes of the engine; the stem of its model's name says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It does its work.
    Works,
    /// It fails before it has loaded the model.
    FailsToLoad,
    /// It fails after this many steps.
    FailsAfter(u32),
    /// It ends after this many steps without a word.
    DiesAfter(u32),
    /// It stops computing after this many steps and waits for the end.
    HangsAfter(u32),
}

impl Fate {
    /// From the name of a model file: `works`, `fails-to-load`, `fails-after-2`, `dies-after-2`, `hangs-after-2`.
    pub fn of(model: &Path) -> Self {
        let stem = model.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let after = |word: &str| stem.strip_prefix(word)?.parse().ok();
        let later = after("fails-after-").map(Fate::FailsAfter);
        let later = later.or_else(|| after("dies-after-").map(Fate::DiesAfter));
        let later = later.or_else(|| after("hangs-after-").map(Fate::HangsAfter));
        later.unwrap_or(if stem == "fails-to-load" { Fate::FailsToLoad } else { Fate::Works })
    }

    fn steps_before(self) -> Option<u32> {
        match self {
            Fate::FailsAfter(steps) | Fate::DiesAfter(steps) | Fate::HangsAfter(steps) => Some(steps),
            Fate::Works | Fate::FailsToLoad => None,
        }
    }
}

/// The records of a job, in order.
pub struct MockEngine {
    records: RecordBuilder,
    model: SmallModel,
    time_ns: u64,
}

impl MockEngine {
    /// Everything that the engine records of a job whose first record comes at this time. `is_traced` says whether the
    /// graphs are recorded too.
    pub fn records(job: &Job, is_traced: bool, begin_ns: u64) -> RecordBuilder {
        let mut engine = Self { records: RecordBuilder::new(), model: SmallModel::new(), time_ns: begin_ns };
        let fate = Fate::of(&job.options.model);
        let begin_ns = engine.tick();
        engine.records = engine.records.hello(begin_ns);
        engine.tell(&EngineEvent::PhaseBegins { phase: Phase::WeightLoad });
        if fate == Fate::FailsToLoad {
            let message = "loading the mock model found nothing".to_owned();
            engine.tell(&EngineEvent::Failed { message, hints: vec!["use another mock".to_owned()] });
            return engine.records;
        }
        engine.tell(&EngineEvent::Loaded { model: loaded(job) });
        engine.tell(&EngineEvent::PhaseBegins { phase: Phase::Generation });
        let wanted = steps_of(job);
        let steps = fate.steps_before().map_or(wanted, |most| most.min(wanted));
        if is_traced && steps > 0 {
            let (graph, now_ns) = (engine.model.graph.clone(), engine.tick());
            engine.records = engine.records.graph(now_ns, &graph);
        }
        for step in 0..steps {
            engine.compute(step, is_traced);
        }
        engine.end(fate, steps);
        engine.records
    }

    fn tick(&mut self) -> u64 {
        self.time_ns += TICK_NS;
        self.time_ns
    }

    fn tell(&mut self, event: &EngineEvent) {
        let json = serde_json::to_vec(event).expect("an event is JSON");
        let now_ns = self.tick();
        self.records = std::mem::take(&mut self.records).engine(now_ns, &json);
    }

    /// One token at the position of its step: computed, and the next one chosen.
    fn compute(&mut self, step: u32, is_traced: bool) {
        let position = step as i32;
        let id = 1 + position;
        let tokens = vec![BatchToken { id, position, sequence: 0 }];
        self.tell(&EngineEvent::BatchBegins { step, tokens, outputs: 1 });
        if is_traced {
            let begin_ns = self.time_ns;
            let end_ns = self.tick();
            let computed = self.model.step(step, id.into(), begin_ns..end_ns);
            self.records = std::mem::take(&mut self.records).step(end_ns, &computed);
        }
        self.tell(&EngineEvent::BatchEnds { step });
        let (position, id, text) = (Some(position + 1), Some(id + 1), format!(" {}", id + 1));
        self.tell(&EngineEvent::Token { step, sequence: 0, position, id, text });
    }

    fn end(&mut self, fate: Fate, steps: u32) {
        match fate {
            Fate::Works => {
                self.tell(&EngineEvent::Stopped { sequence: 0, reason: StopReason::MaxTokens });
                let generated_tokens = steps.into();
                let (prompt_ns, decode_ns) = (TICK_NS, TICK_NS * u64::from(steps.saturating_sub(1)));
                self.tell(&EngineEvent::Finished {
                    prompt_tokens: PROMPT_TOKENS,
                    cached_tokens: 0,
                    prompt_ns,
                    generated_tokens,
                    decode_ns,
                });
                self.tell(&EngineEvent::PhaseBegins { phase: Phase::Teardown });
            }
            Fate::FailsAfter(_) => {
                let message = format!("the mock failed after {steps} steps");
                self.tell(&EngineEvent::Failed { message, hints: Vec::new() });
            }
            Fate::FailsToLoad | Fate::DiesAfter(_) | Fate::HangsAfter(_) => {}
        }
    }
}

/// Tokens that a job asks for: one step each, of which the first is the prompt's.
fn steps_of(job: &Job) -> u32 {
    let tokens = |action: &Action| if let Action::Generate { max_tokens, .. } = action { *max_tokens } else { 0 };
    job.actions.iter().map(tokens).sum::<u32>().min(SmallModel::CELLS as u32)
}

fn loaded(job: &Job) -> LoadedModel {
    LoadedModel {
        description: "mock".to_owned(),
        parameters: 80,
        size_bytes: 320,
        layers: 1,
        vocabulary: SmallModel::WORDS as u32,
        context_length: job.options.context_length,
        context_per_sequence: job.options.context_length,
        sliding_window: 0,
        runtime: "mock 1".to_owned(),
        system_info: String::new(),
        threads: 1,
    }
}

/// The worker's part: does the job that comes on standard input, into a ring in this folder.
#[allow(dead_code, reason = "not every test starts a worker")]
pub fn work(ring_dir: &Path, observer_pid: u32, is_traced: bool) -> std::process::ExitCode {
    let job: Job = serde_json::from_reader(std::io::stdin().lock()).expect("the observer sends a job");
    let mut ring = Producer::create(ring_dir, observer_pid, 1 << 20).expect("the run has a folder for rings");
    for frame in MockEngine::records(&job, is_traced, monotonic_ns()).ring_bytes() {
        ring.write(&[&frame]);
    }
    match Fate::of(&job.options.model) {
        Fate::Works | Fate::FailsAfter(_) | Fate::FailsToLoad => ring.close(),
        Fate::DiesAfter(_) => std::process::abort(),
        Fate::HangsAfter(_) => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
    }
    std::process::ExitCode::SUCCESS
}
