//! The one way of imported accesses into a run: by time, labelled by rules, written as they come.
//!
//! ```text
//! importer ─▶ AccessSink::push ─▶ by time ─▶ RuleLabeller ─▶ trace.parquet
//!                                                  └─ finish ─▶ region_map.parquet, counts, loss
//! ```
//!
//! Memory is bounded by the rows that wait for earlier ones, one row group, and the regions. Metrics, the picture of the
//! trace and the report are made by [`import`](super::import) from the finished tables, as those of a recorded run.

use std::collections::BTreeMap;
use std::path::Path;

use dwell_events::schema::trace::{TraceBuilder, TraceRow};
use dwell_events::schema::{Table, loss::LossRow, region_map};
use dwell_events::{Basis, Hint, RegionType, UnknownPolicy};
use dwell_label::rules::{DecidedBy, Label, RuleLabels};
use dwell_label::{RuleLabeller, RuleSet, UnlabelledAccess};
use dwell_metadata::{BuildOptions, TableOrigin};
use dwell_store::{RunDir, StoreError, TableWriter};
use serde::Serialize;

use super::reorder::Reorder;
use super::{ImportError, ImportOption, ImportRequest, Takes};
use crate::read_rules;

/// Rows that are gathered before they are written.
const ROWS_PER_BATCH: usize = 32 * 1024;
/// Who labels by rules.
const LABELLER: &str = "labeller";

const RULES: &str = "rules";
const UNKNOWN: &str = "unknown";

/// Option of every importer of accesses: by which rules they are labelled.
pub const RULES_OPTION: ImportOption = ImportOption {
    name: RULES,
    takes: Takes::Text("FILE"),
    help: "Rules file that labels the accesses. Default: built-in rules",
    conflicts_with: None,
    is_secret: false,
};

/// Option of every importer of accesses: what becomes of those that nothing labels.
pub const UNKNOWN_OPTION: ImportOption = ImportOption {
    name: UNKNOWN,
    takes: Takes::OneOf("POLICY", UnknownPolicy::NAMES),
    help: "Policy for accesses that cannot be labelled: keep as unknown, skip and count, or fail. Default: keep",
    conflicts_with: None,
    is_secret: false,
};

/// How the rows of a source follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// By time.
    ByTime,
    /// Almost by time: a row may come up to a hundred thousand rows after its place.
    NearlyByTime,
}

/// Who recorded the accesses, and how.
#[derive(Clone, Copy, Debug)]
pub struct AccessSource {
    /// Name of the source, as in the column `source`.
    pub name: &'static str,
    /// Whether every access is there or one in so many.
    pub basis: Basis,
    /// How its rows follow each other.
    pub order: RowOrder,
}

/// What became of the accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AccessCounts {
    /// Accesses that the importer gave.
    pub accesses: u64,
    /// Rows of `trace`.
    pub rows: u64,
    /// Accesses that were dropped because nothing could label them.
    pub dropped: u64,
    /// Accesses that came after one of a later time; they were put in their place.
    pub out_of_order: u64,
    /// Those that came too late for that; they stand where they came, and pages gave them no label.
    pub late: u64,
    /// Regions that the accesses are in.
    pub regions: u64,
    /// Rows by region type.
    pub region_types: BTreeMap<&'static str, u64>,
    /// Accesses by what decided their label.
    pub decided_by: BTreeMap<&'static str, u64>,
    /// Earliest time of a row; none without rows.
    pub first_ns: Option<u64>,
    /// Latest time of a row.
    pub last_ns: Option<u64>,
}

/// Tables with the accesses of a run, written.
#[derive(Debug)]
pub struct Accesses {
    /// What became of them.
    pub counts: AccessCounts,
    /// How `trace` and `region_map` were obtained, by name.
    pub tables: BTreeMap<String, TableOrigin>,
    /// How they were labelled.
    pub build: BuildOptions,
    /// Accesses that were dropped, if there are any.
    pub loss: Option<LossRow>,
}

/// Where an importer puts the accesses that it reads.
pub struct AccessSink<'a> {
    run: &'a RunDir,
    source: AccessSource,
    build: BuildOptions,
    reorder: Option<Reorder>,
    trace: LabelledTrace,
    accesses: u64,
}

