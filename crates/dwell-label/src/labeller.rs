//! Frames in, labelled rows out.

use std::collections::BTreeSet;

use dwell_events::engine::EngineEvent;
use dwell_events::server::TracedProcess;
use dwell_events::{LossKind, Phase};
use dwell_records::{Frame, Graph, Hello, Kind, Refusal, Step, Transferred, WIRE_VERSIONS, WeightPlaced};

use crate::Labelling;
use crate::ggml::{FileTensor, GraphLabeller, SOURCE};
use crate::output::{Labelled, Output};
use crate::rules::{RuleSet, UnknownPolicy, UnlabelledAccess};

/// How the recorder of a process that dwell did not build says that it came there.
const PRELOADED: &str = "preloaded";

/// Turns the frames of one run into rows: the engine's events become the timeline, the recorder's graphs the accesses.
pub struct Labeller {
    labelling: Labelling,
    graphs: GraphLabeller,
    hello: Option<Hello>,
    /// Processes whose records cannot be read.
    refused: BTreeSet<u8>,
    /// Why records of the first of them cannot be read, or why the recorder left the first ggml library alone that it does
    /// not know.
    refusal: Option<String>,
    processes: Vec<TracedProcess>,
}

impl Labeller {
    /// A labeller for a model with these tensors in its file.
    pub fn new(file_tensors: &[FileTensor]) -> Self {
        Self {
            labelling: Labelling::new(SOURCE),
            graphs: GraphLabeller::new(file_tensors),
            hello: None,
            refused: BTreeSet::new(),
            refusal: None,
            processes: Vec::new(),
        }
    }

    /// Asks rules about every access before it becomes a row: about those whose owner is not known, and, by rules that
    /// apply to all, about the others. The lives of KV blocks stay those of the engine's cache.
    pub fn with_rules(mut self, rules: RuleSet, policy: UnknownPolicy) -> Self {
        self.labelling.regions = self.labelling.regions.with_rules(rules, policy);
        self
    }

    /// First access so far that nothing could label, with [`UnknownPolicy::Error`].
    pub fn unlabelled(&self) -> Option<&UnlabelledAccess> {
        self.labelling.regions.unlabelled()
    }

    /// Takes in one frame of the worker or of the first program that it drives.
    pub fn frame(&mut self, frame: &Frame<'_>, out: &mut Output) {
        self.frame_of(0, frame, out);
    }

    /// Takes in one frame of a process, by its number in the run, which is less than
    /// [`PROCESSES_MAX`](crate::PROCESSES_MAX). A record that cannot be decoded is counted as lost and does not stop the
    /// rest.
    pub fn frame_of(&mut self, process: u8, frame: &Frame<'_>, out: &mut Output) {
        self.labelling.timeline.time_passes(frame.time_ns);
        if self.refused.contains(&process) && frame.kind != Kind::Engine as u16 {
            return;
        }
        if !self.take_in(process, frame, out) {
            let sequence = frame.sequence;
            self.labelling.loss.add(LossKind::UndecodableRecords, 1, Some(frame.payload.len() as u64), || {
                format!("first at record {sequence}")
            });
        }
    }

    /// False if the record cannot be decoded.
    fn take_in(&mut self, process: u8, frame: &Frame<'_>, out: &mut Output) -> bool {
        let (labelling, graphs) = (&mut self.labelling, &mut self.graphs);
        match Kind::from_number(frame.kind) {
            Some(Kind::Hello) => Hello::decode(frame.payload).map(|hello| self.hello(process, hello)).is_ok(),
            Some(Kind::Graph) => {
                labelling.timeline.computations_begin(frame.time_ns);
                let loaded_ns = self.loaded_ns(process, frame.time_ns);
                let (labelling, graphs) = (&mut self.labelling, &mut self.graphs);
                Graph::decode(frame.payload)
                    .map(|graph| graphs.graph(process, graph, loaded_ns, labelling, out))
                    .is_ok()
            }
            Some(Kind::Step) => {
                Step::decode(frame.payload).is_ok_and(|step| graphs.step(process, &step, labelling, out))
            }
            Some(Kind::WeightPlaced) => WeightPlaced::decode(frame.payload)
                .map(|weight| graphs.weight(process, weight, frame.time_ns, labelling, out))
                .is_ok(),
            Some(Kind::Transferred) => Transferred::decode(frame.payload)
                .map(|transferred| graphs.transferred(process, transferred, frame.time_ns, labelling, out))
                .is_ok(),
            Some(Kind::Engine) => {
                serde_json::from_slice(frame.payload).map(|event| self.engine(event, frame.time_ns, out)).is_ok()
            }
            Some(Kind::Refusal) => {
                // Of one ggml library. Another one in the same process may be recorded.
                Refusal::decode(frame.payload).map(|refusal| self.refusal.get_or_insert(refusal.reason).len()).is_ok()
            }
            None => false,
        }
    }

    fn hello(&mut self, process: u8, hello: Hello) {
        if !WIRE_VERSIONS.contains(&hello.wire_version) {
            let (found, known) = (hello.wire_version, WIRE_VERSIONS);
            let (first, last) = (known.start(), known.end());
            let reason = format!("the records have version {found}, and this reader knows versions {first} to {last}");
            self.refuse(process, reason);
        }
        self.graphs.begins(process, hello.wire_version);
        if let Some(fork) = hello.fork
            && let Some(parent) = self.processes.iter().rfind(|known| known.pid == fork.parent_pid)
        {
            self.graphs.forked(process, parent.process, fork.time_ns);
        }
        if hello.way_in == PRELOADED {
            let traced = TracedProcess { process, pid: hello.pid, program: hello.program.clone() };
            // A process that became another program says hello again.
            match self.processes.iter_mut().find(|known| (known.process, known.pid) == (process, traced.pid)) {
                Some(known) => *known = traced,
                None => self.processes.push(traced),
            }
        }
        self.hello = Some(hello);
    }

    /// When weights were in place that nobody was seen to place, at the latest. The engine's phases tell of the worker; a
    /// program had loaded its own when it first computed.
    fn loaded_ns(&self, process: u8, graph_ns: u64) -> u64 {
        if self.processes.iter().any(|known| known.process == process) {
            return graph_ns;
        }
        let timeline = &self.labelling.timeline;
        timeline.span_of(Phase::WeightLoad).map_or(timeline.last_time_ns(), |span| span.end_ns)
    }

    fn refuse(&mut self, process: u8, reason: String) {
        self.refused.insert(process);
        self.refusal.get_or_insert(reason);
    }

    fn engine(&mut self, event: EngineEvent, time_ns: u64, out: &mut Output) {
        let labelling = &mut self.labelling;
        self.graphs.engine_event(&event, time_ns, labelling, out);
        labelling.timeline.event(event, time_ns, &mut labelling.loss, out);
    }

    /// Ends everything that still lives.
    pub fn finish(mut self, out: &mut Output) -> Labelled {
        self.processes.sort_by_key(|process| process.process);
        let (graphs, steps) = self.graphs.counts();
        let kv_accesses = self.graphs.kv_accesses();
        self.graphs.finish(out);
        let end = self.labelling.finish(out);
        let mut outcome = end.timeline.outcome;
        outcome.refused = self.refusal;
        Labelled {
            regions: end.regions,
            decoded_tokens: end.timeline.decoded_tokens,
            loss: end.loss,
            phases: end.timeline.phases,
            outcome,
            hello: self.hello,
            graphs,
            steps,
            kv_accesses,
            processes: self.processes,
        }
    }
}
