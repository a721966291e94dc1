//! What watches a run: each collector from its source to its raw stream, and from there to tables.
//!
//! A collector is one file with one [`Collector`] and one line in [`ALL`]. Recording, recovery, building, `dwell doctor`
//! and experiments all go through that list.

#![forbid(unsafe_code)]

mod alloc;
mod at_intervals;
mod batches;
mod browser;
mod collector;
mod energy;
mod error;
mod hierarchy;
mod kv_events;
mod merged_records;
mod page_faults;
mod pages;
mod perf;
mod perf_mem;
mod pressure;
mod process;
mod raw_records;
mod record_stream;
mod region_names;
mod ring_recording;
pub mod rings;
mod salvage;
mod tensor_ops;
mod worker_ring;

use dwell_events::CollectorName;
use dwell_events::host::{Probe, ProbeKind};
use dwell_events::schema::Table;
use dwell_events::schema::loss::LossRow;
use dwell_metadata::{CollectorLoss, Collectors, RecordingEnd, RunRecord};
use dwell_store::{RunDir, StoreError};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use at_intervals::AtIntervals;
pub use collector::{
    BuiltTable, CheckPlace, Collected, Collector, Description, Known, MEMORY_SAMPLING, Target, TrialFailure, Wanted,
    Watching,
};
pub use error::CollectError;
pub use hierarchy::{Choice, Reason, choose, refusal, refused_by_engine, replaced, substitutes};
pub use merged_records::MergedRecords;
pub use perf::{PerfRecords, Programs, StreamBytes, recording_losses};
pub use perf_mem::PerfMemSettings;
pub use process::ProcessSamples;
pub use salvage::salvage;
pub use worker_ring::WorkerRing;

/// Every collector, in the order of [`CollectorName::NAMES`].
pub const ALL: &[&dyn Collector] = &[
    &tensor_ops::TensorOps,
    &process::Process,
    &kv_events::KvEvents,
    &pressure::Pressure,
    &browser::Browser,
    &pages::Pages,
    &alloc::Alloc,
    &energy::Energy,
    &page_faults::PageFaults,
    &perf_mem::PerfMem,
];

/// Name of the raw stream of the engine's events, which every engine has.
pub const ENGINE_STREAM: &str = "engine";
/// Name of the raw stream of the `tensor_ops` collector.
pub const TENSOR_OPS_STREAM: &str = "tensor_ops";

/// The collector with a name.
pub fn collector(name: CollectorName) -> &'static dyn Collector {
    let found = ALL.iter().find(|collector| collector.description().name == name);
    *found.expect("every name has its collector: a test compares the lists")
}

/// Whether a collector works here, as `dwell doctor` lists it.
pub fn check(collector: &dyn Collector, place: &CheckPlace<'_>) -> Probe {
    let about = collector.description();
    let probe = Probe::new(about.name.name(), ProbeKind::Collector, collector.check(place));
    Probe { basis: Some(about.basis), cost: Some(about.cost), ..probe }
}

/// These collectors with the settings that are wanted. Whoever samples the processes of an engine in a browser gets what its page
/// knows too.
pub fn chosen(names: &[CollectorName], wanted: &Wanted<'_>) -> Collectors {
    let mut collectors = Collectors::default();
    let implied = (wanted.is_in_browser && names.contains(&CollectorName::PROCESS)).then_some(&CollectorName::BROWSER);
    for &name in names.iter().chain(implied.filter(|name| !names.contains(name))) {
        collectors.add(name, collector(name).settings(wanted));
    }
    collectors
}

/// Makes the tables of all collectors. Without facts, the observer was killed and their ends are not known.
pub fn build_tables(run: &RunDir, record: &RunRecord, facts: Option<&RecordingEnd>) -> Result<Collected, StoreError> {
    let mut collected = Collected::default();
    for collector in ALL {
        let source = collector.description().name.name();
        collector.build(run, record, &mut collected)?;
        let end = facts.and_then(|facts| facts.collectors.get(source));
        let row = |loss: &CollectorLoss| LossRow {
            kind: loss.kind,
            source,
            count: loss.count,
            bytes: None,
            detail: loss.detail.clone(),
        };
        collected.losses.extend(end.into_iter().flat_map(|end| &end.losses).map(row));
    }
    Ok(collected)
}

/// Makes the tables whose rows the exact trace of the run gives names to.
pub fn build_named_tables(
    run: &RunDir,
    record: &RunRecord,
    known: &Known<'_>,
    collected: &mut Collected,
) -> Result<(), StoreError> {
    ALL.iter().try_for_each(|collector| collector.build_named(run, record, known, collected))
}

/// Every table that a run can have: those that all share, those of imported allocations, then those of collectors.
pub fn tables() -> Vec<Table> {
    let own = ALL.iter().flat_map(|collector| collector.own_tables().iter().copied());
    Table::ALL.into_iter().chain(Table::OF_ALLOCATIONS).chain(own).collect()
}

/// The settings of a collector as its own type.
fn read_settings<T: DeserializeOwned>(name: CollectorName, settings: &Value) -> Result<T, CollectError> {
    serde_json::from_value(settings.clone())
        .map_err(|error| CollectError::Settings { collector: name.name(), reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_collector_in_the_same_order() {
        let names: Vec<&str> = ALL.iter().map(|collector| collector.description().name.name()).collect();
        assert_eq!(names, CollectorName::NAMES);
        assert!(CollectorName::all().all(|name| collector(name).description().name == name));
    }

    #[test]
    fn no_two_tables_have_one_name() {
        let mut names: Vec<&str> = tables().iter().map(|table| table.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), tables().len());
    }
}
