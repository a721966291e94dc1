//! The rows of the region map, and which accesses share one.

use std::collections::HashMap;

use dwell_events::RegionType;
use dwell_events::schema::region_map::RegionRow;

use super::{KnownRegion, RegionPlace};
use crate::rules::{Accessed, Classifier, DecidedBy, Verdict};

/// What `origin` says of regions whose bytes nobody saw arrive.
const ORIGIN_UNKNOWN: &str = "unknown";

/// Where accesses that come with a region have it from.
pub(crate) enum Numbering {
    /// From this table: their source declared it here. Rules that give an access another type split the region.
    Declared,
    /// From elsewhere, with what is known of it. Regions are numbered anew, in the order of their first access.
    Anew(HashMap<u32, KnownRegion>),
}

/// What makes a region one, where its source did not declare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RegionKey {
    /// Accesses that came with this id, as far as they are of this type.
    Input(u32, RegionType),
    /// A registered range.
    Range(u32),
    /// Accesses of this type that came too late to be told apart by the pages of their time.
    Late(RegionType),
}

struct Region {
    row: RegionRow,
    /// Whether its accesses say how large it is.
    grows: bool,
}

/// All regions seen so far.
pub(crate) struct RegionTable {
    regions: Vec<Region>,
    by_place: HashMap<(RegionType, String, u64), u32>,
    by_key: HashMap<RegionKey, u32>,
    numbering: Numbering,
}

impl RegionTable {
    pub(crate) fn new(numbering: Numbering) -> Self {
        Self { regions: Vec::new(), by_place: HashMap::new(), by_key: HashMap::new(), numbering }
    }

    /// The region of a tensor at an address, made if it is new.
    pub(crate) fn declare(&mut self, place: &RegionPlace<'_>, origin: &'static str) -> u32 {
        let key = (place.region_type, place.tensor.to_owned(), place.address);
        if let Some(&id) = self.by_place.get(&key) {
            let row = &mut self.regions[id as usize - 1].row;
            row.size_bytes = row.size_bytes.max(place.size_bytes);
            return id;
        }
        let id = self.add(place.region_type, KnownRegion { origin, ..KnownRegion::from(place) }, false);
        self.by_place.insert(key, id);
        id
    }

    pub(crate) fn declared(&self, region_type: RegionType, tensor: &str, address: u64) -> Option<u32> {
        self.by_place.get(&(region_type, tensor.to_owned(), address)).copied()
    }

    pub(crate) fn row(&self, id: u32) -> Option<&RegionRow> {
        self.regions.get((id as usize).checked_sub(1)?).map(|region| &region.row)
    }

    pub(crate) fn row_mut(&mut self, id: u32) -> Option<&mut RegionRow> {
        self.regions.get_mut((id as usize).checked_sub(1)?).map(|region| &mut region.row)
    }

    /// Adds one access to the sums of a region.
    #[inline]
    pub(crate) fn count(&mut self, region_id: u32, access: &Accessed) {
        let Some(at) = (region_id as usize).checked_sub(1) else { return };
        let Some(Region { row, grows }) = self.regions.get_mut(at) else { return };
        if *grows {
            let end = row.address.saturating_add(row.size_bytes).max(access.end_address());
            row.address = row.address.min(access.address);
            row.size_bytes = end - row.address;
        }
        row.add_access(access.op_type, access.size_bytes, access.timestamp_ns);
    }

