//! Frames in, labelled rows out.

use dwell_events::LossKind;
use dwell_events::engine::EngineEvent;
use dwell_records::{Frame, Graph, Hello, Kind, Refusal, Step, WIRE_VERSION, WeightPlaced};

use crate::Labelling;
use crate::ggml::{FileTensor, GraphLabeller, SOURCE};
use crate::output::{Labelled, Output};
use crate::rules::{RuleSet, UnknownPolicy, UnlabelledAccess};

/// Turns the frames of one run into rows: the engine's events become the timeline, the recorder's graphs the accesses.
pub struct Labeller {
    labelling: Labelling,
    graphs: GraphLabeller,
    hello: Option<Hello>,
    /// Why the recorder left the process alone, or why its records cannot be read.
    refused: Option<String>,
}

impl Labeller {
    /// A labeller for a model with these tensors in its file.
    pub fn new(file_tensors: &[FileTensor]) -> Self {
        Self { labelling: Labelling::new(SOURCE), graphs: GraphLabeller::new(file_tensors), hello: None, refused: None }
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

    /// Takes in one frame. A record that cannot be decoded is counted as lost and does not stop the rest.
    pub fn frame(&mut self, frame: &Frame<'_>, out: &mut Output) {
        self.labelling.timeline.time_passes(frame.time_ns);
        if self.refused.is_some() && frame.kind != Kind::Engine as u16 {
            return;
        }
        if !self.take_in(frame, out) {
            let sequence = frame.sequence;
            self.labelling.loss.add(LossKind::UndecodableRecords, 1, Some(frame.payload.len() as u64), || {
                format!("first at record {sequence}")
            });
        }
    }

    /// False if the record cannot be decoded.
    fn take_in(&mut self, frame: &Frame<'_>, out: &mut Output) -> bool {
        let (labelling, graphs) = (&mut self.labelling, &mut self.graphs);
        match Kind::from_number(frame.kind) {
            Some(Kind::Hello) => Hello::decode(frame.payload).map(|hello| self.hello(hello)).is_ok(),
            Some(Kind::Graph) => Graph::decode(frame.payload).map(|graph| graphs.graph(&graph, labelling, out)).is_ok(),
            Some(Kind::Step) => Step::decode(frame.payload).is_ok_and(|step| graphs.step(&step, labelling, out)),
            Some(Kind::WeightPlaced) => WeightPlaced::decode(frame.payload)
                .map(|weight| graphs.weight(&weight, frame.time_ns, labelling, out))
                .is_ok(),
            Some(Kind::Engine) => {
                serde_json::from_slice(frame.payload).map(|event| self.engine(event, frame.time_ns, out)).is_ok()
            }
            Some(Kind::Refusal) => {
                Refusal::decode(frame.payload).map(|refusal| self.refused = Some(refusal.reason)).is_ok()
            }
            None => false,
        }
    }

    fn hello(&mut self, hello: Hello) {
        if hello.wire_version != WIRE_VERSION {
            let found = hello.wire_version;
            self.refused =
                Some(format!("the records have version {found}, and this reader knows version {WIRE_VERSION}"));
        }
        self.hello = Some(hello);
    }

    fn engine(&mut self, event: EngineEvent, time_ns: u64, out: &mut Output) {
        let labelling = &mut self.labelling;
        self.graphs.engine_event(&event, time_ns, labelling, out);
        labelling.timeline.event(event, time_ns, &mut labelling.loss, out);
    }

    /// Ends everything that still lives.
    pub fn finish(self, out: &mut Output) -> Labelled {
        let (graphs, steps) = self.graphs.counts();
        self.graphs.finish(out);
        let end = self.labelling.finish(out);
        let mut outcome = end.timeline.outcome;
        outcome.refused = self.refused;
        Labelled {
            regions: end.regions,
            decoded_tokens: end.timeline.decoded_tokens,
            loss: end.loss,
            phases: end.timeline.phases,
            outcome,
            hello: self.hello,
            graphs,
            steps,
        }
    }
}
