//! Where rows go, and what is known at the end besides them.

use dwell_events::engine::{LoadedModel, StopReason, WorkTotals};
use dwell_events::kv_accesses::KvAccesses;
use dwell_events::schema::kv_block_lifecycle::KvBlockBuilder;
use dwell_events::schema::loss::LossRow;
use dwell_events::schema::region_map::RegionRow;
use dwell_events::schema::tokens::TokenRow;
use dwell_events::schema::trace::TraceBuilder;
use dwell_events::server::{ReportedBuffer, ServerDescription, TracedProcess};
use dwell_events::{PhaseSpan, RequestSpan};
use dwell_records::Hello;

/// How the engine ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// What a server said of itself.
    pub server: Option<ServerDescription>,
    /// Requests to a server, in the order in which they were sent.
    pub requests: Vec<RequestSpan>,
    /// Memory that the runtime said it allocated, told last.
    pub buffers: Vec<ReportedBuffer>,
    /// Facts about the model, if it was loaded.
    pub model: Option<LoadedModel>,
    /// Why sequences ended.
    pub stops: Vec<(i32, StopReason)>,
    /// Tokens of all prompts and answers, and what they took.
    pub finished: Option<WorkTotals>,
    /// Most memory that the process had resident; missing if it did not come to its end.
    pub peak_rss_bytes: Option<u64>,
    /// Message and hints of a failure.
    pub failed: Option<(String, Vec<String>)>,
    /// Why the recorder left the process alone, or why its records cannot be read.
    pub refused: Option<String>,
}

/// Where rows go; to be emptied by the caller between frames.
pub struct Output {
    /// Accesses.
    pub trace: TraceBuilder,
    /// Lives of KV blocks.
    pub blocks: KvBlockBuilder,
    /// Tokens.
    pub tokens: Vec<TokenRow>,
    /// Figures that a server published.
    pub server_figures: Vec<ServerFigure>,
}

/// One figure that a server published.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerFigure {
    /// When it was read.
    pub timestamp_ns: u64,
    /// Its name, with labels.
    pub name: String,
    /// Its value.
    pub value: f64,
}

impl Output {
    /// No rows yet, of this run.
    pub fn new(run_id: &str) -> Self {
        Self {
            trace: TraceBuilder::new(run_id),
            blocks: KvBlockBuilder::default(),
            tokens: Vec::new(),
            server_figures: Vec::new(),
        }
    }
}

/// What is known at the end, besides the rows.
pub struct Labelled {
    /// Regions.
    pub regions: Vec<RegionRow>,
    /// Tokens that decode steps gave.
    pub decoded_tokens: u64,
    /// What was not seen.
    pub loss: Vec<LossRow>,
    /// Phases.
    pub phases: Vec<PhaseSpan>,
    /// How the engine ended.
    pub outcome: Outcome,
    /// Who recorded; none if not even that arrived.
    pub hello: Option<Hello>,
    /// Graphs that were stored.
    pub graphs: u64,
    /// Computations of them.
    pub steps: u64,
    /// What was loaded and stored of the KV cache.
    pub kv_accesses: KvAccesses,
    /// Processes into which the recorder was loaded, by their numbers.
    pub processes: Vec<TracedProcess>,
}
