//! The one way of imported accesses into a run: by time, labelled by rules, written as they come.
//!
//! ```text
//! importer ─▶ AccessSink::push ─▶ kinds numbered ─▶ by time ─▶ RuleLabeller ─▶ trace.parquet
//!                                                                   └─ finish ─▶ region_map.parquet, counts, loss
//! ```
//!
//! Accesses with the same texts, operation and answering cache are of one kind. Rows wait as the number of their kind and
//! what is their own, the rules are asked once for each kind, and columns are made from the kinds. An importer that knows
//! itself which accesses are alike asks for their kind once ([`AccessSink::kind_of`]).
//!
//! Memory is bounded by the rows that wait for earlier ones, one row group, and the regions. Metrics, the picture of the
//! trace and the report are made by [`import`](super::import) from the finished tables, as those of a recorded run.

use std::collections::BTreeMap;
use std::path::Path;

use dwell_events::schema::trace::{KindRow, KindTraceBuilder, NumberedRow, TraceRow};
use dwell_events::schema::{Table, Words, loss::LossRow, region_map};
use dwell_events::{Basis, Hint, RegionType, UnknownPolicy};
use dwell_label::rules::{Accessed, DecidedBy, KindRule, Label, RuleLabels};
use dwell_label::{RuleLabeller, RuleSet, UnlabelledAccess};
use dwell_metadata::{BuildOptions, TableOrigin};
use dwell_store::{RunDir, StoreError, TableWriter};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::reorder::Reorder;
use super::{ImportError, ImportOption, ImportRequest, Takes};
use crate::{GivenRows, read_rules};

/// Rows that are gathered before they are written: their columns stay in a core's own cache.
const ROWS_PER_BATCH: usize = 8 * 1024;
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
    /// Almost by time: a row may come up to ninety thousand rows after its place.
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
    /// Rows with a latency, a cache level, a symbol.
    pub given: GivenRows,
}

/// Where an importer puts the accesses that it reads.
pub struct AccessSink<'a> {
    run: &'a RunDir,
    source: AccessSource,
    build: BuildOptions,
    kinds: Kinds,
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
        Ok(Self::labelling(run, rules, policy, source)?)
    }

    /// Begins the tables of a run, labelled by these rules.
    pub fn labelling(
        run: &'a RunDir,
        rules: RuleSet,
        policy: UnknownPolicy,
        source: AccessSource,
    ) -> Result<Self, StoreError> {
        let build =
            BuildOptions { rules: Some(rules.text().to_owned()), unknown_policy: policy, ..BuildOptions::default() };
        Ok(Self {
            run,
            source,
            build,
            kinds: Kinds::default(),
            reorder: (source.order == RowOrder::NearlyByTime).then(Reorder::default),
            trace: LabelledTrace::create(run, source.basis, RuleLabeller::new(rules, policy))?,
            accesses: 0,
        })
    }

    /// Takes the next access.
    pub fn push(&mut self, access: &TraceRow<'_>) -> Result<(), ImportError> {
        let kind = self.kind_of(access)?;
        self.push_row(access.of_kind(kind))
    }

    /// Number of the kind of an access, for as long as [`AccessSink::kind_age`] stays the same.
    pub fn kind_of(&mut self, access: &TraceRow<'_>) -> Result<u32, ImportError> {
        if self.kinds.is_full() {
            self.forget_kinds()?;
        }
        let labeller = &mut self.trace.labeller;
        Ok(self.kinds.number_of(access, || labeller.rule_of(access)))
    }

    /// How often kinds were numbered anew.
    #[inline]
    pub fn kind_age(&self) -> u64 {
        self.kinds.age
    }

    /// Takes the next access, of a kind whose number was asked for.
    #[inline]
    pub fn push_row(&mut self, row: KindRow) -> Result<(), ImportError> {
        self.accesses += 1;
        let Self { kinds, reorder, trace, .. } = self;
        match reorder {
            Some(reorder) => reorder.push(row, &mut |row| trace.push(row, kinds)),
            None => trace.push(&row, kinds),
        }
    }

    /// Hands on everything that has a number so far, and forgets the kinds.
    fn forget_kinds(&mut self) -> Result<(), ImportError> {
        let Self { kinds, reorder, trace, .. } = self;
        if let Some(reorder) = reorder {
            reorder.hand_on_all(&mut |row| trace.push(row, kinds))?;
        }
        trace.write_batch(kinds)?;
        *kinds = Kinds { age: kinds.age + 1, ..Kinds::default() };
        Ok(())
    }

    /// Writes what is left, and the regions.
    pub fn finish(self) -> Result<Accesses, ImportError> {
        let Self { run, source, build, mut kinds, reorder, mut trace, accesses } = self;
        let mut reorder = reorder.unwrap_or_default();
        reorder.hand_on_all(&mut |row| trace.push(row, &mut kinds))?;
        let out_of_order = reorder.backward_rows();
        trace.write_batch(&mut kinds)?;
        let given = trace.given;
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
        Ok(Accesses { counts, tables: tables.into(), build, loss: labels.loss, given })
    }
}

