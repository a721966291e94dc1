//! What an engine is asked to do, and what it reports while doing it.
//!
//! A [`Job`] goes to the worker process as JSON; [`EngineEvent`]s come back through the recorder's channel, in
//! order with the graphs they belong to. They are rare (a few per token), so they are JSON too.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::page_sample::PageSample;
use crate::server::{ReportedBuffer, RequestTimings, ServerDescription, ServerOptions};
use crate::{Phase, choices};

pub use crate::engines::{Ending, EngineKind, EngineProfile, ModelSource, Reach, RecorderAccess};

/// Environment variable with a file that holds the job of a worker whose standard input belongs to another program.
pub const JOB_FILE_VARIABLE: &str = "DWELL_JOB_FILE";

/// Something that does a job. The worker process has one, chosen by [`Job::engine`].
pub trait Engine {
    /// Does all of the job and tells the observer about it. An interruption is no error.
    fn run(&mut self, job: &Job, observer: &mut dyn JobObserver) -> Result<(), EngineFailure>;
}

/// What a run of a job tells the outside; called on the thread that does the job.
///
/// Neither function may panic: load progress of the embedded engine comes out of C, through which a panic cannot unwind.
pub trait JobObserver {
    /// Something happened, just now.
    fn event(&mut self, event: EngineEvent);

    /// Something happened at this CLOCK_MONOTONIC time, and is told later: a driver of servers hands its events through
    /// other threads, which may wait for a processor meanwhile.
    fn event_at(&mut self, event: EngineEvent, _time_ns: u64) {
        self.event(event);
    }

    /// Whether the job should end early; asked between computations, and while waiting.
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// Why a job could not be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineFailure {
    /// What was being done, what was found, what was needed.
    pub message: String,
    /// What to do about it.
    pub hints: Vec<String>,
}

choices! {
    /// Type of the values in the KV cache, widest first; the names are those of llama.cpp.
    KvType {
        /// 16-bit floats.
        F16 = "f16",
        /// 8-bit blocks of 32 with a scale: 34 bytes.
        Q8_0 = "q8_0",
        /// 4-bit blocks of 32 with a scale: 18 bytes.
        Q4_0 = "q4_0",
    }
}

impl KvType {
    /// Values per block and bytes per block.
    pub fn block(self) -> (u64, u64) {
        match self {
            KvType::F16 => (1, 2),
            KvType::Q8_0 => (32, 34),
            KvType::Q4_0 => (32, 18),
        }
    }

    /// Bytes of a row of this many values, or `None` if the row is not a whole number of blocks.
    pub fn row_bytes(self, values: u64) -> Option<u64> {
        let (block_values, block_bytes) = self.block();
        values.is_multiple_of(block_values).then(|| values / block_values * block_bytes)
    }
}

choices! {
    /// How finely the accesses inside a step are timed, coarsest first; the numbers of records are those of this order.
    TimeResolution {
        /// All accesses of a graph carry the time at which the graph was done.
        Step = "step",
        /// Accesses carry the time at which their layer was done.
        Layer = "layer",
        /// Accesses carry the time at which their operation was done.
        Op = "op",
    }
}

/// How the model and its context are set up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineOptions {
    /// GGUF file.
    pub model: PathBuf,
    /// Positions that the KV cache holds, over all sequences.
    pub context_length: u32,
    /// Threads of prompt processing and decoding.
    pub threads: u32,
    /// Most tokens given to the engine at once.
    pub batch_size: u32,
    /// Most tokens computed in one graph.
    pub micro_batch_size: u32,
    /// Sequences generated side by side from the same prompt.
    pub parallel: u32,
    /// Whether the sequences share one pool of cells rather than having one stream each.
    pub kv_unified: bool,
    /// Type of the keys.
    pub kv_type_k: KvType,
    /// Type of the values.
    pub kv_type_v: KvType,
    /// Whether attention runs as one fused operation.
    pub flash_attention: bool,
    /// Whether weights are mapped from the file rather than copied.
    pub mmap: bool,
    /// Whether weights may be rearranged at load for faster kernels.
    pub repack: bool,
    /// Whether sliding-window layers keep a cache of the full context length.
    pub full_window_cache: bool,
    /// Whether a full context drops its older half and goes on, rather than ending the generation.
    pub context_shift: bool,
    /// Seed of the sampler.
    pub seed: u32,
    /// 0 chooses the likeliest token; higher values draw.
    pub temperature: f32,
    /// Whether the prompt is wrapped in the model's chat template.
    pub chat_template: bool,
    /// Whether generation goes on after an end-of-generation token.
    pub ignore_end: bool,
    /// Whether the last layer and the logits are computed for every position of a prompt, not for its last one alone.
    #[serde(default)]
    pub all_positions: bool,
    /// How finely accesses are timed.
    pub time_resolution: TimeResolution,
}

