//! Takes the tables of a run batch by batch and gives the report.

use arrow_array::RecordBatch;
use serde::{Deserialize, Serialize};

use crate::approximate::{self, ConcludedSample, GROUPS};
use crate::concluded_part::{ConcludedGathering, ConcludedPart, TraceFacts};
use crate::definitions::RowOrder;
use crate::distribution::Distribution;
use crate::gatherer::Gatherer;
use crate::metrics::suitability::SuitabilityThresholds;
use crate::mrm_trace::MrmTraceGatherer;
use crate::overview::{Overview, OverviewBuilder, survival_curves};
use crate::part::{Followed, PageSample, Part};
use crate::reader::{Access, AddressAccess, BASIS_COLUMNS, BlockLife, LifecycleBatch, TraceBatch};
use crate::region_type::{KNOWN_TYPES, RegionTypeNames};
use crate::requested::{Requested, RequestedMetrics};
use crate::sorted_rows::{SortableRow, sortable_row};
use crate::table::{MetricsReport, ObservationWindow};
use crate::{AnalysisError, Basis, Definitions};

/// What to compute, and how.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// Whose definitions to follow.
    pub definitions: Definitions,
    /// From which figures on a suitability class is given.
    pub thresholds: SuitabilityThresholds,
    /// How the rows of the trace are ordered.
    pub row_order: RowOrder,
    /// What is computed beside the standard metrics, by dwell's definitions.
    #[serde(skip_serializing_if = "RequestedMetrics::is_empty")]
    pub requested: RequestedMetrics,
    /// Length of the windows of time that bandwidth is given for.
    #[serde(skip_serializing_if = "is_default_window")]
    pub window_ns: u64,
}

/// Ten milliseconds: below the time of a token, above that of most operations.
const DEFAULT_WINDOW_NS: u64 = 10_000_000;

fn is_default_window(window_ns: &u64) -> bool {
    *window_ns == DEFAULT_WINDOW_NS
}

impl Default for Options {
    fn default() -> Self {
        Self {
            definitions: Definitions::default(),
            thresholds: SuitabilityThresholds::default(),
            row_order: RowOrder::default(),
            requested: RequestedMetrics::default(),
            window_ns: DEFAULT_WINDOW_NS,
        }
    }
}

/// What gathers the rows.
enum Gathering {
    Dwell(Box<Gatherer>),
    MrmTrace(Box<MrmTraceGatherer>),
}

impl Gathering {
    /// Bytes that each step touched, in the order of the steps; the definitions of mrm-trace know none.
    fn step_bytes(&self) -> &[[u64; KNOWN_TYPES]] {
        match self {
            Gathering::Dwell(gatherer) => gatherer.step_bytes(),
            Gathering::MrmTrace(_) => &[],
        }
    }
}

/// Rows whose memory is read before they are followed. Chosen: few enough to stay in the first cache, more than the
/// reads that a processor has under way at a time.
const ROWS_AHEAD: usize = 64;

/// Computes the metrics of one run.
///
/// Push the batches of `trace`, then those of `kv_block_lifecycle` if there are any, then ask for the report. Where lives of KV
/// blocks are to come, [`Analyser::expect_kv_lifecycle`] says so before: they are then the lives of the KV cache, which else are
/// followed in the trace.
pub struct Analyser {
    part: Part,
    /// The share of the pages that is followed for an estimate.
    sampled_share: Option<f64>,
    options: Options,
    names: RegionTypeNames,
    gathering: Gathering,
    window: Option<ObservationWindow>,
    basis: Basis,
    trace_rows: u64,
    backward_rows: u64,
    /// Time from one row to the next, where it changed.
    gaps_ns: Distribution,
    kv_lives: u64,
    expects_kv_lives: bool,
    /// Lives of KV blocks that wait until rows are sorted.
    waiting_kv_lives: Vec<BlockLife>,
    /// Rows that wait to be sorted.
    waiting: Vec<SortableRow>,
    /// Whether rows in any order come back sorted from elsewhere.
    is_sorted_elsewhere: bool,
    /// Time of the sorted row that came last.
    sorted_until_ns: Option<u64>,
    overview: Option<OverviewBuilder>,
}

