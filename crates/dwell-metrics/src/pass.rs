//! One reading of the tables of a run for an analyser.

use std::ops::ControlFlow;

use arrow_array::RecordBatch;
use dwell_analysis::{Analyser, KV_LIFECYCLE_COLUMNS};
use dwell_events::schema::Table;
use dwell_store::{RunDir, StoreError, open_table_groups, open_table_subset};

use crate::{MetricsError, failed, read_ahead};

/// Pushes all rows of a run.
pub(crate) fn push_tables(run: &RunDir, analyser: Analyser) -> Result<Analyser, MetricsError> {
    let mut pass = Pass::begin(run, analyser)?;
    // It goes on to the end.
    let _ = pass.push_trace(|_| ControlFlow::Continue(()))?;
    pass.push_blocks()?;
    Ok(pass.analyser)
}

/// Batches of a table, each of which may turn out to be unreadable.
type Batches = Box<dyn Iterator<Item = Result<RecordBatch, StoreError>>>;

/// A reading under way.
pub(crate) struct Pass<'a> {
    run: &'a RunDir,
    pub(crate) analyser: Analyser,
    blocks: Option<Batches>,
}

impl<'a> Pass<'a> {
    /// Nothing is pushed yet but that lives of KV blocks will come, if they will.
    pub(crate) fn begin(run: &'a RunDir, mut analyser: Analyser) -> Result<Self, MetricsError> {
        let mut blocks: Option<Batches> = None;
        // mrm-trace leaves the table out when it would be empty.
        if run.table(Table::KvBlockLifecycle).exists() {
            let mut batches = open_table_subset(run.path(), Table::KvBlockLifecycle, &KV_LIFECYCLE_COLUMNS)?;
            let first = batches.next().transpose()?;
            first.iter().try_for_each(|first| analyser.expect_kv_lifecycle(first)).map_err(failed(run))?;
            blocks = Some(Box::new(first.into_iter().map(Ok).chain(batches)));
        }
        Ok(Self { run, analyser, blocks })
    }

    /// Pushes the rows of the trace, until the watcher has seen enough. It is called after every batch.
    pub(crate) fn push_trace(
        &mut self,
        mut watch: impl FnMut(&Analyser) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, MetricsError> {
        let mut state = ControlFlow::Continue(());
        // After the first rows some columns may be of no use any more.
        for groups in [0..1, 1..usize::MAX] {
            let rows = open_table_groups(self.run.path(), Table::Trace, &self.analyser.trace_columns(), groups)?;
            let flow = read_ahead::for_each_batch(rows, |batch| {
                self.analyser.push_trace(batch).map_err(failed(self.run))?;
                Ok(watch(&self.analyser))
            })?;
            if flow.is_break() {
                state = flow;
                break;
            }
        }
        Ok(state)
    }

    /// Pushes the lives of KV blocks, after all rows.
    pub(crate) fn push_blocks(&mut self) -> Result<(), MetricsError> {
        for batch in self.blocks.take().into_iter().flatten() {
            self.analyser.push_kv_lifecycle(&batch?).map_err(failed(self.run))?;
        }
        Ok(())
    }
}
