//! What is gathered only for metrics that are asked for by name.
//!
//! The standard metrics come from one pass in little time; these follow each row once more. Rows that are samples are left
//! out: none of these metrics can be estimated from them (`docs/metrics/sampling.md`).

mod byte_uses;
mod fenwick;
mod lru_stack;
mod metric_set;
mod read_ages;
mod reuse_distances;
mod windows;

pub(crate) use byte_uses::{ByteUses, UseTotals};
pub use metric_set::RequestedMetrics;
pub(crate) use read_ages::{AgeTotals, ReadAges};
pub(crate) use reuse_distances::{ReuseDistances, ReuseTotals};
pub(crate) use windows::{AccessWindows, WindowTotals, WindowTraffic};

use dwell_events::Metric;

use crate::reader::Access;
use crate::{Basis, Options};

/// What the metrics on request gather; each is there only if it is asked for.
#[derive(Debug, Default)]
pub(crate) struct Requested {
    /// By position of the region.
    pub(crate) uses: Option<Vec<ByteUses>>,
    pub(crate) reuse: Option<ReuseDistances>,
    pub(crate) windows: Option<AccessWindows>,
    pub(crate) ages: Option<ReadAges>,
}

impl Requested {
    /// None if nothing is asked for.
    pub(crate) fn new(options: &Options) -> Option<Box<Self>> {
        let wants = |metric| options.requested.contains(metric);
        (!options.requested.is_empty()).then(|| {
            Box::new(Self {
                uses: (wants(Metric::HotCold) || wants(Metric::Endurance)).then(Vec::new),
                reuse: wants(Metric::ReuseDistance).then(ReuseDistances::default),
                windows: wants(Metric::Bandwidth).then(|| AccessWindows::new(options.window_ns)),
                ages: wants(Metric::ReadAge).then(ReadAges::default),
            })
        })
    }

    /// Takes a row of the region at this position. Rows come in the order of time.
    pub(crate) fn follow(&mut self, access: &Access, position: usize, type_index: usize) {
        if access.basis == Basis::Sampled {
            return;
        }
        if let Some(uses) = &mut self.uses {
            make_room(uses, position).add((access.address, access.end()), access.op_type);
        }
        if let Some(reuse) = &mut self.reuse {
            reuse.follow(access, type_index);
        }
        if let Some(windows) = &mut self.windows {
            windows.follow(access, type_index);
        }
    }

    /// What the figures of one region type are made of; `regions` are the positions of its regions.
    pub(crate) fn of_type(&self, type_index: usize, regions: impl Iterator<Item = usize>) -> RequestedOfType {
        let uses_of_type = |uses: &[ByteUses]| UseTotals::of(regions.filter_map(|position| uses.get(position)));
        RequestedOfType {
            uses: self.uses.as_deref().map(uses_of_type),
            reuse: self.reuse.as_ref().map(|reuse| reuse.of_type(type_index).clone()),
            windows: self.windows.as_ref().map(|windows| windows.of_type(type_index)),
            ages: self.ages.as_ref().map(|ages| ages.of_type(type_index).clone()),
        }
    }
}

fn make_room(uses: &mut Vec<ByteUses>, position: usize) -> &mut ByteUses {
    if position >= uses.len() {
        uses.resize_with(position + 1, ByteUses::default);
    }
    &mut uses[position]
}

/// What the figures of one region type on request are made of; what several runs add up to.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestedOfType {
    pub(crate) uses: Option<UseTotals>,
    pub(crate) reuse: Option<ReuseTotals>,
    pub(crate) windows: Option<WindowTotals>,
    pub(crate) ages: Option<AgeTotals>,
}

impl RequestedOfType {
    /// Adds the memory of another run.
    pub(crate) fn merge(&mut self, other: &RequestedOfType) {
        join(&mut self.uses, &other.uses, UseTotals::merge);
        join(&mut self.reuse, &other.reuse, ReuseTotals::merge);
        join(&mut self.windows, &other.windows, WindowTotals::merge);
        join(&mut self.ages, &other.ages, AgeTotals::merge);
    }
}

/// What only one of two runs was asked for is not known of both.
fn join<T>(ours: &mut Option<T>, theirs: &Option<T>, merge: impl Fn(&mut T, &T)) {
    match (ours.as_mut(), theirs) {
        (Some(known), Some(added)) => merge(known, added),
        _ => *ours = None,
    }
}
