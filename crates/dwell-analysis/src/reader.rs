//! The rows of the tables, as far as the metrics need them; columns are found by name.

use arrow_array::RecordBatch;
use arrow_buffer::ScalarBuffer;
use dwell_events::OpType;
use dwell_events::schema::kv_block_lifecycle::BeginCause;
use dwell_events::schema::trace::{CLEAR_SYMBOL, FILE_READ_SYMBOL, MAPPED_SYMBOL};

use crate::columns::{Numbers, required, texts};
use crate::region_type::{RegionTypeNames, TypeIndex};
use crate::{AnalysisError, Basis, Definitions, Options, RowOrder};

const TRACE: &str = "trace";
const LIFECYCLE: &str = "kv_block_lifecycle";

/// Collector whose rows are known to the page only.
const PAGE_SOURCE: &str = "pages";

/// Period of a row that stands for itself alone.
const UNSAMPLED_PERIOD: u64 = 1;

/// Columns of `kv_block_lifecycle` that the metrics use; a file may lack the last four.
pub const KV_LIFECYCLE_COLUMNS: [&str; 9] =
    ["address", "write_ns", "last_read_ns", "evict_ns", "total_reads", "bytes", "layer", "kind", "begin_cause"];

/// Columns of `trace` that the metrics need.
pub(crate) const NEEDED_COLUMNS: [&str; 5] = ["timestamp_ns", "address", "op_type", "region_type", "region_id"];

/// Columns of `trace` that say how its rows were obtained. Rows without them are samples.
pub(crate) const BASIS_COLUMNS: [&str; 2] = ["period", "source"];

impl Options {
    /// Columns of `trace` that are used with these options. A file may lack all but the first five.
    pub fn trace_columns(&self) -> Vec<&'static str> {
        let mut columns = [&NEEDED_COLUMNS[..], &BASIS_COLUMNS].concat();
        if self.definitions == Definitions::Dwell {
            columns.extend(["size_bytes", "step", "symbol"]);
            if self.row_order == RowOrder::Any {
                columns.push("sample_id");
            }
        }
        columns
    }
}

/// One row of `trace`, as far as the metrics need it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) timestamp_ns: u64,
    pub(crate) address: u64,
    pub(crate) size_bytes: u64,
    pub(crate) region_id: u64,
    pub(crate) step: Option<u32>,
    pub(crate) region_type: TypeIndex,
    pub(crate) op_type: OpType,
    pub(crate) basis: Basis,
    /// Accesses that the row stands for; 0 if that is not known.
    pub(crate) period: u32,
    /// What the function that made it says of it.
    pub(crate) manner: Manner,
}

/// What the function that made an access says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Ordinary,
    /// Memory was set to one value.
    Clear,
    /// A store that was concluded, not seen.
    Concluded,
}

impl Manner {
    fn of(symbol: Option<&str>) -> Self {
        match symbol {
            Some(CLEAR_SYMBOL) => Manner::Clear,
            Some(MAPPED_SYMBOL | FILE_READ_SYMBOL) => Manner::Concluded,
            _ => Manner::Ordinary,
        }
    }
}

impl Access {
    /// Whether it is a store that nobody saw. Samples are of functions that were seen running, whatever their names.
    pub(crate) fn is_concluded_store(&self) -> bool {
        self.manner == Manner::Concluded && self.op_type == OpType::Store && self.basis == Basis::Exact
    }

    /// One past the last byte. The last byte of the 64-bit space cannot be named this way; no memory is there.
    pub(crate) fn end(&self) -> u64 {
        self.address.saturating_add(self.size_bytes)
    }
}

/// One row of `trace`, as far as the definitions of mrm-trace need it: they know addresses, not ranges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressAccess {
    pub(crate) timestamp_ns: u64,
    pub(crate) address: u64,
    pub(crate) region_id: u64,
    pub(crate) region_type: TypeIndex,
    pub(crate) op_type: OpType,
}

impl From<&Access> for AddressAccess {
    fn from(access: &Access) -> Self {
        Self {
            timestamp_ns: access.timestamp_ns,
            address: access.address,
            region_id: access.region_id,
            region_type: access.region_type,
            op_type: access.op_type,
        }
    }
}

/// The columns of one batch of `trace`.
pub(crate) struct TraceBatch {
    timestamps_ns: ScalarBuffer<u64>,
    addresses: ScalarBuffer<u64>,
    region_ids: ScalarBuffer<u64>,
    op_types: Vec<OpType>,
    region_types: Vec<TypeIndex>,
    /// Absent from files of mrm-trace, whose samples say an address only.
    sizes: Option<ScalarBuffer<u64>>,
    sample_ids: Option<Numbers>,
    steps: Option<Numbers>,
    periods: Option<ScalarBuffer<u64>>,
    is_page_granular: Option<Vec<bool>>,
    manners: Option<Vec<Manner>>,
}

