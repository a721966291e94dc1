//! The one way of imported accesses into a run: by time, labelled by rules, written as they come.
//!
//! ```text
//! importer ─▶ AccessSink::push ─▶ texts numbered ─▶ by time ─▶ RuleLabeller ─▶ trace.parquet
//!                                                                   └─ finish ─▶ region_map.parquet, counts, loss
//! ```
//!
//! A text is looked at once, when its row comes: rows wait with numbers in their place, the rules are asked once for each
//! combination of them, and the columns of the table are those numbers.
//!
//! Memory is bounded by the rows that wait for earlier ones, one row group, and the regions. Metrics, the picture of the
//! trace and the report are made by [`import`](super::import) from the finished tables, as those of a recorded run.

use std::collections::BTreeMap;
use std::path::Path;

use dwell_events::schema::trace::{NumberedRow, NumberedTraceBuilder, TraceRow};
use dwell_events::schema::{Table, Words, loss::LossRow, region_map};
use dwell_events::{Basis, Hint, RegionType, UnknownPolicy};
use dwell_label::rules::{DecidedBy, Label, MatchingRules, RuleLabels};
use dwell_label::{RuleLabeller, RuleSet, UnlabelledAccess};
use dwell_metadata::{BuildOptions, TableOrigin};
use dwell_store::{RunDir, StoreError, TableWriter};
use rustc_hash::FxHashMap;
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
    words: Words,
    last: NumberedRow,
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
            words: Words::default(),
            last: NumberedRow::EMPTY,
            reorder: (source.order == RowOrder::NearlyByTime).then(Reorder::default),
            trace: LabelledTrace::create(run, RuleLabeller::new(rules, policy))?,
            accesses: 0,
        })
    }

    /// Takes the next access.
    pub fn push(&mut self, access: &TraceRow<'_>) -> Result<(), ImportError> {
        self.accesses += 1;
        if self.words.len() + NumberedRow::TEXTS_MAX > Words::USUAL_MAX {
            self.forget_words()?;
        }
        let Self { words, last, reorder, trace, .. } = self;
        *last = access.numbered(words, last);
        match reorder {
            Some(reorder) => reorder.push(*last, &mut |row| trace.push(row, words)),
            None => trace.push(last, words),
        }
    }

    /// Hands on everything that is numbered by the texts so far, and forgets them.
    fn forget_words(&mut self) -> Result<(), ImportError> {
        let Self { words, last, reorder, trace, .. } = self;
        if let Some(reorder) = reorder {
            reorder.hand_on_all(&mut |row| trace.push(row, words))?;
        }
        trace.write_batch(words)?;
        trace.matching = Matching::default();
        (*words, *last) = (Words::default(), NumberedRow::EMPTY);
        Ok(())
    }

    /// Writes what is left, and the regions.
    pub fn finish(self) -> Result<Accesses, ImportError> {
        let Self { run, source, build, mut words, reorder, mut trace, accesses, .. } = self;
        let mut reorder = reorder.unwrap_or_default();
        reorder.hand_on_all(&mut |row| trace.push(row, &mut words))?;
        let out_of_order = reorder.backward_rows();
        trace.write_batch(&mut words)?;
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
    matching: Matching,
    builder: NumberedTraceBuilder,
    writer: TableWriter,
    rows_by_type: [u64; RegionType::ALL.len()],
    span_ns: Option<(u64, u64)>,
}

/// What the rules say about the texts of accesses, by the numbers of symbol, library and source.
#[derive(Default)]
struct Matching {
    places: FxHashMap<[u32; 3], usize>,
    rules: Vec<MatchingRules>,
    last: Option<([u32; 3], usize)>,
}

impl Matching {
    /// Asks once for each combination.
    #[inline]
    fn of(&mut self, row: &NumberedRow, ask: impl FnOnce() -> MatchingRules) -> &MatchingRules {
        let texts = [row.symbol, row.dso, row.source];
        let place = match self.last {
            Some((last, place)) if last == texts => place,
            _ => *self.places.entry(texts).or_insert_with(|| {
                self.rules.push(ask());
                self.rules.len() - 1
            }),
        };
        self.last = Some((texts, place));
        &self.rules[place]
    }
}

impl LabelledTrace {
    fn create(run: &RunDir, labeller: RuleLabeller) -> Result<Self, StoreError> {
        Ok(Self {
            labeller,
            matching: Matching::default(),
            builder: NumberedTraceBuilder::new(run.run_id()),
            writer: TableWriter::create(run.path(), Table::Trace)?,
            rows_by_type: [0; RegionType::ALL.len()],
            span_ns: None,
        })
    }

    #[inline]
    fn push(&mut self, row: &NumberedRow, words: &mut Words) -> Result<(), ImportError> {
        let access = row.with_texts(words);
        let labeller = &mut self.labeller;
        let matching = self.matching.of(row, || labeller.matching_rules(&access));
        let Some(label) = labeller.label_by(matching, &access).map_err(unlabelled)? else { return Ok(()) };
        let Label { region_type, region_id, .. } = label;
        self.builder.push(&NumberedRow { region_type, region_id, ..*row });
        self.rows_by_type[region_type as usize] += 1;
        let time_ns = row.timestamp_ns;
        let (first_ns, last_ns) = self.span_ns.unwrap_or((time_ns, time_ns));
        self.span_ns = Some((first_ns.min(time_ns), last_ns.max(time_ns)));
        if self.builder.len() >= ROWS_PER_BATCH {
            self.write_batch(words)?;
        }
        Ok(())
    }

    fn write_batch(&mut self, words: &mut Words) -> Result<(), StoreError> {
        self.writer.write(&self.builder.finish_batch(words))
    }

    fn finish(self) -> Result<(AccessCounts, RuleLabels), ImportError> {
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
