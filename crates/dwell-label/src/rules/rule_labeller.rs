//! Labels accesses that lie in a table already, and numbers their regions anew.

use std::collections::HashMap;

use dwell_events::schema::loss::LossRow;
use dwell_events::schema::region_map::RegionRow;
use dwell_events::schema::trace::TraceRow;

use super::stage::RuleStage;
use super::{Label, LabelCounts, MatchingRules, RuleSet, UnknownPolicy, UnlabelledAccess};
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
        Ok(self.counted(label, access))
    }

    /// The rules that match the texts of an access, for [`RuleLabeller::label_by`].
    pub fn matching_rules(&self, access: &TraceRow<'_>) -> MatchingRules {
        self.stage.matching_rules(access)
    }

    /// The label of the next access, of whose texts [`RuleLabeller::matching_rules`] was asked before: callers that have
    /// numbered their texts need not look at them for every access.
    pub fn label_by(
        &mut self,
        matching: &MatchingRules,
        access: &TraceRow<'_>,
    ) -> Result<Option<Label>, UnlabelledAccess> {
        let label = self.stage.label_by(matching, access, &mut self.regions)?;
        Ok(self.counted(label, access))
    }

    #[inline]
    fn counted(&mut self, label: Option<Label>, access: &TraceRow<'_>) -> Option<Label> {
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