    /// The region of an access, given what it was found to be; 0 if it has none.
    pub(crate) fn region_of(&mut self, access: &Accessed, verdict: &Verdict, classifier: &Classifier) -> u32 {
        let region_type = verdict.region_type;
        if access.region_id != 0 {
            let is_same = access.region_type == region_type;
            match &self.numbering {
                Numbering::Declared if is_same => return access.region_id,
                Numbering::Declared => return self.split(access, region_type),
                Numbering::Anew(known) if is_same || verdict.decided_by == DecidedBy::Override => {
                    let known = known.get(&access.region_id).cloned();
                    return self.keyed(RegionKey::Input(access.region_id, region_type), region_type, access, known);
                }
                Numbering::Anew(_) => {}
            }
        }
        if let Some(index) = verdict.range {
            let range = KnownRegion::from(classifier.rules().ranges().get(index));
            return self.keyed(RegionKey::Range(index), region_type, access, Some(range));
        }
        match verdict.page_region {
            _ if region_type == RegionType::Unknown => 0,
            Some(region_id) => region_id,
            None => self.region_by_pages(region_type, access, classifier),
        }
    }

    /// The region of the accesses to a declared region that are of another type than it is, by rules.
    fn split(&mut self, access: &Accessed, region_type: RegionType) -> u32 {
        let key = RegionKey::Input(access.region_id, region_type);
        if let Some(&id) = self.by_key.get(&key) {
            return id;
        }
        let Some(whole) = self.row(access.region_id).cloned() else { return 0 };
        let place = RegionPlace {
            region_type,
            tensor: &whole.tensor,
            layer: whole.layer,
            address: whole.address,
            size_bytes: whole.size_bytes,
        };
        let id = self.declare(&place, whole.origin);
        if let Some(row) = self.row_mut(id) {
            (row.origin, row.file_offset) = (whole.origin, whole.file_offset);
        }
        self.by_key.insert(key, id);
        id
    }

    /// The region that the access's page is in, or that ends or begins beside it, or a new one.
    fn region_by_pages(&mut self, region_type: RegionType, access: &Accessed, classifier: &Classifier) -> u32 {
        if classifier.is_late(access.timestamp_ns) {
            return self.keyed(RegionKey::Late(region_type), region_type, access, None);
        }
        let known = classifier.region_around(region_type, access.address, access.timestamp_ns);
        known.unwrap_or_else(|| self.add(region_type, KnownRegion::from(access), true))
    }

    fn keyed(&mut self, key: RegionKey, region_type: RegionType, access: &Accessed, known: Option<KnownRegion>) -> u32 {
        if let Some(&region_id) = self.by_key.get(&key) {
            return region_id;
        }
        let region_id = self.add(region_type, known.unwrap_or_else(|| KnownRegion::from(access)), true);
        self.by_key.insert(key, region_id);
        region_id
    }

    fn add(&mut self, region_type: RegionType, known: KnownRegion, grows: bool) -> u32 {
        let region_id = self.regions.len() as u32 + 1;
        let row = RegionRow {
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
        };
        self.regions.push(Region { row, grows });
        region_id
    }

    /// The regions that were accessed.
    pub(crate) fn into_rows(self) -> Vec<RegionRow> {
        self.regions.into_iter().map(|region| region.row).filter(|row| row.access_count > 0).collect()
    }
}

impl From<&Accessed> for KnownRegion {
    fn from(access: &Accessed) -> Self {
        Self {
            address: access.address,
            size_bytes: access.size_bytes,
            tensor: String::new(),
            layer: None,
            origin: ORIGIN_UNKNOWN,
            file_offset: None,
            freed_ns: None,
        }
    }
}

impl From<&crate::rules::RegisteredRange> for KnownRegion {
    fn from(range: &crate::rules::RegisteredRange) -> Self {
        Self {
            address: range.address,
            size_bytes: range.size_bytes,
            tensor: range.name.clone().unwrap_or_default(),
            layer: None,
            origin: ORIGIN_UNKNOWN,
            file_offset: None,
            freed_ns: range.to_ns,
        }
    }
}

impl From<&RegionPlace<'_>> for KnownRegion {
    fn from(place: &RegionPlace<'_>) -> Self {
        Self {
            address: place.address,
            size_bytes: place.size_bytes,
            tensor: place.tensor.to_owned(),
            layer: place.layer,
            origin: ORIGIN_UNKNOWN,
            file_offset: None,
            freed_ns: None,
        }
    }
}
