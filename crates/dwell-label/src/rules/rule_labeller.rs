//! Labels one access after the other and numbers the regions.

use std::collections::HashMap;

use dwell_events::schema::loss::LossRow;
use dwell_events::schema::region_map::RegionRow;
use dwell_events::{LossKind, RegionType};

use super::classifier::{Classifier, Verdict};
use super::{Access, DecidedBy, RuleSet, UnknownPolicy, UnlabelledAccess};

/// What `origin` says of regions whose bytes nobody saw arrive.
const ORIGIN_UNKNOWN: &str = "unknown";
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

/// What is known of a region that accesses are labelled with already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRegion {
    /// First byte.
    pub address: u64,
    /// Bytes from `address` on.
    pub size_bytes: u64,
    /// Tensor that owns the bytes.
    pub tensor: String,
    /// Layer of the tensor, if it belongs to one.
    pub layer: Option<u16>,
    /// How the bytes came there.
    pub origin: &'static str,
    /// Offset of the bytes in the model file.
    pub file_offset: Option<u64>,
    /// When the memory was given back, if that was seen.
    pub freed_ns: Option<u64>,
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

/// What is known at the end, besides the labels.
pub struct RuleLabels {
    /// Regions, by id.
    pub regions: Vec<RegionRow>,
    /// Accesses that were dropped, if there are any.
    pub loss: Option<LossRow>,
    /// How many accesses went which way.
    pub counts: LabelCounts,
}

/// What makes a region one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RegionKey {
    /// Accesses that came with this id, as far as they are of this type.
    Input(u32, RegionType),
    /// A registered range.
    Range(u32),
    /// Accesses of this type that came too late to be told apart by the pages of their time.
    Late(RegionType),
}

/// Labels accesses, which come in the order of time; accesses of one time keep their order.
///
/// The result of labelling its own result again is that result.
pub struct RuleLabeller {
    classifier: Classifier,
    policy: UnknownPolicy,
    known: HashMap<u32, KnownRegion>,
    regions: Vec<RegionRow>,
    by_key: HashMap<RegionKey, u32>,
    counts: LabelCounts,
    dropped_bytes: u64,
    first_dropped: Option<String>,
}

impl RuleLabeller {
    /// A labeller by these rules.
    pub fn new(rules: RuleSet, policy: UnknownPolicy) -> Self {
        Self {
            classifier: Classifier::new(rules),
            policy,
            known: HashMap::new(),
            regions: Vec::new(),
            by_key: HashMap::new(),
            counts: LabelCounts::default(),
            dropped_bytes: 0,
            first_dropped: None,
        }
    }

    /// Says what is known of the regions that accesses come with, by id.
    pub fn with_known_regions(mut self, known: HashMap<u32, KnownRegion>) -> Self {
        self.known = known;
        self
    }

    /// The label of the next access; none if it is to be dropped.
    pub fn label(&mut self, access: &Access<'_>) -> Result<Option<Label>, UnlabelledAccess> {
        let verdict = self.classifier.decide(access);
        self.count(access, &verdict);
        if verdict.region_type == RegionType::Unknown {
            match self.policy {
                UnknownPolicy::Keep => {}
                UnknownPolicy::Skip => return Ok(self.drop_access(access)),
                UnknownPolicy::Error => return Err(UnlabelledAccess::from(access)),
            }
        }
        let region_id = self.region_of(access, &verdict);
        self.classifier.settle(access, verdict.region_type, region_id);
        self.add_to_region(region_id, access);
        Ok(Some(Label { region_type: verdict.region_type, region_id, decided_by: verdict.decided_by }))
    }

    /// Memory was given back; what was known of it is over.
    pub fn memory_freed(&mut self, address: u64, size_bytes: u64, time_ns: u64) {
        for region_id in self.classifier.forget(address, size_bytes, time_ns) {
            self.regions[region_id as usize - 1].freed_ns = Some(time_ns);
        }
    }

    /// Memory was handed out; if it was used before, what was known of it is over.
    pub fn memory_allocated(&mut self, address: u64, size_bytes: u64, time_ns: u64) {
        self.classifier.forget(address, size_bytes, time_ns);
    }

