//! Reading a table from Parquet, ours or mrm-trace's.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use dwell_events::schema::Table;
use dwell_events::{SCHEMA_VERSION, SCHEMA_VERSION_KEY};
use dwell_files::{fenced, open_ordinary};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{Compression as Codec, Encoding};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};

use crate::StoreError;

/// Rows of a batch. Chosen: some hundred kilobytes of a wide table, so that a batch stays in the cache.
const BATCH_ROWS: usize = 16 * 1024;

const OPENING: &str = "opening a table";

/// Entries of a file's metadata that its writer makes itself.
const OWN_KEYS: [&str; 2] = [SCHEMA_VERSION_KEY, "ARROW:schema"];

/// Gives the rows of one table in batches.
///
/// Columns known to the table have the table's types, so text is dictionary-encoded; columns that it does not
/// know are there too, as the file has them.
pub struct TableReader {
    batches: ParquetRecordBatchReader,
    path: PathBuf,
    total_rows: u64,
    schema_version: Option<String>,
    has_failed: bool,
}

impl TableReader {
    /// Columns of the batches.
    pub fn schema(&self) -> SchemaRef {
        self.batches.schema()
    }

    /// Rows of the whole table.
    pub fn total_rows(&self) -> u64 {
        self.total_rows
    }

    /// Schema version that the file states, if it states one.
    pub fn schema_version(&self) -> Option<&str> {
        self.schema_version.as_deref()
    }

    /// That rows cannot be read, for this reason.
    pub(crate) fn damaged(&self, reason: String) -> StoreError {
        StoreError::NotParquet { action: "reading a table", reason, path: self.path.clone() }
    }
}

impl Iterator for TableReader {
    type Item = Result<RecordBatch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        // The Parquet reader would give the same error again, for ever.
        if self.has_failed {
            return None;
        }
        let batch = match fenced(|| self.batches.next()) {
            Ok(next) => next?.map_err(|error| error.to_string()),
            Err(reason) => Err(reason),
        };
        self.has_failed = batch.is_err();
        Some(batch.map_err(|reason| self.damaged(reason)))
    }
}

/// Opens a table of the run in `dir` with all of its columns.
pub fn open_table(dir: &Path, table: Table) -> Result<TableReader, StoreError> {
    let opened = OpenedTable::open(&dir.join(table.file_name()), table)?;
    opened.read(ProjectionMask::all())
}

/// Opens a table of the run in `dir` with these columns only, in the order of the file.
pub fn open_table_columns(dir: &Path, table: Table, columns: &[&str]) -> Result<TableReader, StoreError> {
    let opened = OpenedTable::open(&dir.join(table.file_name()), table)?;
    columns.iter().try_for_each(|column| opened.check_column(column))?;
    let mask = opened.mask_of(columns.iter().copied());
    opened.read(mask)
}

/// Opens a table of the run in `dir` with those of these columns that the file has, in the order of the file. A file of
/// another program may lack some.
pub fn open_table_subset(dir: &Path, table: Table, columns: &[&str]) -> Result<TableReader, StoreError> {
    open_table_groups(dir, table, columns, 0..usize::MAX)
}

/// The same with the rows of some row groups alone, as far as there are so many: which columns are needed may be known better
/// after the first of them.
pub fn open_table_groups(
    dir: &Path,
    table: Table,
    columns: &[&str],
    groups: Range<usize>,
) -> Result<TableReader, StoreError> {
    let opened = OpenedTable::open(&dir.join(table.file_name()), table)?;
    let mask = opened.mask_of(columns.iter().copied());
    let groups = (groups.start..groups.end.min(opened.row_groups().len())).collect();
    opened.read_groups(mask, groups)
}

/// A table whose footer has been read and whose version fits.
pub(crate) struct OpenedTable {
    file: File,
    path: PathBuf,
    metadata: ArrowReaderMetadata,
    schema_version: Option<String>,
}

impl OpenedTable {
    pub(crate) fn open(path: &Path, table: Table) -> Result<Self, StoreError> {
        fenced(|| Self::open_unfenced(path, table))
            .unwrap_or_else(|reason| Err(StoreError::NotParquet { action: OPENING, reason, path: path.to_path_buf() }))
    }

