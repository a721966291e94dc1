//! Frames in, labelled rows out.

use std::collections::HashMap;

use dwell_events::engine::EngineEvent;
use dwell_events::schema::trace::TraceRow;
use dwell_events::server::RequestTimings;
use dwell_events::{LossKind, OpType, Phase, PhaseSpan, RegionType, RequestSpan};
use dwell_records::{Frame, Graph, Hello, Kind, Placement, Refusal, Step, WIRE_VERSION, WeightPlaced};

use crate::compiled::{CompiledGraph, compile};
use crate::expand::{Expansion, StepFacts};
use crate::kv::KvCaches;
use crate::labelled::{FileTensor, Labelled, Outcome, Output, ServerFigure};
use crate::loss_count::LossCount;
use crate::regions::Regions;
use crate::rule_stage::{RuleStage, emit};
use crate::rules::{RuleSet, UnknownPolicy, UnlabelledAccess};
use crate::sequences::PendingTokens;
use crate::token_log::{GeneratedToken, TokenLog};
use crate::unreported_steps::UnreportedSteps;

/// Name of the collector in the `source` column.
pub(crate) const SOURCE: &str = "tensor_ops";
/// Name of the code that makes the accesses, in the `dso` column.
pub(crate) const DSO: &str = "ggml-cpu";

/// Graphs after which an older one is not computed under its number any more.
const GRAPHS_KEPT: u32 = 2048;

/// Turns the frames of one process into rows.
pub struct Labeller {
    file_offsets: HashMap<String, u64>,
    regions: Regions,
    kv: KvCaches,
    graphs: HashMap<u32, CompiledGraph>,
    pending: PendingTokens,
    tokens: TokenLog,
    loss: LossCount,
    phases: Vec<PhaseSpan>,
    outcome: Outcome,
    hello: Option<Hello>,
    batch_step: Option<u32>,
    unreported: UnreportedSteps,
    last_time_ns: u64,
    graph_count: u64,
    step_count: u64,
    rules: Option<Box<RuleStage>>,
}

impl Labeller {
    /// A labeller for a model with these tensors in its file.
    pub fn new(file_tensors: &[FileTensor]) -> Self {
        Self {
            file_offsets: file_tensors.iter().map(|tensor| (tensor.name.clone(), tensor.file_offset)).collect(),
            regions: Regions::default(),
            kv: KvCaches::default(),
            graphs: HashMap::new(),
            pending: PendingTokens::default(),
            tokens: TokenLog::default(),
            loss: LossCount::default(),
            phases: Vec::new(),
            outcome: Outcome::default(),
            hello: None,
            batch_step: None,
            unreported: UnreportedSteps::default(),
            last_time_ns: 0,
            graph_count: 0,
            step_count: 0,
            rules: None,
        }
    }

    /// Asks rules about every access before it becomes a row: about those whose owner is not known, and, by rules that
    /// apply to all, about the others. The lives of KV blocks stay those of the engine's cache.
    pub fn with_rules(mut self, rules: RuleSet, policy: UnknownPolicy) -> Self {
        self.rules = Some(Box::new(RuleStage::new(rules, policy)));
        self
    }

    /// First access so far that nothing could label, with [`UnknownPolicy::Error`].
    pub fn unlabelled(&self) -> Option<&UnlabelledAccess> {
        self.rules.as_ref()?.unlabelled.as_ref()
    }

    /// Takes in one frame. A record that cannot be decoded is counted as lost and does not stop the rest.
    pub fn frame(&mut self, frame: &Frame<'_>, out: &mut Output) {
        self.last_time_ns = self.last_time_ns.max(frame.time_ns);
        if self.outcome.refused.is_some() && frame.kind != Kind::Engine as u16 {
            return;
        }
        let is_decoded = match Kind::from_number(frame.kind) {
            Some(Kind::Hello) => Hello::decode(frame.payload).map(|hello| self.hello(hello)).is_ok(),
            Some(Kind::Graph) => Graph::decode(frame.payload).map(|graph| self.graph(&graph, out)).is_ok(),
            Some(Kind::Step) => Step::decode(frame.payload).is_ok_and(|step| self.step(&step, out)),
            Some(Kind::WeightPlaced) => {
                WeightPlaced::decode(frame.payload).map(|weight| self.weight(&weight, frame.time_ns, out)).is_ok()
            }
            Some(Kind::Engine) => {
                serde_json::from_slice(frame.payload).map(|event| self.engine(event, frame.time_ns, out)).is_ok()
            }
            Some(Kind::Refusal) => {
                Refusal::decode(frame.payload).map(|refusal| self.outcome.refused = Some(refusal.reason)).is_ok()
            }
            None => false,
        };
        if !is_decoded {
            let sequence = frame.sequence;
            self.loss.add(LossKind::UndecodableRecords, 1, Some(frame.payload.len() as u64), || {
                format!("first at record {sequence}")
            });
        }
    }