impl<'a> AccessSink<'a> {
    /// Begins the tables of a run. Rules and policy are what the request says.
    pub fn create(run: &'a RunDir, request: &ImportRequest, source: AccessSource) -> Result<Self, ImportError> {
        let rules = match request.options.get(RULES) {
            Some(path) => read_rules(Path::new(path))?,
            None => RuleSet::default_rules(),
        };
        let policy = request.options.get(UNKNOWN).and_then(|name| UnknownPolicy::from_name(name)).unwrap_or_default();
        let build =
            BuildOptions { rules: Some(rules.text().to_owned()), unknown_policy: policy, ..BuildOptions::default() };
        Ok(Self {
            run,
            source,
            build,
            reorder: (source.order == RowOrder::NearlyByTime).then(Reorder::default),
            trace: LabelledTrace::create(run, RuleLabeller::new(rules, policy))?,
            accesses: 0,
        })
    }

    /// Takes the next access.
    pub fn push(&mut self, access: &TraceRow<'_>) -> Result<(), ImportError> {
        self.accesses += 1;
        let Self { reorder, trace, .. } = self;
        match reorder {
            Some(reorder) => reorder.push(access, &mut |row| trace.push(row)),
            None => trace.push(access),
        }
    }

    /// Writes what is left, and the regions.
    pub fn finish(self) -> Result<Accesses, ImportError> {
        let Self { run, source, build, reorder, mut trace, accesses } = self;
        let out_of_order = reorder.map_or(Ok(0), |reorder| reorder.finish(&mut |row| trace.push(row)))?;
        let (mut counts, labels) = trace.finish()?;
        let mut regions = TableWriter::create(run.path(), Table::RegionMap)?;
        regions.write(&region_map::batch(&labels.regions))?;
        counts.regions = regions.finish()?;
        (counts.accesses, counts.out_of_order) = (accesses, out_of_order);
        let origin = |table: Table, rows, basis: Basis, source: &str| {
            (table.name().to_owned(), TableOrigin { rows, basis: basis.name().to_owned(), source: source.to_owned() })
        };
        let tables = [
            origin(Table::Trace, counts.rows, source.basis, source.name),
            origin(Table::RegionMap, counts.regions, Basis::Inferred, LABELLER),
        ];
        Ok(Accesses { counts, tables: tables.into(), build, loss: labels.loss })
    }
}

/// `trace.parquet` on its way.
struct LabelledTrace {
    labeller: RuleLabeller,
    builder: TraceBuilder,
    writer: TableWriter,
    rows_by_type: [u64; RegionType::ALL.len()],
    span_ns: Option<(u64, u64)>,
}

impl LabelledTrace {
    fn create(run: &RunDir, labeller: RuleLabeller) -> Result<Self, StoreError> {
        Ok(Self {
            labeller,
            builder: TraceBuilder::new(run.run_id()),
            writer: TableWriter::create(run.path(), Table::Trace)?,
            rows_by_type: [0; RegionType::ALL.len()],
            span_ns: None,
        })
    }

    fn push(&mut self, access: &TraceRow<'_>) -> Result<(), ImportError> {
        let Some(label) = self.labeller.label(access).map_err(unlabelled)? else { return Ok(()) };
        let Label { region_type, region_id, .. } = label;
        self.builder.push(&TraceRow { region_type, region_id, ..*access });
        self.rows_by_type[region_type as usize] += 1;
        let time_ns = access.timestamp_ns;
        let (first_ns, last_ns) = self.span_ns.unwrap_or((time_ns, time_ns));
        self.span_ns = Some((first_ns.min(time_ns), last_ns.max(time_ns)));
        if self.builder.len() >= ROWS_PER_BATCH {
            self.writer.write(&self.builder.finish_batch())?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(AccessCounts, RuleLabels), ImportError> {
        self.writer.write(&self.builder.finish_batch())?;
        let rows = self.writer.finish()?;
        let labels = self.labeller.finish();
        let is_used = |(_, rows): &(&'static str, u64)| *rows > 0;
        let by_type = RegionType::ALL.map(|region| (region.name(), self.rows_by_type[region as usize]));
        let decided = DecidedBy::ALL.map(|by| (by.name(), labels.counts.by_decision[by as usize]));
        let counts = AccessCounts {
            rows,
            dropped: labels.counts.dropped,
            late: labels.counts.late,
            region_types: by_type.into_iter().filter(is_used).collect(),
            decided_by: decided.into_iter().filter(is_used).collect(),
            first_ns: self.span_ns.map(|span| span.0),
            last_ns: self.span_ns.map(|span| span.1),
            ..AccessCounts::default()
        };
        Ok((counts, labels))
    }
}

fn unlabelled(access: UnlabelledAccess) -> ImportError {
    ImportError::Refused { message: access.to_string(), hints: access.hints() }
}
