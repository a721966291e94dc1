//! The one place where rules label accesses.

use dwell_events::schema::loss::LossRow;
use dwell_events::schema::trace::TraceRow;
use dwell_events::{LossKind, RegionType};

use super::classifier::{Classifier, Verdict};
use super::rule::KindRule;
use super::{Accessed, DecidedBy, RuleSet, UnknownPolicy, UnlabelledAccess};
use crate::regions::RegionTable;

/// Collector in whose name dropped accesses are counted.
const LOSS_SOURCE: &str = "labeller";

/// The label of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Whose memory it is.
    pub region_type: RegionType,
    /// Row of the region map; 0 if it has none.
    pub region_id: u32,
    /// What decided.
    pub decided_by: DecidedBy,
}

/// How many accesses went which way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelCounts {
    /// Accesses seen.
    pub rows_in: u64,
    /// Accesses that were dropped because nothing could label them.
    pub dropped: u64,
    /// Accesses that came after later ones; they got no label from pages and gave none.
    pub late: u64,
    /// Accesses by what decided, dropped ones included.
    pub by_decision: [u64; DecidedBy::ALL.len()],
}

/// What the rules did, when the run is over.
pub(crate) struct RuleStageEnd {
    pub(crate) counts: LabelCounts,
    dropped_bytes: u64,
    first_dropped: Option<String>,
}

impl RuleStageEnd {
    /// The accesses that were dropped, if there are any.
    pub(crate) fn loss(self) -> Option<LossRow> {
        (self.counts.dropped > 0).then(|| LossRow {
            kind: LossKind::UnlabelledAccesses,
            source: LOSS_SOURCE,
            count: self.counts.dropped,
            bytes: Some(self.dropped_bytes),
            detail: self.first_dropped.unwrap_or_default(),
        })
    }
}

/// Labels accesses, which come in the order of time; accesses of one time keep their order.
pub(crate) struct RuleStage {
    classifier: Classifier,
    policy: UnknownPolicy,
    counts: LabelCounts,
    dropped_bytes: u64,
    first_dropped: Option<String>,
}

impl RuleStage {
    pub(crate) fn new(rules: RuleSet, policy: UnknownPolicy) -> Self {
        let classifier = Classifier::new(rules);
        Self { classifier, policy, counts: LabelCounts::default(), dropped_bytes: 0, first_dropped: None }
    }

    /// The label of the next access, whose region is made in `regions` if it is new; none if it is to be dropped.
    pub(crate) fn label(
        &mut self,
        access: &TraceRow<'_>,
        regions: &mut RegionTable,
    ) -> Result<Option<Label>, UnlabelledAccess> {
        let rule = self.classifier.rule_of(access);
        self.label_by(rule, &access.into(), regions, || *access)
    }

    /// What the rules say about accesses of the kind of this one.
    pub(crate) fn rule_of(&mut self, access: &TraceRow<'_>) -> KindRule {
        self.classifier.rule_of(access)
    }

    /// The same where it is known what the rules say about the kind of the access. `whole` gives its texts for messages.
    #[inline]
    pub(crate) fn label_by<'t>(
        &mut self,
        rule: KindRule,
        access: &Accessed,
        regions: &mut RegionTable,
        whole: impl FnOnce() -> TraceRow<'t>,
    ) -> Result<Option<Label>, UnlabelledAccess> {
        let verdict = self.classifier.decide(rule, access);
        self.count(access, &verdict);
        if verdict.region_type == RegionType::Unknown {
            match self.policy {
                UnknownPolicy::Keep => {}
                UnknownPolicy::Skip => {
                    self.note_dropped(&whole());
                    return Ok(None);
                }
                UnknownPolicy::Error => return Err(UnlabelledAccess::from(&whole())),
            }
        }
        let region_id = regions.region_of(access, &verdict, &self.classifier);
        self.classifier.settle(access, verdict.region_type, region_id);
        Ok(Some(Label { region_type: verdict.region_type, region_id, decided_by: verdict.decided_by }))
    }

    /// Memory was given back, or handed out anew: what was known of it is over. The regions that lost all of it.
    pub(crate) fn forget(&mut self, address: u64, size_bytes: u64, time_ns: u64) -> Vec<u32> {
        self.classifier.forget(address, size_bytes, time_ns)
    }

    pub(crate) fn finish(self) -> RuleStageEnd {
        let Self { counts, dropped_bytes, first_dropped, .. } = self;
        RuleStageEnd { counts, dropped_bytes, first_dropped }
    }

    #[inline]
    fn count(&mut self, access: &Accessed, verdict: &Verdict) {
        self.counts.rows_in += 1;
        self.counts.late += u64::from(self.classifier.is_late(access.timestamp_ns));
        self.counts.by_decision[verdict.decided_by as usize] += 1;
    }

    fn note_dropped(&mut self, access: &TraceRow<'_>) {
        self.counts.dropped += 1;
        self.dropped_bytes = self.dropped_bytes.saturating_add(access.size_bytes);
        let words = || format!("first by symbol {:?} at {:#x}", access.symbol, access.address);
        self.first_dropped.get_or_insert_with(words);
    }
}