    fn hello(&mut self, hello: Hello) {
        if hello.wire_version != WIRE_VERSION {
            let found = hello.wire_version;
            self.outcome.refused =
                Some(format!("the records have version {found}, and this reader knows version {WIRE_VERSION}"));
        }
        self.hello = Some(hello);
    }

    fn graph(&mut self, graph: &Graph, out: &mut Output) {
        self.graph_count += 1;
        let compiled = compile(graph, &mut self.regions, &mut self.kv);
        if compiled.has_foreign_memory {
            self.loss.add(LossKind::ForeignDevice, 1, None, || {
                let names = graph.buffers.iter().filter(|buffer| !buffer.is_host).map(|buffer| buffer.name.as_str());
                format!("buffers {}", names.collect::<Vec<_>>().join(", "))
            });
        }
        self.store_unplaced_weights(&compiled, out);
        self.graphs.insert(graph.id, compiled);
        // The recorder forgets graphs long before it has stored this many more; it names them anew if they come back.
        if let Some(oldest) = graph.id.checked_sub(GRAPHS_KEPT) {
            self.graphs.retain(|&id, _| id > oldest);
        }
    }

    /// Weights that were read straight into their buffer pass no function that is recorded; they were in place when
    /// loading ended.
    fn store_unplaced_weights(&mut self, graph: &CompiledGraph, out: &mut Output) {
        let loaded_ns = self.phases.iter().find(|span| span.phase == Phase::WeightLoad).map(|span| span.end_ns);
        let timestamp_ns = loaded_ns.unwrap_or(self.last_time_ns);
        for operand in graph.units.iter().flat_map(|unit| &unit.loads) {
            let region = &operand.region;
            if region.region_type == RegionType::Weight && !self.regions.is_written(region.id) {
                self.regions.row_mut(region.id).origin = "copied";
                let row = self.regions.row_mut(region.id);
                let (address, size_bytes) = (row.address, row.size_bytes);
                self.store_weight(region.id, address, size_bytes, "read", timestamp_ns, out);
            }
        }
    }

    fn weight(&mut self, weight: &WeightPlaced, time_ns: u64, out: &mut Output) {
        let label = self.regions.label(RegionType::Weight, &weight.name, weight.address, weight.size_bytes);
        let row = self.regions.row_mut(label.id);
        let symbol = match weight.placement {
            Placement::Mapped => {
                row.origin = "mapped";
                row.file_offset = self.file_offsets.get(&weight.name).copied();
                "mmap"
            }
            Placement::Copied => {
                row.origin = if weight.buffer.contains("REPACK") { "repacked" } else { "copied" };
                "ggml_backend_tensor_set"
            }
        };
        self.store_weight(label.id, weight.address, weight.size_bytes, symbol, time_ns, out);
    }

    fn store_weight(
        &mut self,
        region_id: u32,
        address: u64,
        size_bytes: u64,
        symbol: &str,
        timestamp_ns: u64,
        out: &mut Output,
    ) {
        self.regions.set_placed(region_id);
        let region = self.regions.row_mut(region_id);
        let (tensor, layer) = (region.tensor.clone(), region.layer);
        let row = TraceRow {
            timestamp_ns,
            phase: Phase::WeightLoad,
            address,
            size_bytes,
            op_type: OpType::Store,
            symbol,
            dso: "llama",
            region_type: RegionType::Weight,
            region_id,
            thread_id: None,
            token_index: None,
            context_tokens: None,
            step: None,
            tensor: &tensor,
            layer,
            source: SOURCE,
            period: 1,
        };
        emit(row, self.rules.as_deref_mut(), &mut self.regions, &mut self.loss, out);
    }

