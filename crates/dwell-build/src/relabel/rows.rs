//! The rows of a batch, with their labels.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{StringDictionaryBuilder, UInt32Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int32Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayAccessor, ArrayRef, BooleanArray, RecordBatch, StringArray, TypedDictionaryArray};
use arrow_select::filter::filter_record_batch;
use dwell_events::{Hint, OpType, Phase, RegionType};
use dwell_label::rules::Access;
use dwell_label::{RuleLabeller, UnlabelledAccess};

use super::columns::unfit;
use crate::BuildError;

type Texts<'a> = TypedDictionaryArray<'a, Int32Type, StringArray>;

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
        let found = TraceColumns::of(batch).ok_or_else(|| unfit("columns of unknown types".to_owned(), path))?;
        let mut region_types = StringDictionaryBuilder::<Int32Type>::new();
        let mut region_ids = UInt32Builder::with_capacity(batch.num_rows());
        let mut is_kept = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            let access = found.access(row).map_err(|reason| unfit(reason, path))?;
            add_one(&mut self.before, found.region_types.value(row));
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

/// The columns of `trace` that labels come from.
struct TraceColumns<'a> {
    timestamps_ns: &'a [u64],
    addresses: &'a [u64],
    sizes: &'a [u64],
    region_ids: &'a [u32],
    phases: Texts<'a>,
    op_types: Texts<'a>,
    symbols: Texts<'a>,
    dsos: Texts<'a>,
    sources: Texts<'a>,
    region_types: Texts<'a>,
}

impl<'a> TraceColumns<'a> {
    fn of(batch: &'a RecordBatch) -> Option<Self> {
        Some(Self {
            timestamps_ns: numbers::<UInt64Type>(batch, "timestamp_ns")?,
            addresses: numbers::<UInt64Type>(batch, "address")?,
            sizes: numbers::<UInt64Type>(batch, "size_bytes")?,
            region_ids: numbers::<UInt32Type>(batch, "region_id")?,
            phases: texts(batch, "phase")?,
            op_types: texts(batch, "op_type")?,
            symbols: texts(batch, "symbol")?,
            dsos: texts(batch, "dso")?,
            sources: texts(batch, "source")?,
            region_types: texts(batch, "region_type")?,
        })
    }

    fn access(&self, row: usize) -> Result<Access<'a>, String> {
        let op_type = match self.op_types.value(row) {
            "load" => OpType::Load,
            "store" => OpType::Store,
            other => return Err(format!("op_type {other:?}, and load or store was needed")),
        };
        let phase = self.phases.is_valid(row).then(|| self.phases.value(row));
        Ok(Access {
            timestamp_ns: self.timestamps_ns[row],
            address: self.addresses[row],
            size_bytes: self.sizes[row],
            op_type,
            phase: phase.and_then(|name| Phase::ALL.into_iter().find(|phase| phase.name() == name)),
            symbol: self.symbols.value(row),
            dso: self.dsos.value(row),
            source: self.sources.value(row),
            // A name outside of the vocabulary is a label that nobody can use.
            region_type: RegionType::from_name(self.region_types.value(row)).unwrap_or(RegionType::Unknown),
            region_id: self.region_ids[row],
        })
    }
}

fn numbers<'a, T: ArrowPrimitiveType>(batch: &'a RecordBatch, name: &str) -> Option<&'a [T::Native]> {
    Some(batch.column_by_name(name)?.as_primitive_opt::<T>()?.values())
}

fn texts<'a>(batch: &'a RecordBatch, name: &str) -> Option<Texts<'a>> {
    batch.column_by_name(name)?.as_dictionary_opt::<Int32Type>()?.downcast_dict::<StringArray>()
}