impl EngineOptions {
    /// A model with what is usual: one sequence of 2048 positions in f16, the likeliest token, one thread.
    pub fn new(model: PathBuf) -> Self {
        Self {
            model,
            context_length: 2048,
            threads: 1,
            batch_size: 2048,
            micro_batch_size: 512,
            parallel: 1,
            kv_unified: false,
            kv_type_k: KvType::F16,
            kv_type_v: KvType::F16,
            flash_attention: true,
            mmap: true,
            repack: true,
            full_window_cache: false,
            context_shift: false,
            seed: 0,
            temperature: 0.0,
            chat_template: false,
            ignore_end: false,
            all_positions: false,
            time_resolution: TimeResolution::Op,
        }
    }
}

/// One thing for the engine to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum Action {
    /// Add a text to the end of these sequences and process it.
    Prompt {
        /// The text.
        text: String,
        /// Sequences to add it to.
        sequences: Vec<i32>,
        /// Tokens that the prompt is to have: its text is repeated and then cut. `None` takes it as it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fill_to_tokens: Option<u32>,
    },
    /// Decode tokens, one per step and sequence, until all sequences have ended or have this many.
    Generate {
        /// Most tokens per sequence.
        max_tokens: u32,
        /// Sequences to continue.
        sequences: Vec<i32>,
    },
    /// Remove positions `[from, to)` of a sequence; `to` < 0 means to the end.
    Remove {
        /// Sequence to remove from.
        sequence: i32,
        /// First position.
        from: i32,
        /// Position after the last.
        to: i32,
    },
    /// Let one sequence share or copy the cells of another.
    Copy {
        /// Sequence that has the cells.
        source: i32,
        /// Sequence that gets them.
        target: i32,
    },
    /// Move positions `[from, to)` of a sequence by `delta`; the keys are rotated before the next step.
    Shift {
        /// Sequence to shift.
        sequence: i32,
        /// First position.
        from: i32,
        /// Position after the last; < 0 means to the end.
        to: i32,
        /// Distance, negative towards the beginning.
        delta: i32,
    },
}

/// A whole piece of work for a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// What does it.
    #[serde(default)]
    pub engine: EngineKind,
    /// How a runtime other than the embedded one is reached or started.
    #[serde(default)]
    pub server: ServerOptions,
    /// How to set up.
    pub options: EngineOptions,
    /// What to do, in order.
    pub actions: Vec<Action>,
}

impl Job {
    /// Work for the embedded engine.
    pub fn embedded(options: EngineOptions, actions: Vec<Action>) -> Self {
        Self { engine: EngineKind::LlamaCpp, server: ServerOptions::default(), options, actions }
    }
}

/// Tokens of all prompts and answers of a job, and what they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkTotals {
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Those of them that were found in a cache and not computed.
    pub cached_tokens: u64,
    /// Time in prompt steps.
    pub prompt_ns: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Time in decode steps.
    pub decode_ns: u64,
}

/// A token in a batch, before it is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchToken {
    /// Id in the vocabulary.
    pub id: i32,
    /// Position in its sequence.
    pub position: i32,
    /// Sequence.
    pub sequence: i32,
}

/// Why a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model said so.
    EndOfGeneration,
    /// As many tokens as asked for.
    MaxTokens,
    /// No room in the context.
    ContextFull,
    /// The user interrupted.
    Interrupted,
    /// A server went on long after as many tokens as asked for, until dwell ended the request.
    LimitIgnored,
}

/// Facts about a loaded model and its context.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadedModel {
    /// llama.cpp's description, such as `llama 256M Q4_1`; its size classes are coarse.
    pub description: String,
    /// Parameters.
    pub parameters: u64,
    /// Bytes of all tensors.
    pub size_bytes: u64,
    /// Layers.
    pub layers: u32,
    /// Vocabulary.
    pub vocabulary: u32,
    /// Context length that the context really has.
    pub context_length: u32,
    /// Context length per sequence.
    pub context_per_sequence: u32,
    /// Window of sliding-window layers; 0 if there are none.
    pub sliding_window: u32,
    /// Version of the runtime.
    pub runtime: String,
    /// What the runtime was built for, such as `AVX2 = 1 | FMA = 1`.
    pub system_info: String,
    /// Processor threads really used.
    pub threads: u32,
}

