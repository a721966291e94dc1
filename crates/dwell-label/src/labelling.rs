//! What every source of accesses shares.

use dwell_events::Phase;
use dwell_events::schema::loss::LossRow;
use dwell_events::schema::region_map::RegionRow;

use crate::loss_count::LossCount;
use crate::output::Output;
use crate::regions::Regions;
use crate::timeline::{Timeline, TimelineEnd};

/// When things happened, whose memory they touched, and what was not seen of them.
///
/// A source of accesses asks the timeline where in the run each belongs and hands it to the regions:
///
/// ```
/// use dwell_events::engine::EngineEvent;
/// use dwell_events::schema::trace::TraceRow;
/// use dwell_events::{OpType, Phase};
/// use dwell_label::{Labelling, Output, RuleSet, UnknownPolicy};
///
/// let (mut labelling, mut out) = (Labelling::new("perf_mem"), Output::new("run"));
/// labelling.regions = labelling.regions.with_rules(RuleSet::default_rules(), UnknownPolicy::Keep);
/// let event = EngineEvent::PhaseBegins { phase: Phase::Generation };
/// labelling.timeline.event(event, 10, &mut labelling.loss, &mut out);
///
/// let moment = labelling.timeline.now();
/// let sample = TraceRow {
///     timestamp_ns: 12,
///     phase: moment.phase,
///     step: moment.step,
///     address: 0x7f00_0000_1000,
///     size_bytes: 8,
///     op_type: OpType::Store,
///     symbol: "ggml_compute_forward_set_rows",
///     source: "perf_mem",
///     period: 4000,
///     ..TraceRow::EMPTY
/// };
/// labelling.regions.push(sample, &mut out.trace);
///
/// let end = labelling.finish(&mut out);
/// assert_eq!(end.regions[0].region_type.name(), "kv_cache");
/// ```
pub struct Labelling {
    /// Phases, steps and tokens.
    pub timeline: Timeline,
    /// Whose memory.
    pub regions: Regions,
    /// What was not seen.
    pub loss: LossCount,
}

/// What is known when a run is over.
pub struct LabellingEnd {
    /// Phases, tokens and how the engine ended.
    pub timeline: TimelineEnd,
    /// The regions that were accessed.
    pub regions: Vec<RegionRow>,
    /// What was not seen.
    pub loss: Vec<LossRow>,
}

impl Labelling {
    /// Nothing yet, of a run whose accesses this collector sees.
    pub fn new(source: &'static str) -> Self {
        Self { timeline: Timeline::default(), regions: Regions::default(), loss: LossCount::new(source) }
    }

    /// Ends everything that still goes on. Memory is given back when the teardown begins.
    pub fn finish(self, out: &mut Output) -> LabellingEnd {
        let freed_ns = self.timeline.span_of(Phase::Teardown).map(|span| span.begin_ns);
        let regions = self.regions.finish(freed_ns);
        let loss = self.loss.into_rows().into_iter().chain(regions.loss).collect();
        LabellingEnd { timeline: self.timeline.finish(out), regions: regions.rows, loss }
    }
}