    /// Expands one computation. False if its graph is not known.
    fn step(&mut self, step: &Step, out: &mut Output) -> bool {
        let Some(graph) = self.graphs.get(&step.graph) else { return false };
        self.step_count += 1;
        let captures = crate::expand::decode_captures(graph, step);
        let integers = |capture: Option<usize>| {
            capture.and_then(|index| captures.get(index)).and_then(|capture| capture.integers())
        };
        let (ids, positions) = (integers(graph.token_ids), integers(graph.positions));
        let count = graph.tokens.max(positions.as_ref().map_or(0, Vec::len).min(graph.tokens.max(1)));
        let places = self.pending.take(ids.as_deref(), positions.as_deref(), count);
        let context_tokens = places
            .iter()
            .filter_map(|place| place.position)
            .max()
            .and_then(|last| u32::try_from(last).ok())
            .map(|last| last.saturating_add(1));
        let token_index = match &places[..] {
            [only] => only.sequence.zip(only.position).and_then(|(sequence, at)| self.tokens.index_at(sequence, at)),
            _ => None,
        };
        let number = self.batch_step.unwrap_or_else(|| {
            let positions: Vec<_> = places.iter().map(|place| place.position).collect();
            self.unreported.number(&positions)
        });
        let facts = StepFacts {
            phase: self.phases.last().map_or(Phase::Generation, |span| span.phase),
            step: Some(number),
            token_index: token_index.filter(|_| number > 0),
            context_tokens,
            places,
        };
        count_unseen(&mut self.loss, graph, step);
        let mut expansion = Expansion {
            regions: &mut self.regions,
            kv: &mut self.kv,
            loss: &mut self.loss,
            rules: self.rules.as_deref_mut(),
            facts: &facts,
            out,
        };
        expansion.run(graph, step, &captures);
        self.unreported.computed(number, self.kv.live_bytes());
        true
    }

    fn engine(&mut self, event: EngineEvent, time_ns: u64, out: &mut Output) {
        match event {
            EngineEvent::PhaseBegins { phase } => self.phase_begins(phase, time_ns),
            EngineEvent::Loaded { model } => self.outcome.model = Some(model),
            EngineEvent::Prompt { tokens } => self.tokens.prompt(tokens),
            EngineEvent::BatchBegins { step, tokens, .. } => {
                self.batch_step = Some(step);
                self.tokens.batch_begins(step, &tokens, time_ns, &mut out.tokens);
                self.pending.begin(tokens);
            }
            EngineEvent::BatchEnds { .. } => {
                self.tokens.batch_ends(time_ns, self.live_kv_bytes(), &mut out.tokens);
            }
            EngineEvent::Token { step, sequence, position, id, text } => {
                self.note_first_token(sequence, time_ns);
                let (step, kv_bytes) = self.step_of_token(step);
                let token = GeneratedToken { step, sequence, position, id, text };
                self.tokens.generated(token, time_ns, kv_bytes, &mut out.tokens);
            }
            EngineEvent::KvRemoved { sequence, from, to } => {
                self.kv.remove(sequence, from, to, time_ns, &mut out.blocks);
                self.tokens.removed(sequence, from, to);
            }
            EngineEvent::KvShifted { sequence, from, to, delta } => {
                self.kv.shift(sequence, from, to, delta);
                self.tokens.shifted(sequence, from, to, delta);
            }
            EngineEvent::KvCopied { source, target } => {
                let bytes = self.kv.copy(source, target, time_ns, &mut out.blocks);
                if bytes > 0 {
                    let detail = || format!("sequence {source} to {target}");
                    self.loss.add(LossKind::KvStreamCopy, 1, Some(bytes), detail);
                }
            }
            EngineEvent::Stopped { sequence, reason } => self.outcome.stops.push((sequence, reason)),
            EngineEvent::Finished { prompt_tokens, prompt_ns, generated_tokens, decode_ns } => {
                self.outcome.finished = Some((prompt_tokens, prompt_ns, generated_tokens, decode_ns));
            }
            EngineEvent::PeakMemory { rss_bytes } => self.outcome.peak_rss_bytes = Some(rss_bytes),
            EngineEvent::Failed { message, hints } => self.outcome.failed = Some((message, hints)),
            EngineEvent::Serving { server } => self.outcome.server = Some(*server),
            EngineEvent::MemoryReported { buffers } => self.outcome.buffers = buffers,
            EngineEvent::RequestBegins { sequence, .. } => self.request_begins(sequence, time_ns),
            EngineEvent::RequestEnds { sequence, timings, .. } => self.request_ends(sequence, timings, time_ns),
            EngineEvent::ServerMetrics { values } => {
                let figure = |(name, value)| ServerFigure { timestamp_ns: time_ns, name, value };
                out.server_figures.extend(values.into_iter().map(figure));
            }
            EngineEvent::LoadProgress { .. } | EngineEvent::ProcessFound { .. } => {}
        }
    }

