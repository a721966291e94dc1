//! The regions of a run: which tensor at which address, and the sums of the accesses to it.
//!
//! A source that knows whose memory it touches declares it ([`Regions::declare`]) and gives its accesses the region's
//! number. One that knows addresses and functions only leaves the region open: rules, registered ranges and the pages
//! that earlier accesses touched tell it ([`Regions::with_rules`]). Both hand every access to [`Regions::push`].

mod table;

use std::sync::Arc;

use dwell_events::RegionType;
use dwell_events::schema::loss::LossRow;
use dwell_events::schema::region_map::RegionRow;
use dwell_events::schema::trace::{TraceBuilder, TraceRow};

pub(crate) use table::{Numbering, RegionTable};

use crate::rules::{RuleSet, RuleStage, UnknownPolicy, UnlabelledAccess};

/// What `origin` says of memory that holds what was computed.
const ORIGIN_COMPUTED: &str = "computed";

/// A tensor in memory, as its source knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionPlace<'a> {
    /// Whose memory it is.
    pub region_type: RegionType,
    /// The tensor's name.
    pub tensor: &'a str,
    /// Its layer, if it belongs to one.
    pub layer: Option<u16>,
    /// First byte.
    pub address: u64,
    /// Bytes from `address` on.
    pub size_bytes: u64,
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

/// A declared region, as the accesses to it need it.
#[derive(Clone, Debug)]
pub struct RegionLabel {
    /// Row of the region map.
    pub id: u32,
    /// Whose memory it is.
    pub region_type: RegionType,
    /// Tensor that owns it.
    pub tensor: Arc<str>,
    /// Layer of that tensor.
    pub layer: Option<u16>,
}

/// What is known of regions when the run is over.
pub struct RegionsEnd {
    /// The regions that were accessed, by number.
    pub rows: Vec<RegionRow>,
    /// Accesses that were dropped because nothing could label them, if there are any.
    pub loss: Option<LossRow>,
}

/// The regions of a run, and the rules for accesses that come without one.
pub struct Regions {
    table: RegionTable,
    rules: Option<Box<RuleStage>>,
    unlabelled: Option<UnlabelledAccess>,
}

impl Default for Regions {
    fn default() -> Self {
        Self { table: RegionTable::new(Numbering::Declared), rules: None, unlabelled: None }
    }
}

impl Regions {
    /// Asks rules about every access before it becomes a row: about those whose owner is not known, and, by rules that
    /// apply to all, about the others.
    pub fn with_rules(mut self, rules: RuleSet, policy: UnknownPolicy) -> Self {
        self.rules = Some(Box::new(RuleStage::new(rules, policy)));
        self
    }

    /// The region of a tensor at an address, made if it is new.
    pub fn declare(&mut self, place: &RegionPlace<'_>) -> RegionLabel {
        let id = self.table.declare(place, ORIGIN_COMPUTED);
        RegionLabel { id, region_type: place.region_type, tensor: place.tensor.into(), layer: place.layer }
    }

    /// Number of the region of a tensor at an address, if it was declared.
    pub fn declared(&self, region_type: RegionType, tensor: &str, address: u64) -> Option<u32> {
        self.table.declared(region_type, tensor, address)
    }

    /// A region that was declared.
    pub fn row(&self, id: u32) -> Option<&RegionRow> {
        self.table.row(id)
    }

    /// A region that was declared, to say where its content comes from.
    pub fn row_mut(&mut self, id: u32) -> Option<&mut RegionRow> {
        self.table.row_mut(id)
    }

    /// Adds an access to the trace and to the sums of its region, after the rules have had their say.
    #[inline]
    pub fn push(&mut self, mut access: TraceRow<'_>, out: &mut TraceBuilder) {
        if let Some(rules) = self.rules.as_deref_mut() {
            match rules.label(&access, &mut self.table) {
                Ok(Some(label)) => (access.region_type, access.region_id) = (label.region_type, label.region_id),
                Ok(None) => return,
                Err(unlabelled) => _ = self.unlabelled.get_or_insert(unlabelled),
            }
        }
        self.table.count(access.region_id, &(&access).into());
        out.push(&access);
    }

    /// First access so far that nothing could label, with [`UnknownPolicy::Error`].
    pub fn unlabelled(&self) -> Option<&UnlabelledAccess> {
        self.unlabelled.as_ref()
    }

    /// The regions that were accessed. What was not seen to be given back before was at `freed_ns`.
    pub fn finish(self, freed_ns: Option<u64>) -> RegionsEnd {
        let mut rows = self.table.into_rows();
        rows.iter_mut().for_each(|row| row.freed_ns = row.freed_ns.or(freed_ns));
        RegionsEnd { rows, loss: self.rules.and_then(|rules| rules.finish().loss()) }
    }
}
