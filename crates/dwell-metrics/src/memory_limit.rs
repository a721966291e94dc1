//! The analysis of a run within a limit of memory.
//!
//! It is begun in one part, and what the analyser holds is watched. When that grows beyond the budget, the part is given up
//! and its rows are read again in smaller ones, one after the other. Reading a trace again costs less than writing its rows
//! out by part: the needed columns of a row take some bytes in Parquet, and 56 as a record.

use std::ops::ControlFlow;

use dwell_analysis::{Analyser, ConcludedPart, Definitions, MetricsReport, Options, Part, RowOrder, SortableRows};
use dwell_events::schema::Table;
use dwell_store::{RunDir, ensure_listed_tables, open_table_groups, table_extent};

use crate::pass::Pass;
use crate::row_spill::{RowSpill, SortedRows};
use crate::{MetricsError, RowsSeen, failed, in_order, read_ahead, region_names};

const MIB: u64 = 1 << 20;

/// The least limit that is accepted.
pub const LEAST_MEMORY_BYTES: u64 = 128 * MIB;

/// Memory of the process beside what the analyser holds: the program, the batches that are read ahead, the rows that wait.
/// Measured: 20 MiB for a thousand rows, 34 MiB for 10 million rows at a thousand addresses.
pub(crate) const PROCESS_BYTES: u64 = 48 * MIB;

/// Share of the rest that the analyser may hold before a part is given up: lists that grow are copied, and to conclude a part
/// takes lists of its own.
const HELD_SHARE: f64 = 0.5;

/// Memory of a region in the report, and of what it is made of.
fn report_bytes_per_region(definitions: Definitions) -> u64 {
    match definitions {
        Definitions::Dwell => 1400,
        Definitions::MrmTrace => 400,
    }
}

/// Rows between two looks at what is held, at least.
const WATCHED_ROWS: u64 = 64 * 1024;

/// Parts that a part is cut into at once, at most.
const CUT_MOST: u32 = 64;

/// What the analyser may hold under a limit.
fn budget(limit_bytes: u64) -> u64 {
    (limit_bytes.saturating_sub(PROCESS_BYTES) as f64 * HELD_SHARE) as u64
}

/// Parts that a state of so many bytes needs under a limit; a power of two.
pub(crate) fn parts_within(state_bytes: u64, limit_bytes: u64) -> u32 {
    let parts = state_bytes.div_ceil(budget(limit_bytes).max(1)).max(1);
    u32::try_from(parts).map_or(Part::MOST, |parts| parts.next_power_of_two().min(Part::MOST))
}

/// The metrics of a run as [`analyse_run`](crate::analyse_run) gives them, within so many bytes of memory.
pub fn analyse_run_within(run: &RunDir, options: Options, limit_bytes: u64) -> Result<MetricsReport, MetricsError> {
    if limit_bytes < LEAST_MEMORY_BYTES {
        return Err(MetricsError::LimitTooLow { limit_bytes, least_bytes: LEAST_MEMORY_BYTES });
    }
    ensure_listed_tables(run)?;
    let limited = Limited { run, limit_bytes, rows: table_extent(run.path(), Table::Trace, &[])?.rows };
    let Concluded(concluded) = in_order(run, options, |options| limited.conclude(options).map(Concluded))?;
    let mut report = concluded.finish().map_err(failed(run))?;
    report.name_regions(region_names::read(run)?);
    Ok(report)
}

struct Concluded(ConcludedPart);

impl RowsSeen for Concluded {
    fn rows_seen(&self) -> (u64, u64) {
        self.0.rows()
    }
}

/// An analysis under a limit.
struct Limited<'a> {
    run: &'a RunDir,
    limit_bytes: u64,
    /// Rows of the trace.
    rows: u64,
}

/// How a reading of all rows for a part ended.
enum Outcome {
    Concluded(Box<ConcludedPart>),
    /// The part held more than it may; it needs so many.
    TooLarge {
        parts: u32,
    },
}

