//! What `metadata.json` says about a run that was labelled anew.

use std::collections::BTreeMap;

use dwell_analysis::MetricsReport;
use dwell_events::schema::Table;
use dwell_metadata::{BuildOptions, Relabelling, RunMetadata, TableOrigin};
use dwell_store::{RunDir, unix_secs_now, utc_text};

use super::RelabelRequest;
use crate::BuildError;
use crate::judgement::{GivenRows, trace_quality};

/// Who labels by rules.
const LABELLER: &str = "labeller";
/// A collector that nothing names.
const UNKNOWN: &str = "unknown";

/// What was written beside the metadata.
pub(super) struct Relabelled<'a> {
    /// Rows of the tables.
    pub(super) rows: BTreeMap<Table, u64>,
    /// Records that the input lacks.
    pub(super) lost_records: u64,
    /// Metrics of the new labels.
    pub(super) metrics: &'a MetricsReport,
}

/// What the input's metadata says, where it has any, with tables, quality and build of the new labels.
pub(super) fn metadata(
    input: &RunDir,
    request: &RelabelRequest,
    relabelled: &Relabelled<'_>,
) -> Result<RunMetadata, BuildError> {
    let text = input.read_metadata_json()?;
    let known = text.map(|text| RunMetadata::parse(&text, &input.metadata_json())).transpose()?.unwrap_or_default();
    let metrics = relabelled.metrics;
    let build = BuildOptions {
        analysis: request.analysis,
        rules: Some(request.rules.text().to_owned()),
        unknown_policy: request.policy,
        ..known.build.unwrap_or_default()
    };
    // Of a run without accesses, labels change nothing.
    let quality = match known.quality {
        Some(quality) if metrics.trace_rows > 0 => {
            let given = GivenRows::of(input)?;
            Some(trace_quality(quality.collector, metrics, given, relabelled.lost_records))
        }
        quality => quality,
    };
    let origin =
        |(&table, &rows): (&Table, &u64)| (table.name().to_owned(), origin(&known.tables, table, rows, metrics));
    Ok(RunMetadata {
        tables: relabelled.rows.iter().map(origin).collect(),
        quality,
        build: Some(build),
        relabelled: Some(Relabelling {
            input: request.input.clone(),
            relabelled_at_utc: utc_text(unix_secs_now()),
            dwell_version: env!("CARGO_PKG_VERSION").to_owned(),
        }),
        ..known
    })
}

/// Where a table comes from: regions from the rules, the others from what recorded the input.
fn origin(known: &BTreeMap<String, TableOrigin>, table: Table, rows: u64, metrics: &MetricsReport) -> TableOrigin {
    let basis = metrics.region_types.first().map_or("none", |row| row.retention.basis.name());
    let (basis, source) = match (table, known.get(table.name())) {
        (Table::RegionMap, _) => ("inferred", LABELLER),
        (_, Some(known)) => (known.basis.as_str(), known.source.as_str()),
        (Table::Trace, None) => (basis, UNKNOWN),
        (_, None) => ("exact", LABELLER),
    };
    TableOrigin { rows, basis: basis.to_owned(), source: source.to_owned() }
}