impl TraceBatch {
    /// Finds and checks the columns.
    pub(crate) fn new(batch: &RecordBatch, names: &mut RegionTypeNames) -> Result<Self, AnalysisError> {
        let required = |column| required(batch, TRACE, column);
        let number =
            |column| -> Result<_, AnalysisError> { Numbers::new(required(column)?, column)?.without_nulls(column) };
        let optional_number = |column| -> Result<_, AnalysisError> {
            batch.column_by_name(column).map(|array| Numbers::new(array, column)?.without_nulls(column)).transpose()
        };
        let periods = optional_number("period")?;
        // Whether rows are of whole pages matters only where some are no samples.
        let has_unsampled_rows = periods.as_ref().is_some_and(|periods| periods.contains(&UNSAMPLED_PERIOD));
        Ok(Self {
            timestamps_ns: number("timestamp_ns")?,
            addresses: number("address")?,
            region_ids: number("region_id")?,
            op_types: texts(required("op_type")?, "op_type", op_type)?,
            region_types: texts(required("region_type")?, "region_type", |name| names.intern(name))?,
            sizes: optional_number("size_bytes")?,
            sample_ids: batch.column_by_name("sample_id").map(|array| Numbers::new(array, "sample_id")).transpose()?,
            steps: batch.column_by_name("step").map(|array| Numbers::new(array, "step")).transpose()?,
            periods,
            is_page_granular: batch
                .column_by_name("source")
                .filter(|_| has_unsampled_rows)
                .map(|array| texts(array, "source", |name| Ok(name == Some(PAGE_SOURCE))))
                .transpose()?,
            // A column of that name that is no text comes from elsewhere, and names no function that is known here.
            manners: batch
                .column_by_name("symbol")
                .and_then(|array| texts(array, "symbol", |name| Ok(Manner::of(name))).ok()),
        })
    }

    pub(crate) fn rows(&self) -> usize {
        self.timestamps_ns.len()
    }

    /// One row of the batch.
    #[inline]
    pub(crate) fn access(&self, row: usize) -> Access {
        Access {
            timestamp_ns: self.timestamps_ns[row],
            address: self.addresses[row],
            size_bytes: self.sizes.as_ref().map_or(1, |sizes| sizes[row]),
            region_id: self.region_ids[row],
            step: self.steps.as_ref().and_then(|steps| steps.get(row)).and_then(|step| u32::try_from(step).ok()),
            region_type: self.region_types[row],
            op_type: self.op_types[row],
            basis: self.basis(row),
            period: self.periods.as_ref().map_or(0, |periods| u32::try_from(periods[row]).unwrap_or(u32::MAX)),
            manner: self.manners.as_ref().map_or(Manner::Ordinary, |manners| manners[row]),
        }
    }

    /// All rows, without what the definitions of mrm-trace do not use.
    pub(crate) fn address_accesses(&self) -> impl Iterator<Item = AddressAccess> + Clone {
        // Zipped, so that no row checks that it is in each of the columns.
        let when_and_where = self.timestamps_ns.iter().zip(&*self.addresses).zip(&*self.region_ids);
        when_and_where.zip(&self.region_types).zip(&self.op_types).map(
            |((((&timestamp_ns, &address), &region_id), &region_type), &op_type)| AddressAccess {
                timestamp_ns,
                address,
                region_id,
                region_type,
                op_type,
            },
        )
    }

    /// That no row covers more than so many bytes.
    pub(crate) fn ensure_sizes(&self, limit_bytes: u64) -> Result<(), AnalysisError> {
        let sizes = self.sizes.as_deref().unwrap_or_default();
        match sizes.iter().position(|size| *size > limit_bytes) {
            Some(row) => Err(AnalysisError::RowTooLarge { row, size_bytes: sizes[row], limit_bytes }),
            None => Ok(()),
        }
    }

    pub(crate) fn timestamps_ns(&self) -> &[u64] {
        &self.timestamps_ns
    }

    /// The weakest basis of any row; that of exact rows without any.
    pub(crate) fn weakest_basis(&self) -> Basis {
        let mut weakest = Basis::Exact;
        for row in 0..self.rows() {
            weakest = weakest.max(self.basis(row));
            // No row is weaker.
            if weakest == Basis::Sampled {
                break;
            }
        }
        weakest
    }

    /// Which row of its trace it is, where the batch says so.
    pub(crate) fn sample_id(&self, row: usize) -> Option<u64> {
        self.sample_ids.as_ref().and_then(|sample_ids| sample_ids.get(row))
    }

