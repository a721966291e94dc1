//! Labels accesses that lie in a table already, and numbers their regions anew.

use std::collections::HashMap;

use dwell_events::schema::loss::LossRow;
use dwell_events::schema::region_map::RegionRow;
use dwell_events::schema::trace::TraceRow;

use super::stage::RuleStage;
use super::{Accessed, KindRule, Label, LabelCounts, RuleSet, UnknownPolicy, UnlabelledAccess};
use crate::regions::{KnownRegion, Numbering, RegionTable};

/// What is known at the end, besides the labels.
pub struct RuleLabels {
    /// Regions, by id.
    pub regions: Vec<RegionRow>,
    /// Accesses that were dropped, if there are any.
    pub loss: Option<LossRow>,
    /// How many accesses went which way.
    pub counts: LabelCounts,
}

/// Labels accesses, which come in the order of time; accesses of one time keep their order.
///
/// The result of labelling its own result again is that result.
pub struct RuleLabeller {
    stage: RuleStage,
    regions: RegionTable,
}

impl RuleLabeller {
    /// A labeller by these rules.
    pub fn new(rules: RuleSet, policy: UnknownPolicy) -> Self {
        let regions = RegionTable::new(Numbering::Anew(HashMap::new()));
        Self { stage: RuleStage::new(rules, policy), regions }
    }

    /// Says what is known of the regions that accesses come with, by id.
    pub fn with_known_regions(mut self, known: HashMap<u32, KnownRegion>) -> Self {
        self.regions = RegionTable::new(Numbering::Anew(known));
        self
    }

    /// The label of the next access; none if it is to be dropped.
    pub fn label(&mut self, access: &TraceRow<'_>) -> Result<Option<Label>, UnlabelledAccess> {
        let label = self.stage.label(access, &mut self.regions)?;
        Ok(self.counted(label, &access.into()))
    }

    /// What the rules say about accesses of the kind of this one, for [`RuleLabeller::label_by`].
    pub fn rule_of(&mut self, access: &TraceRow<'_>) -> KindRule {
        self.stage.rule_of(access)
    }

    /// The label of the next access, of whose kind [`RuleLabeller::rule_of`] was asked before: callers that have numbered
    /// their kinds need not look at texts for every access. `whole` gives the texts for messages.
    #[inline]
    pub fn label_by<'t>(
        &mut self,
        rule: KindRule,
        access: &Accessed,
        whole: impl FnOnce() -> TraceRow<'t>,
    ) -> Result<Option<Label>, UnlabelledAccess> {
        let label = self.stage.label_by(rule, access, &mut self.regions, whole)?;
        Ok(self.counted(label, access))
    }

    #[inline]
    fn counted(&mut self, label: Option<Label>, access: &Accessed) -> Option<Label> {
        if let Some(label) = label {
            self.regions.count(label.region_id, access);
        }
        label
    }

    /// Memory was given back; what was known of it is over.
    pub fn memory_freed(&mut self, address: u64, size_bytes: u64, time_ns: u64) {
        for region_id in self.stage.forget(address, size_bytes, time_ns) {
            if let Some(row) = self.regions.row_mut(region_id) {
                row.freed_ns = Some(time_ns);
            }
        }
    }

    /// Memory was handed out; if it was used before, what was known of it is over.
    pub fn memory_allocated(&mut self, address: u64, size_bytes: u64, time_ns: u64) {
        self.stage.forget(address, size_bytes, time_ns);
    }

    /// Regions, loss and counts.
    pub fn finish(self) -> RuleLabels {
        let end = self.stage.finish();
        let counts = end.counts.clone();
        RuleLabels { regions: self.regions.into_rows(), loss: end.loss(), counts }
    }
}
