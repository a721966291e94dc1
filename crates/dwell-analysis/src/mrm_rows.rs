//! The tables of mrm-trace as rows of the report, so that both definitions can be read the same way.

use crate::frames::MrmTraceFrames;
use crate::metrics::RegionTypeRow;
use crate::metrics::inter_access_interval::InterAccessInterval;
use crate::metrics::locality::Locality;
use crate::metrics::read_frequency::{self, ReadFrequency};
use crate::metrics::retention::{MrmRetentionSummary, Retention};
use crate::metrics::suitability::{Suitability, SuitabilityClass};
use crate::metrics::working_set::WorkingSet;
use crate::metrics::write_once::{self, WriteOnce};
use crate::table::{RegionFigures, RegionName};
use crate::{Basis, Definitions};

/// One row per region type.
pub(crate) fn region_types(frames: &MrmTraceFrames, basis: Basis, window_s: f64) -> Vec<RegionTypeRow> {
    frames.retention_summary.iter().map(|summary| region_type(frames, summary, basis, window_s)).collect()
}

fn region_type(frames: &MrmTraceFrames, summary: &MrmRetentionSummary, basis: Basis, window_s: f64) -> RegionTypeRow {
    let name = &summary.region_type;
    let of_type = || frames.read_freq.iter().filter(|region| region.region_type == *name);
    let working_set = frames.working_set_summary.iter().find(|row| row.region_type == *name);
    let locality = frames.locality_summary.iter().find(|row| row.region_type == *name);
    let interval = frames.iai.iter().find(|row| row.region_type == *name);
    let class = frames.suitability.iter().find(|row| row.region_type == *name).map(|row| row.suitability);
    RegionTypeRow {
        retention: Retention {
            basis,
            p50_s: Some(summary.retention_p50_s),
            p90_s: Some(summary.retention_p90_s),
            p99_s: Some(summary.retention_p99_s),
            mean_s: Some(summary.retention_mean_s),
            ..Retention::default()
        },
        write_once: WriteOnce { basis, ratio: write_once::mrm_mean(name, &frames.write_once), ..WriteOnce::default() },
        read_frequency: ReadFrequency {
            basis,
            loads: of_type().map(|region| region.total_reads).sum(),
            stores: of_type().map(|region| region.total_writes).sum(),
            reads_per_write: read_frequency::mrm_mean(name, &frames.read_freq),
            ..ReadFrequency::default()
        },
        working_set: WorkingSet {
            basis,
            distinct_bytes: working_set.map_or(0, |row| row.total_bytes),
            distinct_pages: working_set.map_or(0, |row| row.total_pages),
            ..WorkingSet::default()
        },
        locality: Locality {
            basis,
            sequential_share: None,
            same_page_share: locality.map(|row| row.same_page_fraction),
            stride_mean_bytes: locality.map(|row| row.mean_stride_bytes),
            stride_median_bytes: locality.map(|row| row.median_stride_bytes),
        },
        inter_access_interval: InterAccessInterval {
            basis,
            p50_ns: interval.map(|row| row.iai_p50_ns as f64),
            p90_ns: interval.map(|row| row.iai_p90_ns as f64),
            p99_ns: interval.map(|row| row.iai_p99_ns as f64),
            mean_ns: interval.map(|row| row.iai_mean_ns),
        },
        suitability: Suitability {
            class: class.unwrap_or(SuitabilityClass::NotRated),
            window_s,
            ..Suitability::default()
        },
        ..RegionTypeRow::empty(name.clone(), summary.n_regions, Definitions::MrmTrace)
    }
}

/// One row per region.
pub(crate) fn regions(frames: &MrmTraceFrames, basis: Basis) -> Vec<RegionFigures> {
    let mut stored = frames.write_once.iter().peekable();
    let by_region = frames.retention_per_region.iter().zip(&frames.read_freq).zip(&frames.working_set_per_region);
    by_region
        .zip(&frames.locality_per_region)
        .map(|(((retention, frequency), working_set), locality)| RegionFigures {
            region_id: retention.region_id,
            name: RegionName::default(),
            region_type: retention.region_type.clone(),
            first_seen_ns: None,
            last_seen_ns: None,
            retention: one_life(retention.retention_s, basis),
            write_once: WriteOnce {
                basis,
                ratio: stored.next_if(|row| row.region_id == retention.region_id).map(|row| row.write_once_ratio),
                ..WriteOnce::default()
            },
            read_frequency: ReadFrequency {
                basis,
                loads: frequency.total_reads,
                stores: frequency.total_writes,
                reads_per_write: Some(frequency.reads_per_write),
                ..ReadFrequency::default()
            },
            working_set: WorkingSet {
                basis,
                distinct_bytes: working_set.working_set_bytes,
                distinct_pages: working_set.unique_pages,
                ..WorkingSet::default()
            },
            locality: Some(Locality {
                basis,
                sequential_share: None,
                same_page_share: Some(locality.same_page_fraction),
                stride_mean_bytes: Some(locality.mean_stride_bytes),
                stride_median_bytes: Some(locality.median_stride_bytes),
            }),
            inter_access_interval: None,
        })
        .collect()
}

fn one_life(retention_s: f64, basis: Basis) -> Retention {
    let retention_s = Some(retention_s);
    Retention {
        basis,
        p50_s: retention_s,
        p90_s: retention_s,
        p99_s: retention_s,
        mean_s: retention_s,
        max_s: retention_s,
        ..Retention::default()
    }
}
