//! Reading batches of `trace` back into rows.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int32Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayAccessor, PrimitiveArray, RecordBatch, StringArray, TypedDictionaryArray};

use super::trace::TraceRow;
use crate::{OpType, Phase, RegionType};

type Words<'a> = TypedDictionaryArray<'a, Int32Type, StringArray>;

/// Why a batch cannot be read as rows of `trace`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnfitTrace {
    /// A column is not there, or has another type than the table's schema says.
    #[error("the column {column} is missing or has another type")]
    Column {
        /// Its name.
        column: &'static str,
    },
    /// A row is neither a load nor a store.
    #[error("op_type {found:?}, and load or store was needed")]
    OpType {
        /// What it says.
        found: String,
    },
}

/// The columns of a batch that has the schema of the table.
pub struct TraceColumns<'a> {
    timestamps_ns: &'a [u64],
    phases: Words<'a>,
    addresses: &'a [u64],
    op_types: Words<'a>,
    symbols: Words<'a>,
    dsos: Words<'a>,
    region_types: Words<'a>,
    region_ids: &'a [u32],
    latencies_ns: &'a PrimitiveArray<UInt32Type>,
    cache_levels: Words<'a>,
    numa_nodes: &'a PrimitiveArray<UInt8Type>,
    cpu_ids: &'a PrimitiveArray<UInt16Type>,
    thread_ids: &'a PrimitiveArray<UInt32Type>,
    token_indices: &'a PrimitiveArray<UInt32Type>,
    contexts: &'a PrimitiveArray<UInt32Type>,
    sizes: &'a [u64],
    steps: &'a PrimitiveArray<UInt32Type>,
    tensors: Words<'a>,
    layers: &'a PrimitiveArray<UInt16Type>,
    sources: Words<'a>,
    periods: &'a [u64],
}

impl<'a> TraceColumns<'a> {
    /// The columns of a batch.
    pub fn of(batch: &'a RecordBatch) -> Result<Self, UnfitTrace> {
        Ok(Self {
            timestamps_ns: numbers::<UInt64Type>(batch, "timestamp_ns")?.values(),
            phases: words(batch, "phase")?,
            addresses: numbers::<UInt64Type>(batch, "address")?.values(),
            op_types: words(batch, "op_type")?,
            symbols: words(batch, "symbol")?,
            dsos: words(batch, "dso")?,
            region_types: words(batch, "region_type")?,
            region_ids: numbers::<UInt32Type>(batch, "region_id")?.values(),
            latencies_ns: numbers(batch, "access_latency_ns")?,
            cache_levels: words(batch, "cache_level")?,
            numa_nodes: numbers(batch, "numa_node")?,
            cpu_ids: numbers(batch, "cpu_id")?,
            thread_ids: numbers(batch, "thread_id")?,
            token_indices: numbers(batch, "token_index")?,
            contexts: numbers(batch, "context_tokens")?,
            sizes: numbers::<UInt64Type>(batch, "size_bytes")?.values(),
            steps: numbers(batch, "step")?,
            tensors: words(batch, "tensor")?,
            layers: numbers(batch, "layer")?,
            sources: words(batch, "source")?,
            periods: numbers::<UInt64Type>(batch, "period")?.values(),
        })
    }

    /// Rows in the batch.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Whether the batch has no rows.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// What the batch says of a row's region type, be it a name of ours or not.
    pub fn region_type_name(&self, row: usize) -> &'a str {
        self.region_types.value(row)
    }

    /// One row. A phase or a region type whose name is not in the vocabulary is unknown.
    ///
    /// # Panics
    /// If the batch has fewer rows.
    pub fn row(&self, row: usize) -> Result<TraceRow<'a>, UnfitTrace> {
        let op_type = match self.op_types.value(row) {
            "load" => OpType::Load,
            "store" => OpType::Store,
            other => return Err(UnfitTrace::OpType { found: other.to_owned() }),
        };
        let phase = word(&self.phases, row);
        Ok(TraceRow {
            timestamp_ns: self.timestamps_ns[row],
            phase: phase.and_then(|name| Phase::ALL.into_iter().find(|phase| phase.name() == name)),
            address: self.addresses[row],
            size_bytes: self.sizes[row],
            op_type,
            symbol: self.symbols.value(row),
            dso: self.dsos.value(row),
            region_type: RegionType::from_name(self.region_types.value(row)).unwrap_or(RegionType::Unknown),
            region_id: self.region_ids[row],
            access_latency_ns: number(self.latencies_ns, row),
            cache_level: word(&self.cache_levels, row),
            numa_node: number(self.numa_nodes, row),
            cpu_id: number(self.cpu_ids, row),
            thread_id: number(self.thread_ids, row),
            token_index: number(self.token_indices, row),
            context_tokens: number(self.contexts, row),
            step: number(self.steps, row),
            tensor: self.tensors.value(row),
            layer: number(self.layers, row),
            source: self.sources.value(row),
            period: self.periods[row],
        })
    }
}

fn numbers<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    column: &'static str,
) -> Result<&'a PrimitiveArray<T>, UnfitTrace> {
    batch.column_by_name(column).and_then(|array| array.as_primitive_opt()).ok_or(UnfitTrace::Column { column })
}

fn words<'a>(batch: &'a RecordBatch, column: &'static str) -> Result<Words<'a>, UnfitTrace> {
    let found = batch.column_by_name(column).and_then(|array| array.as_dictionary_opt::<Int32Type>());
    found.and_then(|array| array.downcast_dict()).ok_or(UnfitTrace::Column { column })
}

fn number<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, row: usize) -> Option<T::Native> {
    array.is_valid(row).then(|| array.value(row))
}

fn word<'a>(words: &Words<'a>, row: usize) -> Option<&'a str> {
    words.is_valid(row).then(|| words.value(row))
}

#[cfg(test)]
mod tests {
    use super::super::trace::TraceBuilder;
    use super::*;

    #[test]
    fn rows_come_back_from_their_batch_with_all_that_their_source_knew() {
        let sampled = TraceRow {
            timestamp_ns: 7,
            phase: Some(Phase::Generation),
            address: 0x1000,
            size_bytes: 8,
            op_type: OpType::Store,
            symbol: "memcpy",
            dso: "libc.so.6",
            region_type: RegionType::KvCache,
            region_id: 3,
            access_latency_ns: Some(90),
            cache_level: Some("L3"),
            numa_node: Some(1),
            cpu_id: Some(17),
            thread_id: Some(4242),
            token_index: Some(5),
            context_tokens: Some(9),
            step: Some(2),
            tensor: "cache_k_l0",
            layer: Some(0),
            source: "perf_mem",
            period: 4000,
        };
        let rows = [TraceRow::EMPTY, sampled, TraceRow { cache_level: None, ..sampled }, TraceRow::EMPTY];
        let mut builder = TraceBuilder::new("run");
        rows.iter().for_each(|row| builder.push(row));
        let batch = builder.finish_batch();
        let columns = TraceColumns::of(&batch).expect("the builder writes the table's schema");
        let read: Vec<_> = (0..columns.len()).map(|row| columns.row(row)).collect();
        assert_eq!(read, rows.map(Ok));
    }

    #[test]
    fn a_batch_of_another_table_is_refused_by_the_column_it_lacks() {
        let batch = RecordBatch::new_empty(crate::schema::region_map::schema());
        assert_eq!(TraceColumns::of(&batch).err(), Some(UnfitTrace::Column { column: "timestamp_ns" }));
    }
}