impl Limited<'_> {
    /// All parts, merged, from as many readings as it takes.
    fn conclude(&self, options: Options) -> Result<ConcludedPart, MetricsError> {
        let sorted = (options.row_order == RowOrder::Any).then(|| self.sort(options)).transpose()?;
        let mut merged: Option<ConcludedPart> = None;
        let mut waiting = vec![Part::WHOLE];
        while let Some(part) = waiting.pop() {
            let budget_bytes = self.budget_beside(merged.as_ref())?;
            match self.read(options, part, sorted.as_ref(), budget_bytes)? {
                Outcome::Concluded(concluded) => match &mut merged {
                    Some(merged) => merged.merge(*concluded).map_err(failed(self.run))?,
                    None => merged = Some(*concluded),
                },
                Outcome::TooLarge { parts } => waiting.extend(self.cut(part, parts)?),
            }
        }
        self.budget_beside(merged.as_ref())?;
        merged.ok_or_else(|| self.too_little(0))
    }

    /// What a part may hold beside what is merged already; an error if that and the report on it are too much.
    fn budget_beside(&self, merged: Option<&ConcludedPart>) -> Result<u64, MetricsError> {
        let Some(merged) = merged else { return Ok(budget(self.limit_bytes)) };
        let merged_bytes = merged.held_bytes() as u64;
        let report_bytes = merged.regions() * report_bytes_per_region(merged.options().definitions);
        if merged_bytes + report_bytes > budget(self.limit_bytes) {
            // The other parts have about as much.
            return Err(self.too_little(((merged_bytes + report_bytes) as f64 / merged.share()) as u64));
        }
        // Merging holds what was merged before and what comes of it.
        Ok(budget(self.limit_bytes) - merged_bytes / 2)
    }

    fn too_little(&self, needed_bytes: u64) -> MetricsError {
        MetricsError::TooLittleMemory {
            needed_bytes: PROCESS_BYTES + (needed_bytes as f64 / HELD_SHARE) as u64,
            limit_bytes: self.limit_bytes,
            run: self.run.path().to_owned(),
        }
    }

    /// The parts of a part, by halving it.
    fn cut(&self, part: Part, parts: u32) -> Result<Vec<Part>, MetricsError> {
        let mut cut = vec![part];
        while (cut.len() as u32) < parts {
            let halves: Option<Vec<[Part; 2]>> = cut.iter().map(|part| part.halves()).collect();
            cut = halves.ok_or_else(|| self.too_little(2 * self.limit_bytes))?.into_iter().flatten().collect();
        }
        Ok(cut)
    }

    /// Reads all rows for a part, until it holds more than it may.
    fn read(
        &self,
        options: Options,
        part: Part,
        sorted: Option<&SortedRows>,
        budget_bytes: u64,
    ) -> Result<Outcome, MetricsError> {
        let analyser = Analyser::of_part(options, part);
        let analyser = if sorted.is_some() { analyser.sorted_elsewhere() } else { analyser };
        let mut watch = Watch { rows: self.rows, budget_bytes, next_look_rows: WATCHED_ROWS, parts: 0 };
        let mut pass = Pass::begin(self.run, analyser)?;
        let mut is_whole = pass.push_trace(|analyser| watch.look(analyser, analyser.rows()))?.is_continue();
        if let (Some(sorted), true) = (sorted, is_whole) {
            let (mut pushed, analyser) = (0, &mut pass.analyser);
            watch.next_look_rows = WATCHED_ROWS;
            is_whole = sorted.for_each(|rows| {
                analyser.push_sorted(rows);
                pushed += rows.len() as u64;
                watch.look(analyser, pushed).is_continue()
            })?;
        }
        if !is_whole {
            return Ok(Outcome::TooLarge { parts: watch.parts });
        }
        pass.push_blocks()?;
        let held_bytes = pass.analyser.held_bytes() as u64;
        if held_bytes > budget_bytes && part.halves().is_some() {
            return Ok(Outcome::TooLarge { parts: cut_of(held_bytes, budget_bytes) });
        }
        Ok(Outcome::Concluded(Box::new(pass.analyser.conclude())))
    }

    /// The rows of a trace by time, in a file.
    fn sort(&self, options: Options) -> Result<SortedRows, MetricsError> {
        let mut spill = RowSpill::new(self.run.path(), budget(self.limit_bytes) as usize / 2)?;
        let mut rows = SortableRows::new(options.definitions);
        let columns = options.trace_columns();
        let table = open_table_groups(self.run.path(), Table::Trace, &columns, 0..usize::MAX)?;
        let mut spilled = Ok(());
        let _ = read_ahead::for_each_batch(table, |batch| {
            let push = |row| {
                if spilled.is_ok() {
                    spilled = spill.push(row);
                }
            };
            rows.push(batch, push).map_err(failed(self.run))?;
            Ok(if spilled.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        spilled?;
        Ok(spill.finish()?)
    }
}

/// Parts that so many bytes need.
fn cut_of(held_bytes: u64, budget_bytes: u64) -> u32 {
    let parts = u32::try_from(held_bytes.div_ceil(budget_bytes.max(1))).unwrap_or(CUT_MOST);
    parts.clamp(2, CUT_MOST).next_power_of_two()
}

/// Looks at what an analyser holds.
struct Watch {
    rows: u64,
    budget_bytes: u64,
    next_look_rows: u64,
    /// How many parts are needed, when it is too much.
    parts: u32,
}

impl Watch {
    fn look(&mut self, analyser: &Analyser, rows: u64) -> ControlFlow<()> {
        if rows < self.next_look_rows && rows < self.rows {
            return ControlFlow::Continue(());
        }
        // To add up what regions hold takes some time for each of them.
        self.next_look_rows = rows + WATCHED_ROWS.max(analyser.regions() as u64);
        let held_bytes = analyser.held_bytes() as u64;
        if held_bytes <= self.budget_bytes {
            return ControlFlow::Continue(());
        }
        // What is held grows with the rows at most.
        let expected_bytes = held_bytes as f64 * (self.rows as f64 / rows.max(1) as f64).min(4.0);
        self.parts = cut_of(expected_bytes as u64, self.budget_bytes);
        ControlFlow::Break(())
    }
}