    /// Regions, loss and counts.
    pub fn finish(self) -> RuleLabels {
        let detail = self.first_dropped.unwrap_or_default();
        let loss = (self.counts.dropped > 0).then_some(LossRow {
            kind: LossKind::UnlabelledAccesses,
            source: LOSS_SOURCE,
            count: self.counts.dropped,
            bytes: Some(self.dropped_bytes),
            detail,
        });
        RuleLabels { regions: self.regions, loss, counts: self.counts }
    }

    fn count(&mut self, access: &Access<'_>, verdict: &Verdict) {
        self.counts.rows_in += 1;
        self.counts.late += u64::from(self.classifier.is_late(access.timestamp_ns));
        self.counts.by_decision[verdict.decided_by as usize] += 1;
    }

    fn drop_access(&mut self, access: &Access<'_>) -> Option<Label> {
        self.counts.dropped += 1;
        self.dropped_bytes = self.dropped_bytes.saturating_add(access.size_bytes);
        let words = || format!("first by symbol {:?} at {:#x}", access.symbol, access.address);
        self.first_dropped.get_or_insert_with(words);
        None
    }

    fn region_of(&mut self, access: &Access<'_>, verdict: &Verdict) -> u32 {
        let region_type = verdict.region_type;
        let is_own = verdict.decided_by == DecidedBy::Override || access.region_type == region_type;
        if access.region_id != 0 && is_own {
            return self.keyed_region(RegionKey::Input(access.region_id, region_type), region_type, access);
        }
        if let Some(range) = verdict.range {
            return self.keyed_region(RegionKey::Range(range), region_type, access);
        }
        match verdict.page_region {
            _ if region_type == RegionType::Unknown => 0,
            Some(region_id) => region_id,
            None => self.region_by_pages(region_type, access),
        }
    }

    /// The region that the access's page is in, or that ends or begins beside it, or a new one.
    fn region_by_pages(&mut self, region_type: RegionType, access: &Access<'_>) -> u32 {
        if self.classifier.is_late(access.timestamp_ns) {
            return self.keyed_region(RegionKey::Late(region_type), region_type, access);
        }
        let runs = self.classifier.runs_around(access.address, access.timestamp_ns);
        match runs.into_iter().flatten().find(|run| run.region_type == region_type) {
            Some(run) => run.region_id,
            None => self.new_region(region_type, access, None),
        }
    }

    fn keyed_region(&mut self, key: RegionKey, region_type: RegionType, access: &Access<'_>) -> u32 {
        if let Some(&region_id) = self.by_key.get(&key) {
            return region_id;
        }
        let known = match key {
            RegionKey::Input(id, _) => self.known.get(&id).cloned(),
            RegionKey::Late(_) => None,
            RegionKey::Range(index) => {
                let range = self.classifier.rules().ranges().get(index);
                Some(KnownRegion {
                    address: range.address,
                    size_bytes: range.size_bytes,
                    tensor: range.name.clone().unwrap_or_default(),
                    layer: None,
                    origin: ORIGIN_UNKNOWN,
                    file_offset: None,
                    freed_ns: range.to_ns,
                })
            }
        };
        let region_id = self.new_region(region_type, access, known);
        self.by_key.insert(key, region_id);
        region_id
    }

    fn new_region(&mut self, region_type: RegionType, access: &Access<'_>, known: Option<KnownRegion>) -> u32 {
        let known = known.unwrap_or_else(|| KnownRegion {
            address: access.address,
            size_bytes: access.size_bytes,
            tensor: String::new(),
            layer: None,
            origin: ORIGIN_UNKNOWN,
            file_offset: None,
            freed_ns: None,
        });
        let region_id = self.regions.len() as u32 + 1;
        self.regions.push(RegionRow {
            region_id,
            region_type,
            address: known.address,
            size_bytes: known.size_bytes,
            first_seen_ns: u64::MAX,
            last_seen_ns: 0,
            access_count: 0,
            tensor: known.tensor,
            layer: known.layer,
            bytes_read: 0,
            bytes_written: 0,
            origin: known.origin,
            file_offset: known.file_offset,
            freed_ns: known.freed_ns,
        });
        region_id
    }

    fn add_to_region(&mut self, region_id: u32, access: &Access<'_>) {
        let Some(row) = (region_id as usize).checked_sub(1).and_then(|at| self.regions.get_mut(at)) else { return };
        let end = row.address.saturating_add(row.size_bytes).max(access.end());
        row.address = row.address.min(access.address);
        row.size_bytes = end - row.address;
        row.add_access(access.op_type, access.size_bytes, access.timestamp_ns);
    }
}
