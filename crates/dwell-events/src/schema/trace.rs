//! `trace`: one row per labelled load or store of a byte range.
//!
//! The first eighteen columns are those of mrm-trace, with its types; the rest are ours. A row from an exact
//! collector covers `size_bytes` bytes from `address`; a sampled row has the size that the sample gave.

use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType, Schema, SchemaRef};

pub use super::trace_builder::TraceBuilder;
pub use super::trace_columns::{TraceColumns, UnfitTrace};
pub use super::trace_kinds::{KindRow, KindTraceBuilder};
use super::{Meaning, Words, column, meaning, optional, text};
use crate::{OpType, Phase, RegionType};

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
pub type TraceRow<'a> = Row<&'a str>;

/// The same with its texts as numbers of [`Words`]: half as large, and it borrows nothing.
pub type NumberedRow = Row<u32>;

/// One access whose texts are of this type; see [`TraceRow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row<Text> {
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
    pub symbol: Text,
    /// Where that code lives.
    pub dso: Text,
    /// Whose memory it is.
    pub region_type: RegionType,
    /// Row of `region_map`; 0 if it has none.
    pub region_id: u32,
    /// Time that the access took, if it was measured.
    pub access_latency_ns: Option<u32>,
    /// Cache or memory that answered it, such as `L1` or `DRAM`, if known.
    pub cache_level: Option<Text>,
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
    pub tensor: Text,
    /// Layer of the tensor, if it belongs to one.
    pub layer: Option<u16>,
    /// Collector that saw it.
    pub source: Text,
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

    /// The row with its texts numbered; the numbers of the row before are tried first.
    #[inline]
    pub fn numbered(&self, words: &mut Words, last: &NumberedRow) -> NumberedRow {
        self.with(RowTexts {
            symbol: words.number_of(self.symbol, last.symbol),
            dso: words.number_of(self.dso, last.dso),
            tensor: words.number_of(self.tensor, last.tensor),
            source: words.number_of(self.source, last.source),
            cache_level: self.cache_level.map(|level| words.number_of(level, last.cache_level.unwrap_or_default())),
        })
    }
}

impl NumberedRow {
    /// A row of which nothing is known, before any text was numbered.
    pub const EMPTY: Self =
        TraceRow::EMPTY.with(RowTexts { symbol: 0, dso: 0, tensor: 0, source: 0, cache_level: None });

    /// Most texts that a row brings.
    pub const TEXTS_MAX: usize = 5;

    /// The row with the texts that its numbers stand for.
    #[inline]
    pub fn with_texts<'a>(&self, words: &'a Words) -> TraceRow<'a> {
        self.with(RowTexts {
            symbol: words.text(self.symbol),
            dso: words.text(self.dso),
            tensor: words.text(self.tensor),
            source: words.text(self.source),
            cache_level: self.cache_level.map(|level| words.text(level)),
        })
    }
}

/// The texts of a row.
#[derive(Clone, Copy)]
struct RowTexts<Text> {
    symbol: Text,
    dso: Text,
    tensor: Text,
    source: Text,
    cache_level: Option<Text>,
}

impl<Text: Copy> Row<Text> {
    /// The same access with other texts.
    #[inline]
    const fn with<Other: Copy>(&self, texts: RowTexts<Other>) -> Row<Other> {
        let RowTexts { symbol, dso, tensor, source, cache_level } = texts;
        Row {
            timestamp_ns: self.timestamp_ns,
            phase: self.phase,
            address: self.address,
            size_bytes: self.size_bytes,
            op_type: self.op_type,
            symbol,
            dso,
            region_type: self.region_type,
            region_id: self.region_id,
            access_latency_ns: self.access_latency_ns,
            cache_level,
            numa_node: self.numa_node,
            cpu_id: self.cpu_id,
            thread_id: self.thread_id,
            token_index: self.token_index,
            context_tokens: self.context_tokens,
            step: self.step,
            tensor,
            layer: self.layer,
            source,
            period: self.period,
        }
    }
}

impl<Text> Row<Text> {
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
