//! The rows of a batch, with their labels.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{StringDictionaryBuilder, UInt32Builder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use dwell_events::schema::trace::TraceColumns;
use dwell_events::{Hint, RegionType};
use dwell_label::{RuleLabeller, UnlabelledAccess};

use crate::BuildError;
use crate::foreign_columns::unfit;

/// Labels batches and counts what became of their rows.
pub(super) struct LabelledRows {
    pub(super) labeller: RuleLabeller,
    /// Rows by region type as they were.
    pub(super) before: BTreeMap<String, u64>,
    /// Rows by region type as they are.
    pub(super) after: BTreeMap<&'static str, u64>,
}

impl LabelledRows {
    pub(super) fn new(labeller: RuleLabeller) -> Self {
        Self { labeller, before: BTreeMap::new(), after: BTreeMap::new() }
    }

    /// The batch with new labels, without the rows that are to be dropped.
    pub(super) fn label(&mut self, batch: &RecordBatch, path: &Path) -> Result<RecordBatch, BuildError> {
        let found = TraceColumns::of(batch).map_err(|error| unfit(error.to_string(), path))?;
        let mut region_types = StringDictionaryBuilder::<Int32Type>::new();
        let mut region_ids = UInt32Builder::with_capacity(batch.num_rows());
        let mut is_kept = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            let access = found.row(row).map_err(|error| unfit(error.to_string(), path))?;
            add_one(&mut self.before, found.region_type_name(row));
            let label = self.labeller.label(&access).map_err(unlabelled)?;
            is_kept.push(label.is_some());
            let (region_type, region_id) = label.map_or((RegionType::Unknown, 0), |it| (it.region_type, it.region_id));
            region_types.append_value(region_type.name());
            region_ids.append_value(region_id);
            if label.is_some() {
                *self.after.entry(region_type.name()).or_insert(0) += 1;
            }
        }
        let columns = [
            ("region_type", Arc::new(region_types.finish()) as ArrayRef),
            ("region_id", Arc::new(region_ids.finish())),
        ];
        let labelled = with_columns(batch, columns).map_err(|error| unfit(error.to_string(), path))?;
        if is_kept.iter().all(|&is_kept| is_kept) {
            return Ok(labelled);
        }
        let kept = filter_record_batch(&labelled, &BooleanArray::from(is_kept));
        Ok(kept.map_err(|error| unfit(error.to_string(), path))?)
    }
}

fn with_columns<const N: usize>(
    batch: &RecordBatch,
    columns: [(&str, ArrayRef); N],
) -> Result<RecordBatch, arrow_schema::ArrowError> {
    let mut all = batch.columns().to_vec();
    for (name, column) in columns {
        all[batch.schema_ref().index_of(name)?] = column;
    }
    RecordBatch::try_new(batch.schema(), all)
}

fn unlabelled(access: UnlabelledAccess) -> BuildError {
    BuildError::Labelling { reason: access.to_string(), hints: access.hints() }
}

/// Region types are few; a name is copied when it is new.
fn add_one(counts: &mut BTreeMap<String, u64>, name: &str) {
    match counts.get_mut(name) {
        Some(count) => *count += 1,
        None => _ = counts.insert(name.to_owned(), 1),
    }
}