    fn open_unfenced(path: &Path, table: Table) -> Result<Self, StoreError> {
        let file = open_ordinary(path).map_err(|error| StoreError::from_io(OPENING, path, error))?;
        let not_parquet = |error| StoreError::from_parquet(OPENING, path, error);
        let found = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new().with_skip_arrow_metadata(true))
            .map_err(not_parquet)?;
        let schema_version = stated_version(found.metadata());
        if let Some(version) = &schema_version {
            check_major_version(version, path)?;
        }
        let wanted = with_dictionary_text(found.schema(), &table.schema());
        let options = ArrowReaderOptions::new().with_schema(wanted);
        let metadata = ArrowReaderMetadata::try_new(found.metadata().clone(), options).map_err(not_parquet)?;
        Ok(Self { file, path: path.to_path_buf(), metadata, schema_version })
    }

    /// Version of the schema that the file states.
    pub(crate) fn schema_version(&self) -> Option<&str> {
        self.schema_version.as_deref()
    }

    /// Columns in the file.
    pub(crate) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    fn check_column(&self, column: &str) -> Result<(), StoreError> {
        self.schema().index_of(column).map(|_| ()).map_err(|_| self.missing_column(column))
    }

    /// That the table lacks a column.
    pub(crate) fn missing_column(&self, column: &str) -> StoreError {
        StoreError::MissingColumn { column: column.to_owned(), path: self.path.clone() }
    }

    /// Which columns to read: those of these that there are.
    pub(crate) fn mask_of<'a>(&self, columns: impl Iterator<Item = &'a str>) -> ProjectionMask {
        let indices = columns.filter_map(|column| self.schema().index_of(column).ok());
        ProjectionMask::roots(self.metadata.parquet_schema(), indices)
    }

    /// Its row groups, in the order of the rows.
    pub(crate) fn row_groups(&self) -> &[RowGroupMetaData] {
        self.metadata.metadata().row_groups()
    }

    /// How the file is compressed; none for a file without rows.
    pub(crate) fn codec(&self) -> Option<Codec> {
        Some(self.metadata.metadata().row_groups().first()?.columns().first()?.compression())
    }

    /// Entries of the file's metadata beside the version of the schema.
    pub(crate) fn notes(&self) -> Vec<(String, String)> {
        let entries = self.metadata.metadata().file_metadata().key_value_metadata();
        let notes = entries.into_iter().flatten().filter(|entry| !OWN_KEYS.contains(&entry.key.as_str()));
        notes.filter_map(|entry| Some((entry.key.clone(), entry.value.clone()?))).collect()
    }

    pub(crate) fn read(self, mask: ProjectionMask) -> Result<TableReader, StoreError> {
        let all = (0..self.row_groups().len()).collect();
        self.read_groups(mask, all)
    }

    /// Reads the rows of some row groups.
    pub(crate) fn read_groups(self, mask: ProjectionMask, groups: Vec<usize>) -> Result<TableReader, StoreError> {
        self.read_batches(mask, groups, BATCH_ROWS)
    }

    /// The same in batches whose text takes so many bytes at most, or of one row. A few bytes of a file can be the text of
    /// every row of a batch.
    pub(crate) fn read_groups_within(
        self,
        mask: ProjectionMask,
        groups: Vec<usize>,
        text_bytes: u64,
    ) -> Result<TableReader, StoreError> {
        let texts = groups.iter().map(|&index| self.longest_text_bytes(&self.row_groups()[index], &mask));
        let rows = text_bytes / texts.max().unwrap_or(0).max(1);
        let batch_rows = usize::try_from(rows).unwrap_or(BATCH_ROWS).clamp(1, BATCH_ROWS);
        self.read_batches(mask, groups, batch_rows)
    }

    /// Bytes that the text of one row can have at most, by the sizes of the columns in a row group.
    fn longest_text_bytes(&self, group: &RowGroupMetaData, mask: &ProjectionMask) -> u64 {
        let fields = self.schema().fields().iter().zip(group.columns()).enumerate();
        // Texts with a dictionary share it in memory too.
        let texts = fields.filter(|(index, (field, _))| {
            mask.leaf_included(*index) && matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8)
        });
        let rows = group.num_rows().max(1).unsigned_abs();
        let longest = |chunk: &ColumnChunkMetaData| {
            let bytes = chunk.uncompressed_size().max(0).unsigned_abs();
            // Texts that stand one after the other are no longer than the column, all of them together.
            if is_repeating(chunk) { bytes } else { bytes.div_ceil(rows) }
        };
        texts.map(|(_, (_, chunk))| longest(chunk)).sum()
    }

    fn read_batches(
        self,
        mask: ProjectionMask,
        groups: Vec<usize>,
        batch_rows: usize,
    ) -> Result<TableReader, StoreError> {
        let total_rows = self.metadata.metadata().file_metadata().num_rows().try_into().unwrap_or(0);
        let batches = ParquetRecordBatchReaderBuilder::new_with_metadata(self.file, self.metadata)
            .with_row_groups(groups)
            .with_batch_size(batch_rows)
            .with_projection(mask)
            .build()
            .map_err(|error| StoreError::from_parquet(OPENING, &self.path, error))?;
        Ok(TableReader { batches, path: self.path, total_rows, schema_version: self.schema_version, has_failed: false })
    }
}

/// Whether a column is encoded so that a few bytes can stand for a text of many rows.
fn is_repeating(chunk: &ColumnChunkMetaData) -> bool {
    let is_plain = |encoding| matches!(encoding, Encoding::PLAIN | Encoding::RLE | Encoding::DELTA_LENGTH_BYTE_ARRAY);
    !chunk.encodings().all(is_plain)
}

/// The schema version in a Parquet footer.
pub(crate) fn stated_version(metadata: &ParquetMetaData) -> Option<String> {
    let entries = metadata.file_metadata().key_value_metadata()?;
    entries.iter().find(|entry| entry.key == SCHEMA_VERSION_KEY)?.value.clone()
}

fn check_major_version(found: &str, path: &Path) -> Result<(), StoreError> {
    let major = |version: &str| version.split('.').next().map(str::to_owned);
    if major(found) == major(SCHEMA_VERSION) {
        return Ok(());
    }
    Err(StoreError::OtherMajorVersion { found: found.to_owned(), supported: SCHEMA_VERSION, path: path.to_path_buf() })
}

/// The file's columns, with dictionary-encoded text where the table has that and the file has text.
fn with_dictionary_text(found: &Schema, table: &Schema) -> SchemaRef {
    let fields: Vec<Field> = found
        .fields()
        .iter()
        .map(|field| {
            let known = table.field_with_name(field.name()).ok().map(Field::data_type);
            match (field.data_type(), known) {
                (DataType::Utf8, Some(text @ DataType::Dictionary(_, _))) => {
                    field.as_ref().clone().with_data_type(text.clone())
                }
                _ => field.as_ref().clone(),
            }
        })
        .collect();
    Arc::new(Schema::new(fields))
}
