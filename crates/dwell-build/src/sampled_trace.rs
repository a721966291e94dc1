//! A trace of sampled accesses, for runs whose accesses nobody recorded exactly: the same way as for imported recordings of perf.

use dwell_collectors::{BuiltTable, PerfMemSettings, PerfRecords, Programs, recording_losses};
use dwell_events::schema::Table;
use dwell_events::schema::loss::LossRow;
use dwell_events::{Basis, CollectorName, Hint, LossKind};
use dwell_label::RuleSet;
use dwell_metadata::RunRecord;
use dwell_store::RunDir;

use crate::BuildError;
use crate::build::rules;
use crate::import::ImportError;
use crate::import::accesses::AccessSink;
use crate::import::perf::{BY_TIME, PerfRecording, PerfSink};
use crate::import::perf_data::{described, take_samples};

const NAME: CollectorName = CollectorName::of("perf_mem");

/// What came of the samples of a run.
pub(crate) struct SampledTrace {
    pub(crate) tables: Vec<BuiltTable>,
    pub(crate) loss: Vec<LossRow>,
}

/// Writes `trace` and `region_map` of a run whose accesses were sampled; none if they were not.
pub(crate) fn write_sampled_trace(run: &RunDir, record: &RunRecord) -> Result<Option<SampledTrace>, BuildError> {
    let Some(settings) = record.request.collectors.settings(NAME) else { return Ok(None) };
    let build = &record.request.build;
    let rules = rules(build)?.unwrap_or_else(RuleSet::default_rules);
    let sink = AccessSink::labelling(run, rules, build.unknown_policy, BY_TIME)?;
    write(run, record, settings, PerfSink::into_sink(sink)).map(Some).map_err(|error| match error {
        ImportError::Store(error) => BuildError::Store(error),
        other => BuildError::Labelling { reason: other.to_string(), hints: other.hints() },
    })
}

fn write(
    run: &RunDir,
    record: &RunRecord,
    settings: &serde_json::Value,
    mut sink: PerfSink<'_>,
) -> Result<SampledTrace, ImportError> {
    let own_program = PerfMemSettings::own_program(settings).filter(|_| !record.request.job.engine.is_embedded());
    let mut loss = Vec::new();
    let run_of_samples = match PerfRecords::open(&run.raw_stream(NAME.name()))? {
        Some(mut records) => {
            let (objects, cut) = take_samples(&mut records.data, Programs::other_than(own_program), &mut sink)?;
            let recording = records.data.recording();
            loss.extend(recording_losses(NAME.name(), recording, cut.as_ref()));
            loss.extend(damaged_batches(records.damaged()));
            sink.complete(described(recording, objects))?
        }
        None => sink.complete(PerfRecording::default())?,
    };
    loss.extend(run_of_samples.loss);
    let counts = &run_of_samples.accesses.counts;
    let table = |table, rows, basis| BuiltTable { table, rows, basis, source: NAME };
    let tables = vec![
        table(Table::Trace, counts.rows, Basis::Sampled),
        table(Table::RegionMap, counts.regions, Basis::Inferred),
    ];
    Ok(SampledTrace { tables, loss })
}

fn damaged_batches(count: u64) -> Option<LossRow> {
    let detail = "batches of records that are damaged or cut off".to_owned();
    let row = LossRow { kind: LossKind::UndecodableRecords, source: NAME.name(), count, bytes: None, detail };
    (count > 0).then_some(row)
}
