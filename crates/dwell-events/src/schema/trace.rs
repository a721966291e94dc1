//! `trace`: one row per labelled load or store of a byte range.
//!
//! The first eighteen columns are those of mrm-trace, with its types; the rest are ours. A row from an exact
//! collector covers `size_bytes` bytes from `address`; a sampled row has the size that the sample gave.

use std::sync::{Arc, LazyLock};

use arrow_array::builder::{UInt32Builder, UInt64Builder};
use arrow_array::types::{UInt8Type, UInt16Type, UInt32Type};
use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Schema, SchemaRef};

use super::sparse::{ListedText, RepeatedText, SparseNumbers};
pub use super::trace_columns::{TraceColumns, UnfitTrace};
use super::{Meaning, TextBuilder, column, meaning, optional, text};
use crate::{OpType, PAGE_SHIFT, Phase, RegionType};

/// What the setting of memory to one value is called in the `symbol` column. It is a store, and nothing that anybody will
/// read is kept by it.
pub const CLEAR_SYMBOL: &str = "ggml_backend_buffer_clear";

/// What the placing of a tensor in a mapping of its file is called in the `symbol` column. Nobody sees the kernel bring the
/// bytes in.
pub const MAPPED_SYMBOL: &str = "mmap";

/// What the reading of a file straight into a tensor's memory is called in the `symbol` column. That it was done is
/// concluded from the tensor's later use.
pub const FILE_READ_SYMBOL: &str = "read";

/// One access, with what its source knows of it and, once it is labelled, whose memory it touched.
///
/// Every source of accesses makes this row, every reader gives it back, and rules look at it. What a source does not
/// know is `None`; [`TraceRow::EMPTY`] is a row of which nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRow<'a> {
    /// CLOCK_MONOTONIC nanoseconds at which the operation that made the access completed.
    pub timestamp_ns: u64,
    /// Part of the run, if known.
    pub phase: Option<Phase>,
    /// First byte.
    pub address: u64,
    /// Bytes from `address` on.
    pub size_bytes: u64,
    /// Load or store.
    pub op_type: OpType,
    /// What made the access: the graph operation, or the function for sampled accesses.
    pub symbol: &'a str,
    /// Where that code lives.
    pub dso: &'a str,
    /// Whose memory it is.
    pub region_type: RegionType,
    /// Row of `region_map`; 0 if it has none.
    pub region_id: u32,
    /// Time that the access took, if it was measured.
    pub access_latency_ns: Option<u32>,
    /// Cache or memory that answered it, such as `L1` or `DRAM`, if known.
    pub cache_level: Option<&'a str>,
    /// NUMA node of the memory, if known.
    pub numa_node: Option<u8>,
    /// Processor that made the access, if known.
    pub cpu_id: Option<u16>,
    /// Thread that made the access, if known.
    pub thread_id: Option<u32>,
    /// Index of the token that the computation gives, counted over the run; none while the prompt is processed.
    pub token_index: Option<u32>,
    /// Tokens in the context when the access was made.
    pub context_tokens: Option<u32>,
    /// 0 for the prompt, n for the n-th decoded token; none outside generation.
    pub step: Option<u32>,
    /// Tensor that owns the bytes.
    pub tensor: &'a str,
    /// Layer of the tensor, if it belongs to one.
    pub layer: Option<u16>,
    /// Collector that saw it.
    pub source: &'a str,
    /// Accesses that this row stands for: 1 for exact collectors, the sampling period otherwise.
    pub period: u64,
}

impl TraceRow<'_> {
    /// A load of nothing at time 0 of which nothing is known: the rest of a row whose source knows a few fields.
    pub const EMPTY: TraceRow<'static> = TraceRow {
        timestamp_ns: 0,
        phase: None,
        address: 0,
        size_bytes: 0,
        op_type: OpType::Load,
        symbol: "",
        dso: "",
        region_type: RegionType::Unknown,
        region_id: 0,
        access_latency_ns: None,
        cache_level: None,
        numa_node: None,
        cpu_id: None,
        thread_id: None,
        token_index: None,
        context_tokens: None,
        step: None,
        tensor: "",
        layer: None,
        source: "",
        period: 0,
    };

    /// Address after the last byte; an access without a size still touches one byte.
    pub fn end_address(&self) -> u64 {
        self.address.saturating_add(self.size_bytes.max(1))
    }
}

