//! How large a table is, and what tells it from another one, without reading its rows.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use dwell_events::schema::Table;
use parquet::file::metadata::RowGroupMetaData;
use sha2::{Digest, Sha256};

use crate::StoreError;
use crate::table_reader::OpenedTable;

/// Bytes after the metadata of a Parquet file: its length and a mark.
const TAIL_BYTES: u64 = 8;

/// How large a table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableExtent {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Rows.
    pub rows: u64,
    /// Rows of each row group.
    pub group_rows: Vec<u64>,
    /// Bytes of the columns that were asked for, in the file.
    pub column_bytes: u64,
    /// The same when they are decompressed.
    pub decompressed_bytes: u64,
    /// SHA-256 of the file's metadata, which has the place, the size and the extreme values of every column and row group:
    /// another table has another one.
    pub footer_sha256: [u8; 32],
}

/// The extent of a table of the run in `dir`, with those of these columns that the file has.
pub fn table_extent(dir: &Path, table: Table, columns: &[&str]) -> Result<TableExtent, StoreError> {
    let path = dir.join(table.file_name());
    let opened = OpenedTable::open(&path, table)?;
    let mask = opened.mask_of(columns.iter().copied());
    let chunks = |group: &RowGroupMetaData| -> Vec<(u64, u64)> {
        let read = group.columns().iter().enumerate().filter(|(index, _)| mask.leaf_included(*index));
        let bytes = |bytes: i64| bytes.max(0).unsigned_abs();
        read.map(|(_, chunk)| (bytes(chunk.compressed_size()), bytes(chunk.uncompressed_size()))).collect()
    };
    let sizes: Vec<(u64, u64)> = opened.row_groups().iter().flat_map(chunks).collect();
    let group_rows: Vec<u64> = opened.row_groups().iter().map(|group| group.num_rows().max(0).unsigned_abs()).collect();
    let (file_bytes, footer_sha256) =
        footer_digest(&path).map_err(|error| StoreError::from_io("reading the end of a table", &path, error))?;
    Ok(TableExtent {
        file_bytes,
        rows: group_rows.iter().fold(0, |rows, group| rows.saturating_add(*group)),
        group_rows,
        column_bytes: sizes.iter().fold(0, |sum, (bytes, _)| sum.saturating_add(*bytes)),
        decompressed_bytes: sizes.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes)),
        footer_sha256,
    })
}

/// The size of a Parquet file, and the digest of its metadata.
fn footer_digest(path: &Path) -> io::Result<(u64, [u8; 32])> {
    let mut file = File::open(path)?;
    let file_bytes = file.metadata()?.len();
    let mut tail = [0; TAIL_BYTES as usize];
    file.seek(SeekFrom::Start(file_bytes.saturating_sub(TAIL_BYTES)))?;
    file.read_exact(&mut tail)?;
    let length = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]);
    let footer_bytes = (u64::from(length) + TAIL_BYTES).min(file_bytes);
    file.seek(SeekFrom::Start(file_bytes - footer_bytes))?;
    let mut digest = Sha256::new();
    io::copy(&mut file.take(footer_bytes), &mut HashWriter(&mut digest))?;
    Ok((file_bytes, digest.finalize().into()))
}

/// Hashes what is written to it.
struct HashWriter<'a>(&'a mut Sha256);

impl io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dwell_events::schema::trace::{TraceBuilder, TraceRow};

    use super::*;
    use crate::TableWriter;

    fn extent(address: u64, columns: &[&str]) -> TableExtent {
        let dir = tempfile::tempdir().unwrap();
        let mut table = TableWriter::create(dir.path(), Table::Trace).unwrap();
        let mut rows = TraceBuilder::new("run");
        (0..100).for_each(|row| rows.push(&TraceRow { address: address + row, ..TraceRow::EMPTY }));
        table.write(&rows.finish_batch()).unwrap();
        table.finish().unwrap();
        table_extent(dir.path(), Table::Trace, columns).unwrap()
    }

    #[test]
    fn the_extent_counts_the_columns_that_are_asked_for() {
        let (one, both) = (extent(0, &["address"]), extent(0, &["address", "timestamp_ns"]));
        assert_eq!((one.rows, one.group_rows.as_slice()), (100, &[100][..]));
        assert!(0 < one.column_bytes && one.column_bytes < both.column_bytes, "{one:?} {both:?}");
        assert!(both.column_bytes < both.file_bytes);
        assert_eq!(one.footer_sha256, both.footer_sha256, "the same table");
        assert_ne!(one.footer_sha256, extent(7, &["address"]).footer_sha256, "another one");
    }
}
