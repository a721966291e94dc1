//! The result tables of mrm-trace, under the names it gives them.

use serde::Serialize;

use crate::histogram::GatheredLives;
use crate::metrics::inter_access_interval::{self, MrmInterval};
use crate::metrics::locality::{self, MrmLocalityRegion, MrmLocalitySummary};
use crate::metrics::read_frequency::{self, MrmReadFrequency};
use crate::metrics::retention::{self, MrmRetentionRegion, MrmRetentionSummary};
use crate::metrics::suitability::{MrmSuitability, SuitabilityThresholds};
use crate::metrics::working_set::{self, MrmWorkingSetRegion, MrmWorkingSetSummary};
use crate::metrics::write_once::{self, MrmWriteOnce};
use crate::mrm_trace::{ConcludedAddresses, RegionHistory};
use crate::region_type::RegionTypeName;

/// The tables that `compute_all` of mrm-trace returns. Rows are sorted by region id or by type.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MrmTraceFrames {
    /// Retention of each region.
    pub retention_per_region: Vec<MrmRetentionRegion>,
    /// Retention of each type.
    pub retention_summary: Vec<MrmRetentionSummary>,
    /// Write-once ratio of each region that was stored to.
    pub write_once: Vec<MrmWriteOnce>,
    /// Read frequency of each region.
    pub read_freq: Vec<MrmReadFrequency>,
    /// Working set of each region.
    pub working_set_per_region: Vec<MrmWorkingSetRegion>,
    /// Working set of each type.
    pub working_set_summary: Vec<MrmWorkingSetSummary>,
    /// Locality of each region.
    pub locality_per_region: Vec<MrmLocalityRegion>,
    /// Locality of each type.
    pub locality_summary: Vec<MrmLocalitySummary>,
    /// Inter-access intervals of each type that has any.
    pub iai: Vec<MrmInterval>,
    /// Suitability of each type.
    pub suitability: Vec<MrmSuitability>,
}

impl MrmTraceFrames {
    pub(crate) fn new(mut concluded: ConcludedAddresses, thresholds: &SuitabilityThresholds) -> Self {
        let regions: Vec<RegionHistory> = concluded.take_histories();
        let names = &concluded.type_names;
        let mut types = names.clone();
        types.sort();
        let retention_per_region = retention::mrm_regions(&regions);
        let retention_summary = retention::mrm_summary(&types, &retention_per_region);
        let write_once = write_once::mrm_regions(&regions);
        let working_set_per_region = working_set::mrm_regions(&regions);
        let locality_per_region = locality::mrm_regions(&regions);
        let suitability = suitability(&retention_summary, &write_once, thresholds);
        let named = names.iter().zip(&mut concluded.intervals_ns);
        let mut iai: Vec<MrmInterval> =
            named.filter_map(|(name, intervals)| inter_access_interval::mrm_row(name.clone(), intervals)).collect();
        iai.sort_by(|a, b| a.region_type.cmp(&b.region_type));
        Self {
            read_freq: read_frequency::mrm_regions(&regions),
            working_set_summary: working_set::mrm_summary(&types, &working_set_per_region),
            locality_summary: locality::mrm_summary(&types, &locality_per_region),
            retention_per_region,
            retention_summary,
            write_once,
            working_set_per_region,
            locality_per_region,
            iai,
            suitability,
        }
    }
}

impl MrmTraceFrames {
    /// The regions of a type as lives, each as heavy as its working set.
    pub(crate) fn gathered_lives(&self, region_type: &RegionTypeName) -> GatheredLives {
        let by_region = self.retention_per_region.iter().zip(&self.working_set_per_region);
        let lives = by_region
            .filter(|(retention, _)| retention.region_type == *region_type)
            .map(|(retention, working_set)| (retention.retention_ns as f64, working_set.working_set_bytes))
            .collect();
        GatheredLives {
            region_type: region_type.clone(),
            ended: lives,
            open: Vec::new(),
            never_read_bytes: 0,
            never_read_open_bytes: 0,
            longest_ns: 0,
        }
    }
}

fn suitability(
    retention: &[MrmRetentionSummary],
    write_once: &[MrmWriteOnce],
    thresholds: &SuitabilityThresholds,
) -> Vec<MrmSuitability> {
    let rate = |summary: &MrmRetentionSummary| {
        let ratio = write_once::mrm_mean(&summary.region_type, write_once).unwrap_or(0.0);
        MrmSuitability {
            region_type: summary.region_type.clone(),
            write_once_ratio_mean: ratio,
            retention_p99_s: summary.retention_p99_s,
            retention_p50_s: summary.retention_p50_s,
            suitability: thresholds.classify(ratio, summary.retention_p50_s, summary.retention_p99_s),
        }
    };
    retention.iter().map(rate).collect()
}
