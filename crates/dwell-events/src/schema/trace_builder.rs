//! Gathering rows of `trace` into batches.

use std::sync::Arc;

use arrow_array::types::{Int32Type, UInt8Type, UInt16Type, UInt32Type};
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray, UInt32Array, UInt64Array};

use super::sparse::{ListedText, SparseNumbers};
use super::trace::{NumberedRow, TraceRow, schema};
use super::words::Words;
use crate::{OpType, PAGE_SHIFT, Phase, RegionType};

/// Gathers rows into batches and numbers them.
pub struct TraceBuilder {
    rows: NumberedTraceBuilder,
    words: Words,
    last: NumberedRow,
}

impl TraceBuilder {
    /// A builder for one run; `sample_id` counts from 0.
    pub fn new(run_id: &str) -> Self {
        Self { rows: NumberedTraceBuilder::new(run_id), words: Words::default(), last: NumberedRow::EMPTY }
    }

    /// Rows gathered since the last batch.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether nothing was gathered since the last batch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows gathered since the builder was made.
    pub fn total_rows(&self) -> u64 {
        self.rows.next_sample_id
    }

    /// Adds one access.
    pub fn push(&mut self, row: &TraceRow<'_>) {
        self.last = row.numbered(&mut self.words, &self.last);
        self.rows.push(&self.last);
    }

    /// The gathered rows as a batch of the table's schema; the builder is empty afterwards.
    pub fn finish_batch(&mut self) -> RecordBatch {
        let batch = self.rows.finish_batch(&mut self.words);
        if self.words.len() > Words::USUAL_MAX {
            (self.words, self.last) = (Words::default(), NumberedRow::EMPTY);
        }
        batch
    }
}

/// The same as [`TraceBuilder`] for rows whose texts are numbered already.
pub(super) struct NumberedTraceBuilder {
    run_ids: Arc<StringArray>,
    next_sample_id: u64,
    timestamps_ns: Vec<u64>,
    phases: ListedText,
    addresses: Vec<u64>,
    op_types: ListedText,
    symbols: Vec<i32>,
    dsos: Vec<i32>,
    region_types: ListedText,
    region_ids: Vec<u32>,
    latencies_ns: SparseNumbers<UInt32Type>,
    cache_levels: SparseNumbers<Int32Type>,
    numa_nodes: SparseNumbers<UInt8Type>,
    cpu_ids: SparseNumbers<UInt16Type>,
    thread_ids: SparseNumbers<UInt32Type>,
    token_indices: SparseNumbers<UInt32Type>,
    contexts: SparseNumbers<UInt32Type>,
    sizes: Vec<u64>,
    steps: SparseNumbers<UInt32Type>,
    tensors: Vec<i32>,
    layers: SparseNumbers<UInt16Type>,
    sources: Vec<i32>,
    periods: Vec<u64>,
}

impl NumberedTraceBuilder {
    /// A builder for one run; `sample_id` counts from 0.
    pub fn new(run_id: &str) -> Self {
        Self {
            run_ids: Arc::new(StringArray::from(vec![run_id])),
            next_sample_id: 0,
            timestamps_ns: Vec::new(),
            phases: ListedText::new(Phase::ALL.into_iter().map(Phase::name)),
            addresses: Vec::new(),
            op_types: ListedText::new(OpType::ALL.into_iter().map(OpType::name)),
            symbols: Vec::new(),
            dsos: Vec::new(),
            region_types: ListedText::new(RegionType::ALL.into_iter().map(RegionType::name)),
            region_ids: Vec::new(),
            latencies_ns: SparseNumbers::new(),
            cache_levels: SparseNumbers::new(),
            numa_nodes: SparseNumbers::new(),
            cpu_ids: SparseNumbers::new(),
            thread_ids: SparseNumbers::new(),
            token_indices: SparseNumbers::new(),
            contexts: SparseNumbers::new(),
            sizes: Vec::new(),
            steps: SparseNumbers::new(),
            tensors: Vec::new(),
            layers: SparseNumbers::new(),
            sources: Vec::new(),
            periods: Vec::new(),
        }
    }

    /// Rows gathered since the last batch.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Adds one access.
    #[inline]
    pub fn push(&mut self, row: &NumberedRow) {
        self.timestamps_ns.push(row.timestamp_ns);
        self.phases.push(row.phase.map(|phase| phase as usize));
        self.addresses.push(row.address);
        self.op_types.push(Some(row.op_type as usize));
        self.symbols.push(row.symbol as i32);
        self.dsos.push(row.dso as i32);
        self.region_types.push(Some(row.region_type as usize));
        self.region_ids.push(row.region_id);
        self.latencies_ns.push(row.access_latency_ns);
        self.cache_levels.push(row.cache_level.map(|level| level as i32));
        self.numa_nodes.push(row.numa_node);
        self.cpu_ids.push(row.cpu_id);
        self.thread_ids.push(row.thread_id);
        self.token_indices.push(row.token_index);
        self.contexts.push(row.context_tokens);
        self.sizes.push(row.size_bytes);
        self.steps.push(row.step);
        self.tensors.push(row.tensor as i32);
        self.layers.push(row.layer);
        self.sources.push(row.source as i32);
        self.periods.push(row.period);
        self.next_sample_id += 1;
    }

    /// The gathered rows as a batch of the table's schema; the builder is empty afterwards. The texts must be those that
    /// the rows were numbered by.
    pub fn finish_batch(&mut self, words: &mut Words) -> RecordBatch {
        let rows = self.len();
        let first_sample_id = self.next_sample_id - rows as u64;
        let dictionary = words.dictionary();
        let text = |numbers: Int32Array| Arc::new(DictionaryArray::new(numbers, dictionary.clone()));
        let run_ids = DictionaryArray::new(Int32Array::from(vec![0; rows]), self.run_ids.clone());
        let pages = UInt64Array::from_iter_values(self.addresses.iter().map(|address| address >> PAGE_SHIFT));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(run_ids),
            Arc::new(UInt64Array::from_iter_values(first_sample_id..self.next_sample_id)),
            Arc::new(UInt64Array::from(emptied(&mut self.timestamps_ns))),
            Arc::new(self.phases.finish()),
            Arc::new(UInt64Array::from(emptied(&mut self.addresses))),
            Arc::new(pages),
            Arc::new(self.op_types.finish()),
            text(emptied(&mut self.symbols).into()),
            text(emptied(&mut self.dsos).into()),
            Arc::new(self.region_types.finish()),
            Arc::new(UInt32Array::from(emptied(&mut self.region_ids))),
            Arc::new(self.latencies_ns.finish()),
            text(self.cache_levels.finish()),
            Arc::new(self.numa_nodes.finish()),
            Arc::new(self.cpu_ids.finish()),
            Arc::new(self.thread_ids.finish()),
            Arc::new(self.token_indices.finish()),
            Arc::new(self.contexts.finish()),
            Arc::new(UInt64Array::from(emptied(&mut self.sizes))),
            Arc::new(self.steps.finish()),
            text(emptied(&mut self.tensors).into()),
            Arc::new(self.layers.finish()),
            text(emptied(&mut self.sources).into()),
            Arc::new(UInt64Array::from(emptied(&mut self.periods))),
        ];
        RecordBatch::try_new(schema(), columns).expect("the builders are the schema's columns, in order")
    }
}

/// The values, with room for as many in their place: batches of a table are of about one length.
pub(super) fn emptied<T>(values: &mut Vec<T>) -> Vec<T> {
    let room = Vec::with_capacity(values.len());
    std::mem::replace(values, room)
}