    fn basis(&self, row: usize) -> Basis {
        // Without a period nobody says that every access was seen.
        if self.periods.as_ref().is_none_or(|periods| periods[row] != UNSAMPLED_PERIOD) {
            return Basis::Sampled;
        }
        match &self.is_page_granular {
            Some(is_page_granular) if is_page_granular[row] => Basis::Page,
            _ => Basis::Exact,
        }
    }
}

/// One row of `kv_block_lifecycle`, as far as the metrics need it.
#[derive(Clone, Debug)]
pub(crate) struct BlockLife {
    pub(crate) address: u64,
    pub(crate) write_ns: u64,
    pub(crate) last_read_ns: Option<u64>,
    /// None if it stayed until the end.
    pub(crate) evict_ns: Option<u64>,
    pub(crate) reads: u64,
    pub(crate) bytes: u64,
    /// Layer and whether it is a key; none where the table does not say.
    pub(crate) tensor: Option<(u64, bool)>,
    /// It was written by another process, before it was forked; that store was not one to these addresses.
    pub(crate) is_inherited: bool,
    pub(crate) basis: Basis,
}

/// The columns of one batch of `kv_block_lifecycle`.
pub(crate) struct LifecycleBatch {
    addresses: ScalarBuffer<u64>,
    writes_ns: ScalarBuffer<u64>,
    last_reads_ns: Numbers,
    evictions_ns: Numbers,
    reads: ScalarBuffer<u64>,
    /// Absent from files of mrm-trace, whose blocks are pages.
    bytes: Option<ScalarBuffer<u64>>,
    layers: Option<Numbers>,
    is_key: Option<Vec<bool>>,
    /// Absent from files of mrm-trace and of dwell 0.1.
    is_inherited: Option<Vec<bool>>,
}

impl LifecycleBatch {
    /// Whether accesses are ones to the blocks: those that a server published have no addresses.
    pub(crate) fn has_addresses(batch: &RecordBatch) -> Result<bool, AnalysisError> {
        let rows = batch.num_rows();
        Ok(rows == 0 || required(batch, LIFECYCLE, "address")?.null_count() < rows)
    }

    /// Finds and checks the columns.
    pub(crate) fn new(batch: &RecordBatch) -> Result<Self, AnalysisError> {
        let numbers = |column| Numbers::new(required(batch, LIFECYCLE, column)?, column);
        let optional = |column| -> Result<_, AnalysisError> {
            // A column without any value says as little as none.
            let stated = batch.column_by_name(column).filter(|array| array.null_count() < array.len());
            stated.map(|array| Numbers::new(array, column)?.without_nulls(column)).transpose()
        };
        Ok(Self {
            addresses: numbers("address")?.without_nulls("address")?,
            writes_ns: numbers("write_ns")?.without_nulls("write_ns")?,
            last_reads_ns: numbers("last_read_ns")?,
            evictions_ns: numbers("evict_ns")?,
            reads: numbers("total_reads")?.without_nulls("total_reads")?,
            bytes: optional("bytes")?,
            layers: batch.column_by_name("layer").map(|array| Numbers::new(array, "layer")).transpose()?,
            is_key: batch
                .column_by_name("kind")
                .map(|array| texts(array, "kind", |kind| Ok(kind == Some("k"))))
                .transpose()?,
            is_inherited: batch
                .column_by_name("begin_cause")
                .map(|array| texts(array, "begin_cause", |cause| Ok(cause == Some(BeginCause::Inherited.name()))))
                .transpose()?,
        })
    }

    pub(crate) fn rows(&self) -> usize {
        self.addresses.len()
    }

    /// One row of the batch.
    pub(crate) fn life(&self, row: usize) -> BlockLife {
        let layer = self.layers.as_ref().and_then(|layers| layers.get(row));
        let is_key = self.is_key.as_ref().map(|is_key| is_key[row]);
        BlockLife {
            address: self.addresses[row],
            write_ns: self.writes_ns[row],
            last_read_ns: self.last_reads_ns.get(row),
            evict_ns: self.evictions_ns.get(row),
            reads: self.reads[row],
            bytes: self.bytes.as_ref().map_or(1, |bytes| bytes[row]),
            tensor: layer.zip(is_key),
            is_inherited: self.is_inherited.as_ref().is_some_and(|is_inherited| is_inherited[row]),
            basis: if self.bytes.is_some() { Basis::Exact } else { Basis::Page },
        }
    }
}

fn op_type(name: Option<&str>) -> Result<OpType, AnalysisError> {
    match name {
        Some("load") => Ok(OpType::Load),
        Some("store") => Ok(OpType::Store),
        other => Err(AnalysisError::UnknownOperation { value: other.unwrap_or("null").to_owned() }),
    }
}