/// Columns of the table.
pub fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        Arc::new(Schema::new(vec![
            text("run_id", false),
            column("sample_id", DataType::UInt64),
            column("timestamp_ns", DataType::UInt64),
            text("phase", true),
            column("address", DataType::UInt64),
            column("address_page", DataType::UInt64),
            text("op_type", false),
            text("symbol", false),
            text("dso", false),
            text("region_type", false),
            column("region_id", DataType::UInt32),
            optional("access_latency_ns", DataType::UInt32),
            text("cache_level", true),
            optional("numa_node", DataType::UInt8),
            optional("cpu_id", DataType::UInt16),
            optional("thread_id", DataType::UInt32),
            optional("token_index", DataType::UInt32),
            optional("context_tokens", DataType::UInt32),
            column("size_bytes", DataType::UInt64),
            optional("step", DataType::UInt32),
            text("tensor", false),
            optional("layer", DataType::UInt16),
            text("source", false),
            column("period", DataType::UInt64),
        ]))
    });
    SCHEMA.clone()
}

/// Unit and meaning of each column, in the order of the schema.
#[rustfmt::skip]
pub(super) const MEANINGS: [Meaning; 24] = [
    meaning("run_id", "", "the run"),
    meaning("sample_id", "", "number of the row, from 0"),
    meaning("timestamp_ns", "ns", "when the operation that made the access was done; see what a timestamp means"),
    meaning("phase", "", "`weight_load`, `setup` (what dwell asks a server for its own purposes), `generation` or `teardown`"),
    meaning("address", "", "first byte"),
    meaning("address_page", "4 KiB pages", "`address >> 12`"),
    meaning("op_type", "", "`load` or `store`"),
    meaning("symbol", "", "graph operation, such as `MUL_MAT`; for the placing of weights `mmap`, `ggml_backend_tensor_set` or `read`"),
    meaning("dso", "", "code that made the access: `ggml-cpu`, or `llama` for the placing of weights"),
    meaning("region_type", "", RegionType::MEANING),
    meaning("region_id", "", "row of `region_map` with this id; 0 stands for no region"),
    meaning("access_latency_ns", "ns", "time that the access took; missing where the source does not see it, as `tensor_ops` does not"),
    meaning("cache_level", "", "cache or memory that answered it; missing where the source does not see it, as `tensor_ops` does not"),
    meaning("numa_node", "", "NUMA node of the memory; missing where the source does not see it, as `tensor_ops` does not"),
    meaning("cpu_id", "", "processor that made the access; missing where the source does not see it, as `tensor_ops` does not"),
    meaning("thread_id", "", "thread that computed the graph; its helpers are not told apart. Missing for the placing of weights"),
    meaning("token_index", "", "row of `tokens` with the token that the computation gives; missing in step 0 and where one graph computes several tokens"),
    meaning("context_tokens", "tokens", "highest position among the tokens of the graph, plus 1; missing where positions are not known"),
    meaning("size_bytes", "bytes", "bytes from `address` on"),
    meaning("step", "", "0 for a prompt, n for the n-th decode step of the run; missing outside of a computation"),
    meaning("tensor", "", "tensor that owns the bytes; for a view, the tensor it is a view of"),
    meaning("layer", "", "layer that the name of the tensor gives; missing if it gives none"),
    meaning("source", "", "collector: `tensor_ops`"),
    meaning("period", "", "accesses that the row stands for: 1 for exact collectors, the sampling period otherwise, 0 where nobody stated it"),
];

/// Gathers rows into batches and numbers them.
pub struct TraceBuilder {
    run_id: String,
    next_sample_id: u64,
    timestamps_ns: UInt64Builder,
    phases: ListedText,
    addresses: UInt64Builder,
    op_types: ListedText,
    symbols: RepeatedText,
    dsos: RepeatedText,
    region_types: ListedText,
    region_ids: UInt32Builder,
    latencies_ns: SparseNumbers<UInt32Type>,
    cache_levels: RepeatedText,
    numa_nodes: SparseNumbers<UInt8Type>,
    cpu_ids: SparseNumbers<UInt16Type>,
    thread_ids: SparseNumbers<UInt32Type>,
    token_indices: SparseNumbers<UInt32Type>,
    contexts: SparseNumbers<UInt32Type>,
    sizes: UInt64Builder,
    steps: SparseNumbers<UInt32Type>,
    tensors: RepeatedText,
    layers: SparseNumbers<UInt16Type>,
    sources: RepeatedText,
    periods: UInt64Builder,
}