impl Analyser {
    /// An analyser that has seen nothing.
    pub fn new(options: Options) -> Self {
        Self::of_part(options, Part::WHOLE)
    }

    /// The same of one part of a trace. All rows and lives of the trace have to be pushed, whatever part it is;
    /// [`Analyser::conclude`] gives what the part adds to the report.
    pub fn of_part(options: Options, part: Part) -> Self {
        let gathering = match options.definitions {
            Definitions::Dwell => {
                // Metrics on request need all rows and all bytes in one place.
                let requested = part.is_whole().then(|| Requested::new(&options)).flatten();
                let gatherer = Gatherer::new(options.thresholds.step_ns(), Followed::Part(part));
                Gathering::Dwell(Box::new(gatherer.requesting(requested)))
            }
            Definitions::MrmTrace => Gathering::MrmTrace(Box::new(MrmTraceGatherer::new(part))),
        };
        Self {
            part,
            sampled_share: None,
            options,
            names: RegionTypeNames::new(),
            gathering,
            window: None,
            basis: Basis::Exact,
            trace_rows: 0,
            backward_rows: 0,
            gaps_ns: Distribution::default(),
            kv_lives: 0,
            expects_kv_lives: false,
            waiting_kv_lives: Vec::new(),
            waiting: Vec::new(),
            is_sorted_elsewhere: false,
            sorted_until_ns: None,
            overview: None,
        }
    }

    /// Draws a picture of the trace as well.
    pub fn drawing(self, overview: OverviewBuilder) -> Self {
        Self { overview: Some(overview), ..self }
    }

