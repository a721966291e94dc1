//! Rows of `trace` in kinds: what many accesses have in common is looked at once.
//!
//! A recording of samples has millions of accesses by a few hundred instructions. Their texts, operation and answering cache
//! are a kind; what differs from access to access is a [`KindRow`]. Columns of what is common are made from the kinds.

use std::sync::Arc;

use arrow_array::types::{UInt8Type, UInt16Type, UInt32Type};
use arrow_array::{
    ArrayRef, DictionaryArray, Int32Array, PrimitiveArray, RecordBatch, StringArray, UInt32Array, UInt64Array,
};

use super::sparse::SparseNumbers;
use super::trace::{NumberedRow, Row, schema};
use super::trace_builder::emptied;
use super::words::Words;
use crate::{OpType, PAGE_SHIFT, Phase, RegionType};

/// What differs between the accesses of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindRow {
    /// As in [`Row`].
    pub timestamp_ns: u64,
    /// First byte.
    pub address: u64,
    /// Bytes from `address` on.
    pub size_bytes: u64,
    /// Accesses that this row stands for.
    pub period: u64,
    /// Time that the access took, if it was measured.
    pub access_latency_ns: Option<u32>,
    /// Thread that made the access, if known.
    pub thread_id: Option<u32>,
    /// Processor that made the access, if known.
    pub cpu_id: Option<u16>,
    /// Number of the kind.
    pub kind: u32,
}

impl KindRow {
    /// The access with everything that its kind says.
    pub fn whole<Text>(&self, kind: Row<Text>) -> Row<Text> {
        let Self { timestamp_ns, address, size_bytes, period, access_latency_ns, thread_id, cpu_id, .. } = *self;
        Row { timestamp_ns, address, size_bytes, period, access_latency_ns, thread_id, cpu_id, ..kind }
    }
}

impl<Text: Copy> Row<Text> {
    /// The kind of the access: the same row without what differs between accesses of a kind.
    #[inline]
    pub fn kind(&self) -> Self {
        Self {
            timestamp_ns: 0,
            address: 0,
            size_bytes: 0,
            period: 0,
            access_latency_ns: None,
            thread_id: None,
            cpu_id: None,
            ..*self
        }
    }

    /// The access as one of the kind with this number.
    #[inline]
    pub fn of_kind(&self, kind: u32) -> KindRow {
        KindRow {
            timestamp_ns: self.timestamp_ns,
            address: self.address,
            size_bytes: self.size_bytes,
            period: self.period,
            access_latency_ns: self.access_latency_ns,
            thread_id: self.thread_id,
            cpu_id: self.cpu_id,
            kind,
        }
    }
}

/// Gathers rows of kinds into batches and numbers them.
pub struct KindTraceBuilder {
    run_ids: Arc<StringArray>,
    phase_names: Arc<StringArray>,
    op_names: Arc<StringArray>,
    region_names: Arc<StringArray>,
    next_sample_id: u64,
    kinds: Vec<u32>,
    timestamps_ns: Vec<u64>,
    addresses: Vec<u64>,
    region_types: Vec<i32>,
    region_ids: Vec<u32>,
    latencies_ns: SparseNumbers<UInt32Type>,
    cpu_ids: SparseNumbers<UInt16Type>,
    thread_ids: SparseNumbers<UInt32Type>,
    sizes: Vec<u64>,
    periods: Vec<u64>,
}

impl KindTraceBuilder {
    /// A builder for one run; `sample_id` counts from 0.
    pub fn new(run_id: &str) -> Self {
        Self {
            run_ids: Arc::new(StringArray::from(vec![run_id])),
            phase_names: Arc::new(StringArray::from_iter_values(Phase::ALL.map(Phase::name))),
            op_names: Arc::new(StringArray::from_iter_values(OpType::ALL.map(OpType::name))),
            region_names: Arc::new(StringArray::from_iter_values(RegionType::ALL.map(RegionType::name))),
            next_sample_id: 0,
            kinds: Vec::new(),
            timestamps_ns: Vec::new(),
            addresses: Vec::new(),
            region_types: Vec::new(),
            region_ids: Vec::new(),
            latencies_ns: SparseNumbers::new(),
            cpu_ids: SparseNumbers::new(),
            thread_ids: SparseNumbers::new(),
            sizes: Vec::new(),
            periods: Vec::new(),
        }
    }

