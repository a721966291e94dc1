//! A stream read from its beginning, batch by batch, without its payloads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use dwell_files::arrow_framing::{END_OF_STREAM, PREFIX_BYTES};

use super::batch::{BatchLayout, rows_of};
use super::index::IndexBuilder;
use super::row::Row;
use super::schema::{ContainerVersion, metadata_bytes};

/// The longest metadata of a batch that is read; it has the same columns always.
const MAX_METADATA_BYTES: usize = 64 << 10;

/// How far a stream could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScanEnd {
    /// To the end-of-stream marker.
    Marked,
    /// To the end of the file, which is the end of a batch.
    Open,
    /// To bytes that are no whole batch, for this reason.
    Damaged(String),
}

/// What the batches of a stream hold.
pub(crate) struct Scan {
    pub(crate) index: IndexBuilder,
    /// End of the last whole batch.
    pub(crate) whole_bytes: u64,
    pub(crate) end: ScanEnd,
}

/// One place of a stream.
enum Found {
    Batch { rows: Vec<Row>, layout: BatchLayout },
    End(ScanEnd),
}

/// Reads every whole batch of a file of `file_bytes` from `start` on, the end of its schema. Payloads are not looked
/// at.
pub(crate) fn scan(file: &File, start: u64, file_bytes: u64, version: ContainerVersion) -> io::Result<Scan> {
    let mut scan = Scan { index: IndexBuilder::default(), whole_bytes: start, end: ScanEnd::Open };
    loop {
        match look(file, scan.whole_bytes, file_bytes, version)? {
            Found::Batch { rows, layout } => {
                scan.index.add_span(&rows, scan.whole_bytes, layout.head_bytes(), layout.bytes);
                scan.whole_bytes += layout.bytes;
            }
            Found::End(end) => {
                scan.end = end;
                return Ok(scan);
            }
        }
    }
}

fn look(file: &File, offset: u64, file_bytes: u64, version: ContainerVersion) -> io::Result<Found> {
    let damaged = |reason: String| Ok(Found::End(ScanEnd::Damaged(reason)));
    let left_bytes = file_bytes - offset;
    if left_bytes == 0 {
        return Ok(Found::End(ScanEnd::Open));
    }
    if left_bytes < PREFIX_BYTES {
        return damaged(format!("{left_bytes} bytes of a batch"));
    }
    let prefix = read_at(file, offset, PREFIX_BYTES as usize)?;
    if prefix == END_OF_STREAM {
        return Ok(Found::End(ScanEnd::Marked));
    }
    let Some(metadata) = metadata_bytes(&prefix).filter(|length| *length <= MAX_METADATA_BYTES) else {
        return damaged("bytes that are no batch".to_owned());
    };
    let message_bytes = PREFIX_BYTES as usize + metadata;
    if message_bytes as u64 > left_bytes {
        return damaged(format!("{left_bytes} bytes of a batch"));
    }
    let message = read_at(file, offset, message_bytes)?;
    let layout = match BatchLayout::of(&message) {
        Ok(layout) => layout,
        Err(reason) => return damaged(reason),
    };
    if layout.bytes > left_bytes {
        return damaged(format!("{left_bytes} bytes of a batch of {}", layout.bytes));
    }
    let columns = read_at(file, offset + message_bytes as u64, layout.columns_bytes)?;
    match rows_of(&message, columns, &layout, version) {
        Ok(rows) => Ok(Found::Batch { rows, layout }),
        Err(reason) => damaged(reason),
    }
}

/// Bytes of a file; callers have checked that they are there.
pub(crate) fn read_at(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}
