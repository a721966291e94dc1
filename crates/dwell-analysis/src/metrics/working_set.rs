//! Working set: how much memory was touched, over the trace and in a step.

use dwell_events::PAGE_SHIFT;
use serde::Serialize;

use super::mean;
use crate::Basis;
use crate::mrm_trace::RegionFacts;
use crate::region_type::{KNOWN_TYPES, RegionTypeName};

/// How much memory was touched.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkingSet {
    /// How it was obtained.
    pub basis: Basis,
    /// `dwell`: distinct bytes touched. `mrm-trace`: 4096 for each page of each region.
    pub distinct_bytes: u64,
    /// `dwell`: distinct pages of 4 KiB. `mrm-trace`: a page counts once for each region that touches it.
    pub distinct_pages: u64,
    /// Distinct bytes touched in a step, median over the steps that touched any.
    pub step_median_bytes: Option<f64>,
    /// The same, largest.
    pub step_max_bytes: Option<u64>,
}

/// Bytes touched in each step, by region type.
#[derive(Debug, Default)]
pub(crate) struct StepWindows {
    current_step: Option<u32>,
    /// Counts up with every change of the step; 0 before the first.
    number: u32,
    open_bytes: [u64; KNOWN_TYPES],
    closed_bytes: [Vec<u64>; KNOWN_TYPES],
}

impl StepWindows {
    /// Follows a row's step. Rows outside of any step belong to no window and end none.
    ///
    /// Returns the number of the row's window, 0 if it has none, and whether the window is new.
    pub(crate) fn enter(&mut self, step: Option<u32>) -> (u32, bool) {
        let Some(step) = step else { return (0, false) };
        let is_new = self.current_step != Some(step);
        if is_new {
            self.close();
            self.current_step = Some(step);
            self.number += 1;
        }
        (self.number, is_new)
    }

    pub(crate) fn add(&mut self, type_index: usize, bytes: u64) {
        self.open_bytes[type_index] = self.open_bytes[type_index].saturating_add(bytes);
    }

    /// Ends the current window.
    pub(crate) fn close(&mut self) {
        for (open, closed) in self.open_bytes.iter_mut().zip(&mut self.closed_bytes) {
            if *open > 0 {
                closed.push(std::mem::take(open));
            }
        }
    }

    /// Median and maximum over the closed windows in which the type was touched.
    pub(crate) fn median_and_max(&self, type_index: usize) -> (Option<f64>, Option<u64>) {
        let mut bytes = self.closed_bytes[type_index].clone();
        bytes.sort_unstable();
        let middle = bytes.len() / 2;
        let median = match bytes.len() {
            0 => None,
            odd if odd % 2 == 1 => Some(bytes[middle] as f64),
            _ => Some((bytes[middle - 1] as f64 + bytes[middle] as f64) / 2.0),
        };
        (median, bytes.last().copied())
    }
}

/// `mrm-trace`: working set of one region.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MrmWorkingSetRegion {
    /// Region.
    pub region_id: u64,
    /// Distinct pages.
    pub unique_pages: u64,
    /// Type of the region's first row.
    pub region_type: RegionTypeName,
    /// 4096 for each.
    pub working_set_bytes: u64,
}

/// `mrm-trace`: working set of the regions of one type, added up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MrmWorkingSetSummary {
    /// Type of the regions.
    pub region_type: RegionTypeName,
    /// Regions of the type.
    pub n_regions: u64,
    /// Sum of the regions' pages.
    pub total_pages: u64,
    /// 4096 for each.
    pub total_bytes: u64,
    /// Mean of the regions' pages.
    pub mean_pages_per_region: f64,
    /// Most pages in one region.
    pub max_pages_per_region: u64,
}

pub(crate) fn mrm_regions(regions: &[RegionFacts]) -> Vec<MrmWorkingSetRegion> {
    let working_set = |region: &RegionFacts| MrmWorkingSetRegion {
        region_id: region.region_id,
        region_type: region.region_type.clone(),
        unique_pages: region.pages,
        working_set_bytes: region.pages << PAGE_SHIFT,
    };
    regions.iter().map(working_set).collect()
}

/// One row per type in `types`, which are sorted and all in use.
pub(crate) fn mrm_summary(types: &[RegionTypeName], regions: &[MrmWorkingSetRegion]) -> Vec<MrmWorkingSetSummary> {
    let summary = |region_type: &RegionTypeName| {
        let of_type = || regions.iter().filter(|region| region.region_type == *region_type);
        let total_pages: u64 = of_type().map(|region| region.unique_pages).sum();
        Some(MrmWorkingSetSummary {
            region_type: region_type.clone(),
            n_regions: of_type().count() as u64,
            total_pages,
            total_bytes: total_pages << PAGE_SHIFT,
            mean_pages_per_region: mean(of_type().map(|region| region.unique_pages as f64))?,
            max_pages_per_region: of_type().map(|region| region.unique_pages).max()?,
        })
    };
    types.iter().filter_map(summary).collect()
}