    /// Rows gathered since the last batch.
    #[inline]
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether nothing was gathered since the last batch.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Adds one access with its label.
    #[inline]
    pub fn push(&mut self, row: &KindRow, region_type: RegionType, region_id: u32) {
        self.kinds.push(row.kind);
        self.timestamps_ns.push(row.timestamp_ns);
        self.addresses.push(row.address);
        self.region_types.push(region_type as i32);
        self.region_ids.push(region_id);
        self.latencies_ns.push(row.access_latency_ns);
        self.cpu_ids.push(row.cpu_id);
        self.thread_ids.push(row.thread_id);
        self.sizes.push(row.size_bytes);
        self.periods.push(row.period);
    }

    /// The gathered rows as a batch of the table's schema; the builder is empty afterwards. Rows are of these kinds, by
    /// number, and the texts must be those that the kinds were numbered by.
    pub fn finish_batch(&mut self, kinds: &[NumberedRow], words: &mut Words) -> RecordBatch {
        let rows = self.len();
        let first_sample_id = self.next_sample_id;
        self.next_sample_id += rows as u64;
        let of_kinds = OfKinds { rows: &self.kinds, kinds };
        let (dictionary, schema) = (words.dictionary(), schema());
        let text = |number: fn(&NumberedRow) -> u32| of_kinds.texts(&dictionary, |kind| Some(number(kind) as i32));
        let pages = UInt64Array::from_iter_values(self.addresses.iter().map(|address| address >> PAGE_SHIFT));
        let region_types = Int32Array::from(emptied(&mut self.region_types));
        let region_types = DictionaryArray::new(region_types, self.region_names.clone() as _);
        let columns: Vec<ArrayRef> = vec![
            of_kinds.texts(&self.run_ids, |_| Some(0)),
            Arc::new(UInt64Array::from_iter_values(first_sample_id..self.next_sample_id)),
            Arc::new(UInt64Array::from(emptied(&mut self.timestamps_ns))),
            of_kinds.texts(&self.phase_names, |kind| kind.phase.map(|phase| phase as i32)),
            Arc::new(UInt64Array::from(emptied(&mut self.addresses))),
            Arc::new(pages),
            of_kinds.texts(&self.op_names, |kind| Some(kind.op_type as i32)),
            text(|kind| kind.symbol),
            text(|kind| kind.dso),
            Arc::new(region_types),
            Arc::new(UInt32Array::from(emptied(&mut self.region_ids))),
            Arc::new(self.latencies_ns.finish()),
            of_kinds.texts(&dictionary, |kind| kind.cache_level.map(|level| level as i32)),
            Arc::new(of_kinds.numbers::<UInt8Type>(|kind| kind.numa_node)),
            Arc::new(self.cpu_ids.finish()),
            Arc::new(self.thread_ids.finish()),
            Arc::new(of_kinds.numbers::<UInt32Type>(|kind| kind.token_index)),
            Arc::new(of_kinds.numbers::<UInt32Type>(|kind| kind.context_tokens)),
            Arc::new(UInt64Array::from(emptied(&mut self.sizes))),
            Arc::new(of_kinds.numbers::<UInt32Type>(|kind| kind.step)),
            text(|kind| kind.tensor),
            Arc::new(of_kinds.numbers::<UInt16Type>(|kind| kind.layer)),
            text(|kind| kind.source),
            Arc::new(UInt64Array::from(emptied(&mut self.periods))),
        ];
        self.kinds.clear();
        RecordBatch::try_new(schema, columns).expect("the columns are the schema's, in order")
    }
}

/// Columns of what accesses of a kind have in common.
struct OfKinds<'a> {
    rows: &'a [u32],
    kinds: &'a [NumberedRow],
}

impl OfKinds<'_> {
    fn texts(&self, words: &Arc<StringArray>, place: impl Fn(&NumberedRow) -> Option<i32>) -> ArrayRef {
        let places: Int32Array = self.numbers(place);
        Arc::new(DictionaryArray::new(places, words.clone() as _))
    }

    /// A column with the number of each row's kind. Most columns have the same for all kinds, or none.
    fn numbers<T: arrow_array::ArrowPrimitiveType>(
        &self,
        number: impl Fn(&NumberedRow) -> Option<T::Native>,
    ) -> PrimitiveArray<T> {
        let by_kind: Vec<Option<T::Native>> = self.kinds.iter().map(number).collect();
        let rows = self.rows.len();
        match by_kind.first() {
            None => PrimitiveArray::new_null(rows),
            Some(first) if by_kind.iter().all(|it| it == first) => match first {
                Some(number) => PrimitiveArray::from_value(*number, rows),
                None => PrimitiveArray::new_null(rows),
            },
            _ => match by_kind.iter().copied().collect::<Option<Vec<T::Native>>>() {
                Some(all) => PrimitiveArray::from_iter_values(self.rows.iter().map(|kind| all[*kind as usize])),
                None => self.rows.iter().map(|kind| by_kind[*kind as usize]).collect(),
            },
        }
    }
}