impl TraceBuilder {
    /// A builder for one run; `sample_id` counts from 0.
    pub fn new(run_id: &str) -> Self {
        Self {
            run_id: run_id.to_owned(),
            next_sample_id: 0,
            timestamps_ns: UInt64Builder::new(),
            phases: ListedText::new(Phase::ALL.into_iter().map(Phase::name)),
            addresses: UInt64Builder::new(),
            op_types: ListedText::new(OpType::ALL.into_iter().map(OpType::name)),
            symbols: RepeatedText::new(),
            dsos: RepeatedText::new(),
            region_types: ListedText::new(RegionType::ALL.into_iter().map(RegionType::name)),
            region_ids: UInt32Builder::new(),
            latencies_ns: SparseNumbers::new(),
            cache_levels: RepeatedText::new(),
            numa_nodes: SparseNumbers::new(),
            cpu_ids: SparseNumbers::new(),
            thread_ids: SparseNumbers::new(),
            token_indices: SparseNumbers::new(),
            contexts: SparseNumbers::new(),
            sizes: UInt64Builder::new(),
            steps: SparseNumbers::new(),
            tensors: RepeatedText::new(),
            layers: SparseNumbers::new(),
            sources: RepeatedText::new(),
            periods: UInt64Builder::new(),
        }
    }

    /// Rows gathered since the last batch.
    pub fn len(&self) -> usize {
        self.addresses.values_slice().len()
    }

    /// Whether nothing was gathered since the last batch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows gathered since the builder was made.
    pub fn total_rows(&self) -> u64 {
        self.next_sample_id
    }

    /// Adds one access.
    pub fn push(&mut self, row: &TraceRow<'_>) {
        self.timestamps_ns.append_value(row.timestamp_ns);
        self.phases.push(row.phase.map(|phase| phase as usize));
        self.addresses.append_value(row.address);
        self.op_types.push(Some(row.op_type as usize));
        self.symbols.push(Some(row.symbol));
        self.dsos.push(Some(row.dso));
        self.region_types.push(Some(row.region_type as usize));
        self.region_ids.append_value(row.region_id);
        self.latencies_ns.push(row.access_latency_ns);
        self.cache_levels.push(row.cache_level);
        self.numa_nodes.push(row.numa_node);
        self.cpu_ids.push(row.cpu_id);
        self.thread_ids.push(row.thread_id);
        self.token_indices.push(row.token_index);
        self.contexts.push(row.context_tokens);
        self.sizes.append_value(row.size_bytes);
        self.steps.push(row.step);
        self.tensors.push(Some(row.tensor));
        self.layers.push(row.layer);
        self.sources.push(Some(row.source));
        self.periods.append_value(row.period);
        self.next_sample_id += 1;
    }

    /// The gathered rows as a batch of the table's schema; the builder is empty afterwards.
    pub fn finish_batch(&mut self) -> RecordBatch {
        let rows = self.len();
        let first_sample_id = self.next_sample_id - rows as u64;
        let mut run_ids = TextBuilder::new();
        run_ids.append_values(&self.run_id, rows);
        let pages = self.addresses.values_slice().iter().map(|address| address >> PAGE_SHIFT);
        let pages = UInt64Array::from_iter_values(pages);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(run_ids.finish()),
            Arc::new(UInt64Array::from_iter_values(first_sample_id..self.next_sample_id)),
            Arc::new(self.timestamps_ns.finish()),
            Arc::new(self.phases.finish()),
            Arc::new(self.addresses.finish()),
            Arc::new(pages),
            Arc::new(self.op_types.finish()),
            Arc::new(self.symbols.finish()),
            Arc::new(self.dsos.finish()),
            Arc::new(self.region_types.finish()),
            Arc::new(self.region_ids.finish()),
            Arc::new(self.latencies_ns.finish()),
            Arc::new(self.cache_levels.finish()),
            Arc::new(self.numa_nodes.finish()),
            Arc::new(self.cpu_ids.finish()),
            Arc::new(self.thread_ids.finish()),
            Arc::new(self.token_indices.finish()),
            Arc::new(self.contexts.finish()),
            Arc::new(self.sizes.finish()),
            Arc::new(self.steps.finish()),
            Arc::new(self.tensors.finish()),
            Arc::new(self.layers.finish()),
            Arc::new(self.sources.finish()),
            Arc::new(self.periods.finish()),
        ];
        RecordBatch::try_new(schema(), columns).expect("the builders are the schema's columns, in order")
    }
}