/// Kinds of accesses, by number.
#[derive(Default)]
struct Kinds {
    words: Words,
    rows: Vec<NumberedRow>,
    rules: Vec<KindRule>,
    have_symbol: Vec<bool>,
    numbers: FxHashMap<NumberedRow, u32>,
    last: u32,
    age: u64,
}

impl Kinds {
    /// Whether another kind could be one too many. Steps and tensors make more kinds than there are texts.
    fn is_full(&self) -> bool {
        self.words.len() + NumberedRow::TEXTS_MAX > Words::USUAL_MAX || self.rows.len() == Words::USUAL_MAX
    }

    /// The kind of an access; the one before is tried first.
    fn number_of(&mut self, access: &TraceRow<'_>, ask: impl FnOnce() -> KindRule) -> u32 {
        let last = self.rows.get(self.last as usize).copied();
        let kind = access.numbered(&mut self.words, &last.unwrap_or(NumberedRow::EMPTY)).kind();
        if last != Some(kind) {
            self.last = *self.numbers.entry(kind).or_insert_with(|| {
                self.rows.push(kind);
                self.rules.push(ask());
                self.have_symbol.push(!access.symbol.is_empty());
                self.rows.len() as u32 - 1
            });
        }
        self.last
    }

    /// The access with its texts.
    fn whole(&self, row: &KindRow) -> TraceRow<'_> {
        row.whole(self.rows[row.kind as usize].with_texts(&self.words))
    }
}

/// `trace.parquet` on its way.
struct LabelledTrace {
    labeller: RuleLabeller,
    builder: KindTraceBuilder,
    writer: TableWriter,
    rows_by_type: [u64; RegionType::ALL.len()],
    given: GivenRows,
    span_ns: Option<(u64, u64)>,
}

impl LabelledTrace {
    fn create(run: &RunDir, basis: Basis, labeller: RuleLabeller) -> Result<Self, StoreError> {
        Ok(Self {
            labeller,
            builder: KindTraceBuilder::new(run.run_id()),
            writer: TableWriter::create_of(run.path(), Table::Trace, basis)?,
            rows_by_type: [0; RegionType::ALL.len()],
            given: GivenRows::default(),
            span_ns: None,
        })
    }

    #[inline]
    fn push(&mut self, row: &KindRow, kinds: &mut Kinds) -> Result<(), ImportError> {
        let kind = &kinds.rows[row.kind as usize];
        let accessed = Accessed {
            timestamp_ns: row.timestamp_ns,
            address: row.address,
            size_bytes: row.size_bytes,
            op_type: kind.op_type,
            region_type: kind.region_type,
            region_id: kind.region_id,
        };
        let label = self.labeller.label_by(kinds.rules[row.kind as usize], &accessed, || kinds.whole(row));
        let Some(Label { region_type, region_id, .. }) = label.map_err(unlabelled)? else { return Ok(()) };
        self.builder.push(row, region_type, region_id);
        self.rows_by_type[region_type as usize] += 1;
        self.given.latency += u64::from(row.access_latency_ns.is_some());
        self.given.cache_level += u64::from(kind.cache_level.is_some());
        self.given.symbol += u64::from(kinds.have_symbol[row.kind as usize]);
        let time_ns = row.timestamp_ns;
        let (first_ns, last_ns) = self.span_ns.unwrap_or((time_ns, time_ns));
        self.span_ns = Some((first_ns.min(time_ns), last_ns.max(time_ns)));
        if self.builder.len() >= ROWS_PER_BATCH {
            self.write_batch(kinds)?;
        }
        Ok(())
    }

    fn write_batch(&mut self, kinds: &mut Kinds) -> Result<(), StoreError> {
        self.writer.write(&self.builder.finish_batch(&kinds.rows, &mut kinds.words))
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

#[cold]
fn unlabelled(access: UnlabelledAccess) -> ImportError {
    ImportError::Refused { message: access.to_string(), hints: access.hints() }
}
