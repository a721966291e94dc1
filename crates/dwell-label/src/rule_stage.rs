//! Rules on the way of exact accesses to the trace.

use std::collections::HashMap;

use dwell_events::schema::trace::TraceRow;
use dwell_events::{LossKind, RegionType};

use crate::labelled::Output;
use crate::loss_count::LossCount;
use crate::regions::Regions;
use crate::rules::{Access, Classifier, RuleSet, UnknownPolicy, UnlabelledAccess};

/// The rules of a run, and what they have seen.
pub struct RuleStage {
    classifier: Classifier,
    policy: UnknownPolicy,
    /// Regions that were split because rules gave a part of their accesses another type.
    splits: HashMap<(u32, RegionType), u32>,
    /// First access that nothing could label, where that is an error.
    pub unlabelled: Option<UnlabelledAccess>,
}

impl RuleStage {
    pub fn new(rules: RuleSet, policy: UnknownPolicy) -> Self {
        Self { classifier: Classifier::new(rules), policy, splits: HashMap::new(), unlabelled: None }
    }

    /// Gives the row the label that the rules say. False if it is to be dropped.
    fn relabel(&mut self, row: &mut TraceRow<'_>, regions: &mut Regions, loss: &mut LossCount) -> bool {
        let access = access_of(row);
        let region_type = self.classifier.decide(&access).region_type;
        if region_type == RegionType::Unknown {
            match self.policy {
                UnknownPolicy::Keep => {}
                UnknownPolicy::Skip => {
                    loss.add(LossKind::UnlabelledAccesses, 1, Some(access.size_bytes), || {
                        format!("first by operation {} on {:?}", row.symbol, row.tensor)
                    });
                    return false;
                }
                UnknownPolicy::Error => {
                    self.unlabelled.get_or_insert_with(|| UnlabelledAccess::from(&access));
                }
            }
        }
        if region_type != row.region_type {
            let region_id = row.region_id;
            let split = self.splits.entry((region_id, region_type));
            row.region_id = *split.or_insert_with(|| regions.split(region_id, region_type));
            row.region_type = region_type;
        }
        self.classifier.settle(&access, row.region_type, row.region_id);
        true
    }
}

fn access_of<'a>(row: &TraceRow<'a>) -> Access<'a> {
    Access {
        timestamp_ns: row.timestamp_ns,
        address: row.address,
        size_bytes: row.size_bytes,
        op_type: row.op_type,
        phase: Some(row.phase),
        symbol: row.symbol,
        dso: row.dso,
        source: row.source,
        region_type: row.region_type,
        region_id: row.region_id,
    }
}

/// Adds an access to the trace and to the sums of its region, after the rules have had their say.
pub fn emit(
    mut row: TraceRow<'_>,
    rules: Option<&mut RuleStage>,
    regions: &mut Regions,
    loss: &mut LossCount,
    out: &mut Output,
) {
    if let Some(rules) = rules
        && !rules.relabel(&mut row, regions, loss)
    {
        return;
    }
    regions.count(row.region_id, row.op_type, row.size_bytes, row.timestamp_ns);
    out.trace.push(&row);
}