    /// Columns of `trace` that are used for the rows that follow.
    pub fn trace_columns(&self) -> Vec<&'static str> {
        let mut columns = self.options.trace_columns();
        // The definitions of mrm-trace want to know the weakest basis alone, and none is weaker than that of samples.
        if self.options.definitions == Definitions::MrmTrace && self.basis == Basis::Sampled {
            columns.retain(|column| !BASIS_COLUMNS.contains(column));
        }
        let drawn = self.overview.iter().flat_map(|_| OverviewBuilder::COLUMNS);
        drawn.for_each(|column| {
            if !columns.contains(&column) {
                columns.push(column)
            }
        });
        columns
    }

    /// Takes rows of `trace`.
    ///
    /// Needs timestamp_ns, address, op_type, region_type and region_id; takes size_bytes (else 1 byte a row), step,
    /// period, source and sample_id where they are. Nothing of the batch is taken if there is an error.
    pub fn push_trace(&mut self, batch: &RecordBatch) -> Result<(), AnalysisError> {
        let columns = batch;
        let batch = TraceBatch::new(columns, &mut self.names)?;
        if let Gathering::Dwell(gatherer) = &self.gathering {
            gatherer.row_bytes_max().map_or(Ok(()), |limit_bytes| batch.ensure_sizes(limit_bytes))?;
        }
        self.widen_window(batch.timestamps_ns());
        if let Some(overview) = &mut self.overview {
            overview.push(columns, &batch);
        }
        self.basis = self.basis.max(batch.weakest_basis());
        match (&mut self.gathering, self.options.row_order) {
            (Gathering::Dwell(gatherer), RowOrder::Ascending) => push_in_blocks(gatherer, &batch),
            (Gathering::Dwell(_), RowOrder::Any) => {}
            (Gathering::MrmTrace(gatherer), order) => {
                gatherer.push(batch.address_accesses(), order == RowOrder::Ascending);
            }
        }
        if self.options.row_order == RowOrder::Any && !self.is_sorted_elsewhere {
            let rows = (0..batch.rows()).zip(self.trace_rows..);
            let definitions = self.options.definitions;
            self.waiting.extend(rows.map(|(row, number)| sortable_row(&batch, row, number, definitions)));
        }
        self.trace_rows += batch.rows() as u64;
        Ok(())
    }

    /// Says that rows, which come in any order, are sorted by somebody else: they are pushed as they are, and once more by
    /// [`Analyser::push_sorted`].
    pub fn sorted_elsewhere(self) -> Self {
        Self { is_sorted_elsewhere: true, ..self }
    }

    /// Takes rows that were pushed in any order, now sorted by [`SortableRow::key`]; lives of KV blocks come after them.
    pub fn push_sorted(&mut self, rows: &[SortableRow]) {
        match &mut self.gathering {
            Gathering::Dwell(gatherer) => {
                for SortableRow { access, .. } in rows {
                    // Rows that came in any order tell only now how often the time changes.
                    let last_ns = self.sorted_until_ns.unwrap_or(access.timestamp_ns);
                    if access.timestamp_ns != last_ns {
                        self.gaps_ns.add(access.timestamp_ns.saturating_sub(last_ns), 1);
                    }
                    self.sorted_until_ns = Some(access.timestamp_ns);
                    gatherer.push(access);
                }
            }
            Gathering::MrmTrace(gatherer) => {
                gatherer.follow(rows.iter().map(|row| AddressAccess::from(&row.access)));
            }
        }
    }

    /// Says before any row of `trace` that `kv_block_lifecycle` will come; the batch is its first. Nothing changes if the
    /// blocks are those that a server published: they have no addresses, and no access is one to them.
    pub fn expect_kv_lifecycle(&mut self, first: &RecordBatch) -> Result<(), AnalysisError> {
        if self.trace_rows > 0 {
            return Err(AnalysisError::LifecycleAfterTrace);
        }
        if !LifecycleBatch::has_addresses(first)? {
            return Ok(());
        }
        self.expects_kv_lives = true;
        if let Gathering::Dwell(gatherer) = &mut self.gathering {
            gatherer.expect_kv_lives();
        }
        Ok(())
    }

    /// Takes rows of `kv_block_lifecycle`, after all rows of `trace`, which know the steps. Without
    /// [`Analyser::expect_kv_lifecycle`] they are left out.
    ///
    /// Needs address, write_ns, last_read_ns, evict_ns and total_reads; takes bytes (else 1 a block), layer and kind
    /// where they are. The definitions of mrm-trace do not use it.
    pub fn push_kv_lifecycle(&mut self, batch: &RecordBatch) -> Result<(), AnalysisError> {
        if !self.expects_kv_lives {
            return Ok(());
        }
        let batch = LifecycleBatch::new(batch)?;
        self.kv_lives += batch.rows() as u64;
        let lives = (0..batch.rows()).map(|row| batch.life(row));
        match (&mut self.gathering, self.options.row_order) {
            (Gathering::Dwell(_), RowOrder::Any) if !self.is_sorted_elsewhere => self.waiting_kv_lives.extend(lives),
            (Gathering::Dwell(gatherer), _) => {
                let end_ns = self.window.map_or(0, |window| window.last_ns);
                lives.for_each(|life| gatherer.push_kv_life(&life, end_ns));
            }
            (Gathering::MrmTrace(_), _) => {}
        }
        Ok(())
    }

    fn widen_window(&mut self, timestamps_ns: &[u64]) {
        let Some(&first_ns) = timestamps_ns.first() else { return };
        let window = self.window.get_or_insert(ObservationWindow { first_ns, last_ns: first_ns });
        // The definitions of mrm-trace know no resolution; rows in any order tell it when they are sorted.
        let is_resolved =
            matches!(self.gathering, Gathering::Dwell(_)) && self.options.row_order == RowOrder::Ascending;
        for &now_ns in timestamps_ns {
            if now_ns >= window.last_ns {
                if is_resolved && now_ns > window.last_ns {
                    self.gaps_ns.add(now_ns - window.last_ns, 1);
                }
                window.last_ns = now_ns;
            } else {
                window.first_ns = window.first_ns.min(now_ns);
                self.backward_rows += 1;
            }
        }
    }

    /// Rows of `trace` that were pushed.
    pub fn rows(&self) -> u64 {
        self.trace_rows
    }

    /// Regions that it knows.
    pub fn regions(&self) -> usize {
        match &self.gathering {
            Gathering::Dwell(gatherer) => gatherer.regions.len(),
            Gathering::MrmTrace(gatherer) => gatherer.regions(),
        }
    }

    /// Memory that it holds, about.
    pub fn held_bytes(&self) -> usize {
        let gathered = match &self.gathering {
            Gathering::Dwell(gatherer) => gatherer.held_bytes(),
            Gathering::MrmTrace(gatherer) => gatherer.held_bytes(),
        };
        let waiting = self.waiting.capacity() * size_of::<SortableRow>();
        gathered + waiting + self.waiting_kv_lives.capacity() * size_of::<BlockLife>()
    }

    /// An analyser by dwell's definitions that follows a share of the pages, above 0 and up to 1, for
    /// [`Analyser::conclude_sample`].
    pub fn of_share(thresholds: SuitabilityThresholds, share: f64) -> Self {
        let followed = Followed::Sample(PageSample::new(share, GROUPS));
        let gathering = Gathering::Dwell(Box::new(Gatherer::new(thresholds.step_ns(), followed)));
        Self { gathering, sampled_share: Some(share), ..Self::new(Options { thresholds, ..Options::default() }) }
    }

    /// What an analyser that was made [of a share](Analyser::of_share) concludes, after everything was pushed; none of any
    /// other one.
    pub fn conclude_sample(mut self) -> Option<ConcludedSample> {
        let share = self.sampled_share?;
        self.follow_waiting();
        let facts = self.facts();
        let Gathering::Dwell(gatherer) = self.gathering else { return None };
        let end_ns = self.window.unwrap_or_default().last_ns;
        let (rows, groups) = gatherer.conclude_groups(end_ns, GROUPS);
        let groups = groups.into_iter().map(approximate::by_type).collect();
        Some(ConcludedSample { share, facts, gaps_ns: self.gaps_ns, rows, groups })
    }

    fn facts(&self) -> TraceFacts {
        TraceFacts {
            options: self.options,
            window: self.window,
            trace_rows: self.trace_rows,
            backward_rows: self.backward_rows,
            kv_lives: self.kv_lives,
            basis: self.basis,
        }
    }

    /// What the part adds to the report, after everything was pushed.
    pub fn conclude(self) -> ConcludedPart {
        self.conclude_drawn().0
    }

    /// The report on everything that was pushed; an empty one if nothing was. Of a part it lacks the others.
    pub fn finish(self) -> MetricsReport {
        self.finish_drawn().0
    }

    /// The same with the picture, if one was to be drawn.
    pub fn finish_drawn(self) -> (MetricsReport, Option<Overview>) {
        let (concluded, mut overview) = self.conclude_drawn();
        let report = concluded.into_report();
        if let Some(overview) = &mut overview {
            overview.survival = survival_curves(&report.totals);
        }
        (report, overview)
    }

    fn conclude_drawn(mut self) -> (ConcludedPart, Option<Overview>) {
        self.follow_waiting();
        if let Gathering::Dwell(gatherer) = &mut self.gathering {
            gatherer.work_off();
        }
        let overview = self.overview.take();
        let overview = overview.map(|overview| overview.finish(self.gathering.step_bytes()));
        let facts = self.facts();
        let gathered = match self.gathering {
            Gathering::Dwell(gatherer) => {
                let end_ns = self.window.unwrap_or_default().last_ns;
                ConcludedGathering::Dwell(Box::new(gatherer.conclude(end_ns)))
            }
            Gathering::MrmTrace(gatherer) => ConcludedGathering::MrmTrace(Box::new(gatherer.conclude(&self.names))),
        };
        let gaps_ns = self.part.is_first().then_some(self.gaps_ns);
        (ConcludedPart::new(self.part, facts, gaps_ns, gathered), overview)
    }

    /// Gives the rows that came in any order to the gatherer by time.
    fn follow_waiting(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_by_key(SortableRow::key);
        self.push_sorted(&waiting);
        let end_ns = self.window.map_or(0, |window| window.last_ns);
        if let Gathering::Dwell(gatherer) = &mut self.gathering {
            self.waiting_kv_lives.iter().for_each(|life| gatherer.push_kv_life(life, end_ns));
        }
    }
}

fn push_in_blocks(gatherer: &mut Gatherer, batch: &TraceBatch) {
    let mut block: Vec<Access> = Vec::with_capacity(ROWS_AHEAD);
    for first in (0..batch.rows()).step_by(ROWS_AHEAD) {
        block.clear();
        block.extend((first..batch.rows().min(first + ROWS_AHEAD)).map(|row| batch.access(row)));
        gatherer.push_block(&block);
    }
}