/// What a worker reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum EngineEvent {
    /// A phase begins; the one before it ends.
    PhaseBegins {
        /// The phase.
        phase: Phase,
    },
    /// Loading has come this far.
    LoadProgress {
        /// From 0 to 1.
        fraction: f32,
    },
    /// The model is loaded and its context made.
    Loaded {
        /// What was loaded.
        model: LoadedModel,
    },
    /// A text was cut into tokens.
    Prompt {
        /// Ids and texts of the tokens.
        tokens: Vec<(i32, String)>,
    },
    /// These tokens are about to be computed.
    BatchBegins {
        /// 0 for a prompt, n for the n-th decoded token.
        step: u32,
        /// The tokens, in the order given to the engine.
        tokens: Vec<BatchToken>,
        /// How many of them have their logits read back.
        outputs: u32,
    },
    /// The batch was computed and its tokens chosen.
    BatchEnds {
        /// The step that ended.
        step: u32,
    },
    /// A token was chosen.
    Token {
        /// Step whose computation gave it.
        step: u32,
        /// Sequence it belongs to.
        sequence: i32,
        /// Position that it will have; a server may not say.
        position: Option<i32>,
        /// Id in the vocabulary; a server may not say.
        id: Option<i32>,
        /// Its text; what is not yet whole UTF-8 comes with a later token.
        text: String,
    },
    /// Positions were removed from a sequence.
    KvRemoved {
        /// Sequence, or < 0 for all.
        sequence: i32,
        /// First position.
        from: i32,
        /// Position after the last; < 0 means to the end.
        to: i32,
    },
    /// A sequence got the cells of another.
    KvCopied {
        /// Sequence that has the cells.
        source: i32,
        /// Sequence that gets them.
        target: i32,
    },
    /// Positions of a sequence were moved.
    KvShifted {
        /// Sequence that was shifted.
        sequence: i32,
        /// First position before the shift.
        from: i32,
        /// Position after the last; < 0 means to the end.
        to: i32,
        /// Distance.
        delta: i32,
    },
    /// A sequence ended.
    Stopped {
        /// The sequence.
        sequence: i32,
        /// Why.
        reason: StopReason,
    },
    /// Everything was done.
    Finished {
        /// Tokens of all prompts.
        prompt_tokens: u64,
        /// Those of them that were found in a cache and not computed.
        #[serde(default)]
        cached_tokens: u64,
        /// Time in prompt steps.
        prompt_ns: u64,
        /// Tokens generated.
        generated_tokens: u64,
        /// Time in decode steps.
        decode_ns: u64,
    },
    /// This process, and all that it starts, belongs to the engine.
    ProcessFound {
        /// Process id.
        pid: u32,
        /// What it does: `server`, `runner`.
        role: String,
    },
    /// A server answers.
    Serving {
        /// What it says of itself.
        server: Box<ServerDescription>,
    },
    /// A request is sent.
    RequestBegins {
        /// Number of the request in the run, from 0.
        request: u32,
        /// Sequence that it continues.
        sequence: i32,
    },
    /// The server says which tokens the prompt of a request has.
    PromptTokens {
        /// Number of the request.
        request: u32,
        /// Ids in the vocabulary.
        ids: Vec<i32>,
    },
    /// A request was answered to its end.
    RequestEnds {
        /// Number of the request.
        request: u32,
        /// Sequence that it continued.
        sequence: i32,
        /// What the server says of it.
        timings: RequestTimings,
    },
    /// Figures that the server publishes, under the names that it gives them.
    ServerMetrics {
        /// Values by name, with labels as in the exposition format.
        values: BTreeMap<String, f64>,
    },
    /// Memory that the runtime says it allocated.
    MemoryReported {
        /// One entry per buffer.
        buffers: Vec<ReportedBuffer>,
    },
    /// A page tells the memory that it knows of.
    PageSampled {
        /// The sample.
        sample: PageSample,
    },
    /// A command that does its own work has ended, however it did.
    ProgramEnded {
        /// What it returned; none if a signal ended it.
        exit_code: Option<i32>,
        /// The signal that ended it.
        exit_signal: Option<i32>,
    },
    /// The most memory that the process had resident at any time, told when its work is done.
    PeakMemory {
        /// Bytes.
        rss_bytes: u64,
    },
    /// The work could not be done.
    Failed {
        /// What was being done, what was found, what was needed.
        message: String,
        /// What to do about it.
        hints: Vec<String>,
    },
}