    fn request_begins(&mut self, sequence: i32, time_ns: u64) {
        self.unreported.request_begins();
        let timings = RequestTimings::default();
        let span = RequestSpan { sequence, begin_ns: time_ns, first_token_ns: None, end_ns: None, timings };
        self.outcome.requests.push(span);
    }

    fn request_ends(&mut self, sequence: i32, timings: RequestTimings, time_ns: u64) {
        self.unreported.request_ends();
        let Some(request) = self.open_request(sequence) else { return };
        (request.end_ns, request.timings) = (Some(time_ns), timings);
        // An answer of one token may be the end alone, which no server sends.
        let is_missing = request.first_token_ns.is_none() && timings.generated_tokens.is_none_or(|tokens| tokens > 1);
        if is_missing {
            self.loss.add(LossKind::MissingAnswers, 1, None, || format!("first to sequence {sequence}"));
        }
    }

    fn note_first_token(&mut self, sequence: i32, time_ns: u64) {
        if let Some(request) = self.open_request(sequence) {
            request.first_token_ns.get_or_insert(time_ns);
        }
    }

    /// The request of a sequence that is being answered.
    fn open_request(&mut self, sequence: i32) -> Option<&mut RequestSpan> {
        let is_it = |request: &&mut RequestSpan| request.sequence == sequence && request.end_ns.is_none();
        self.outcome.requests.iter_mut().rev().find(is_it)
    }

    /// The step that gave a token, as the trace numbers it, and the bytes in the KV cache after it.
    fn step_of_token(&self, told: u32) -> (u32, Option<u64>) {
        if self.batch_step.is_some() || self.graph_count == 0 {
            return (told, self.live_kv_bytes());
        }
        let kv_bytes = self.unreported.kv_bytes_after(told).or_else(|| self.live_kv_bytes());
        (self.unreported.step_in_run(told), kv_bytes)
    }

    /// Bytes of all living KV blocks; not known if no graph was recorded.
    fn live_kv_bytes(&self) -> Option<u64> {
        (self.graph_count > 0).then(|| self.kv.live_bytes())
    }

    fn phase_begins(&mut self, phase: Phase, time_ns: u64) {
        if let Some(span) = self.phases.last_mut() {
            span.end_ns = time_ns;
        }
        self.phases.push(PhaseSpan { phase, begin_ns: time_ns, end_ns: time_ns });
    }

    /// Ends everything that still lives.
    pub fn finish(mut self, out: &mut Output) -> Labelled {
        if let Some(span) = self.phases.last_mut() {
            span.end_ns = self.last_time_ns;
        }
        self.kv.finish(&mut out.blocks);
        let torn_down = self.phases.iter().find(|span| span.phase == Phase::Teardown);
        Labelled {
            regions: self.regions.into_rows(torn_down.map(|span| span.begin_ns)),
            decoded_tokens: self.tokens.finish(&mut out.tokens),
            loss: self.loss.into_rows(),
            phases: self.phases,
            outcome: self.outcome,
            hello: self.hello,
            graphs: self.graph_count,
            steps: self.step_count,
        }
    }
}

/// What no computation of a graph shows.
fn count_unseen(loss: &mut LossCount, graph: &CompiledGraph, step: &Step) {
    if step.times_ns.len() != graph.stamps {
        let (expected, found) = (graph.units.len(), step.nodes_done);
        loss.add(LossKind::UnalignedOpTimes, 1, None, || {
            format!("{found} calls for {expected} operations in the first such step")
        });
    }
    loss.add(LossKind::InputUpload, 1, Some(graph.input_bytes), || "inputs written before each graph".into());
    if graph.result_bytes > 0 {
        loss.add(LossKind::LogitsReadBack, 1, Some(graph.result_bytes), || "logits read after a graph".into());
    }
    loss.add(LossKind::WorkBuffer, 1, None, || "scratch of the kernels, size not known to the graph".into());
}
