//! Writing a table as Parquet.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use dwell_events::schema::Table;
use dwell_events::{Basis, SCHEMA_VERSION};
use dwell_files::{StagedFile, publish_durably};
use parquet::arrow::ArrowSchemaConverter;
use parquet::basic::Compression as Codec;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;

use crate::compression::{codec, codec_of_samples};
use crate::number_column::Sequence;
use crate::row_group::RowGroup;
use crate::table_layout::{ROW_GROUP_ROWS, writer_properties};
use crate::{Compression, StoreError};

/// Encoded bytes of a row group at which it is written although it has room for more rows.
const ROW_GROUP_LIMIT_BYTES: usize = 32 << 20;

const CREATING: &str = "creating a table";
const WRITING: &str = "writing a table";

/// Writes one table. Until [`TableWriter::finish`] it is a [staged file](StagedFile), which no reader sees and which is gone if
/// the table is given up.
///
/// Memory is bounded by one row group, however many rows are written.
pub struct TableWriter {
    writer: SerializedFileWriter<File>,
    group: RowGroup,
    schema: SchemaRef,
    target: PathBuf,
    staged: StagedFile,
    rows: u64,
}

impl TableWriter {
    /// Begins the table, compressed with zstd; one of the same name is replaced when this one is finished.
    pub fn create(dir: &Path, table: Table) -> Result<Self, StoreError> {
        Self::create_with(dir, table, Compression::default())
    }

    /// The same for rows that were obtained so: sampled ones repeat no order of addresses, which decides how these are stored.
    pub fn create_of(dir: &Path, table: Table, basis: Basis) -> Result<Self, StoreError> {
        let (addresses, codec) = match basis {
            Basis::Sampled => (Sequence::Differs, codec_of_samples()),
            _ => (Sequence::Repeats, codec(Compression::default())),
        };
        let target = dir.join(table.file_name());
        Self::begin(&target, table.schema(), Some(SCHEMA_VERSION), codec, addresses)
    }

    /// The same with a chosen compression.
    pub fn create_with(dir: &Path, table: Table, compression: Compression) -> Result<Self, StoreError> {
        Self::create_file(&dir.join(table.file_name()), table, compression)
    }

    /// The same in a file of any name.
    pub fn create_file(target: &Path, table: Table, compression: Compression) -> Result<Self, StoreError> {
        let codec = codec(compression);
        Self::begin(target, table.schema(), Some(SCHEMA_VERSION), codec, Sequence::Repeats)
    }

    /// The same with columns, version and compression of another file.
    pub(crate) fn create_like(
        target: &Path,
        schema: SchemaRef,
        version: Option<&str>,
        codec: Codec,
    ) -> Result<Self, StoreError> {
        Self::begin(target, schema, version, codec, Sequence::Repeats)
    }

    fn begin(
        target: &Path,
        schema: SchemaRef,
        version: Option<&str>,
        codec: Codec,
        addresses: Sequence,
    ) -> Result<Self, StoreError> {
        let begun = StagedFile::create(target).and_then(|staged| Ok((staged.file().try_clone()?, staged)));
        let (file, staged) = begun.map_err(|error| StoreError::from_io(CREATING, target, error))?;
        let failed = |error| StoreError::from_parquet(CREATING, target, error);
        // The Arrow schema is not put into the metadata: it would make pandas read text as categoricals.
        let columns = ArrowSchemaConverter::new().convert(&schema).map_err(failed)?.root_schema_ptr();
        let properties = Arc::new(writer_properties(&schema, version, codec));
        let writer = SerializedFileWriter::new(file, columns, properties).map_err(failed)?;
        let group = RowGroup::new(&writer, schema.clone(), addresses);
        Ok(Self { writer, group, schema, target: target.to_path_buf(), staged, rows: 0 })
    }

    /// Adds an entry to the metadata of the file.
    pub fn note(&mut self, key: &str, value: &str) {
        self.writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value.to_owned()));
    }

    /// Adds rows; the batch must have the table's columns.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), StoreError> {
        if batch.schema_ref().fields() != self.schema.fields() {
            let reason = "its columns are not those of the table".to_owned();
            return Err(StoreError::UnfitBatch { action: WRITING, reason, path: self.target.clone() });
        }
        self.append(batch).map_err(|error| StoreError::from_parquet(WRITING, &self.target, error))?;
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    fn append(&mut self, batch: &RecordBatch) -> Result<(), ParquetError> {
        let mut begin = 0;
        while begin < batch.num_rows() {
            let rows = (batch.num_rows() - begin).min(ROW_GROUP_ROWS - self.group.rows());
            self.group.write(&batch.slice(begin, rows))?;
            begin += rows;
            if self.group.rows() == ROW_GROUP_ROWS || self.group.encoded_bytes() > ROW_GROUP_LIMIT_BYTES {
                self.group.flush(&mut self.writer)?;
            }
        }
        Ok(())
    }

    /// Rows written so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes the footer, waits for the disk, and gives the table its name. Returns the number of rows.
    pub fn finish(self) -> Result<u64, StoreError> {
        let file = ended(self.writer, self.group, &self.target)?;
        file.sync_all().map_err(|error| StoreError::from_io("syncing a table", &self.target, error))?;
        publish_durably(self.staged, &self.target)?;
        Ok(self.rows)
    }

    /// The same without waiting: for a table in a folder that is [synced as a whole](dwell_files::sync_file_system).
    pub(crate) fn finish_unsynced(self) -> Result<u64, StoreError> {
        ended(self.writer, self.group, &self.target)?;
        let published = self.staged.publish();
        published.map_err(|error| StoreError::from_io("giving a table its name", &self.target, error))?;
        Ok(self.rows)
    }
}

/// Writes the rows that are left, and the footer.
fn ended(mut writer: SerializedFileWriter<File>, mut group: RowGroup, target: &Path) -> Result<File, StoreError> {
    let written = group.flush(&mut writer).and_then(|()| writer.into_inner());
    written.map_err(|error| StoreError::from_parquet(WRITING, target, error))
}
