//! The file in which a part of an analysis crosses to another process or machine.
//!
//! ```text
//! 8 bytes  mark
//! 4 bytes  version of the format, little-endian
//! 4 bytes  CRC-32C of all that follows, little-endian
//!          what tells the run from others, then what the part concluded: postcard
//! ```

use std::io::Read;
use std::path::Path;

use dwell_analysis::ConcludedPart;
use dwell_events::schema::Table;
use dwell_files::{FileError, open_ordinary, read_at_most, write_bytes_atomically};
use dwell_store::{RunDir, table_extent};
use serde::{Deserialize, Serialize};

use crate::{MetricsError, failed};

const MARK: &[u8; 8] = b"DWELLPRT";

/// To be raised with every change of what parts conclude: only the version that wrote a file reads it.
const VERSION: u32 = 1;

const HEAD_BYTES: usize = 16;

/// Bytes of a file at most. By the definitions of mrm-trace a part holds every distinct interval; a billion of them fit.
const FILE_BYTES_MAX: u64 = 8 << 30;

/// What tells a run from others, wherever it is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartIdentity {
    /// Size, rows and digest of `trace.parquet`.
    trace: TableIdentity,
    /// The same of `kv_block_lifecycle.parquet`, if there is one.
    blocks: Option<TableIdentity>,
    /// Name of the run's folder; only said to people, because the same run may have another one elsewhere.
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TableIdentity {
    file_bytes: u64,
    rows: u64,
    footer_sha256: [u8; 32],
}

impl PartIdentity {
    pub(crate) fn of(run: &RunDir) -> Result<Self, MetricsError> {
        let identity = |table| -> Result<TableIdentity, MetricsError> {
            let extent = table_extent(run.path(), table, &[])?;
            Ok(TableIdentity { file_bytes: extent.file_bytes, rows: extent.rows, footer_sha256: extent.footer_sha256 })
        };
        let has_blocks = run.table(Table::KvBlockLifecycle).exists();
        let name = run.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let blocks = has_blocks.then(|| identity(Table::KvBlockLifecycle)).transpose()?;
        Ok(Self { trace: identity(Table::Trace)?, blocks, name })
    }

    fn is_same_run(&self, other: &Self) -> bool {
        (&self.trace, &self.blocks) == (&other.trace, &other.blocks)
    }
}

/// Writes what a part of a run concluded; the file appears whole or not at all.
pub fn write_part(run: &RunDir, part: &ConcludedPart, file: &Path) -> Result<(), MetricsError> {
    let unwritten = |error: postcard::Error| MetricsError::Analysis {
        run: run.path().to_owned(),
        reason: format!("writing a part: {error}"),
    };
    let mut body = postcard::to_allocvec(&PartIdentity::of(run)?).map_err(unwritten)?;
    body.extend(part.to_bytes().map_err(failed(run))?);
    let mut bytes = Vec::with_capacity(HEAD_BYTES + body.len());
    bytes.extend(MARK);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(crc32c::crc32c(&body).to_le_bytes());
    bytes.extend(body);
    Ok(write_bytes_atomically(file, &bytes)?)
}

/// Whether a file says of itself that it is a part of an analysis.
pub fn is_part_file(file: &Path) -> bool {
    let mut mark = [0; MARK.len()];
    let opened = open_ordinary(file).and_then(|mut opened| opened.read_exact(&mut mark));
    opened.is_ok() && mark == *MARK
}

/// Reads what a part of any run concluded.
pub fn read_part(file: &Path) -> Result<ConcludedPart, MetricsError> {
    Ok(read(file)?.1)
}

/// Reads what a part of this run concluded.
pub(crate) fn read_part_of(file: &Path, identity: &PartIdentity) -> Result<ConcludedPart, MetricsError> {
    let (found, part) = read(file)?;
    if found.is_same_run(identity) {
        return Ok(part);
    }
    let difference = format!(
        "a part of {:?}, whose trace.parquet has {} bytes and {} rows; that of {:?} has {} bytes and {} rows",
        found.name,
        found.trace.file_bytes,
        found.trace.rows,
        identity.name,
        identity.trace.file_bytes,
        identity.trace.rows
    );
    Err(MetricsError::ForeignPart { difference, path: file.to_owned() })
}

fn read(file: &Path) -> Result<(PartIdentity, ConcludedPart), MetricsError> {
    const READING: &str = "reading a part of an analysis";
    let bytes = read_at_most(file, FILE_BYTES_MAX).map_err(|error| FileError::from_io(READING, file, error))?;
    let damaged = |reason: String| MetricsError::DamagedPart { reason, path: file.to_owned() };
    let body = checked_body(&bytes).map_err(damaged)?;
    let (identity, rest) =
        postcard::take_from_bytes::<PartIdentity>(body).map_err(|error| damaged(error.to_string()))?;
    let part = ConcludedPart::from_bytes(rest).map_err(|error| damaged(error.to_string()))?;
    Ok((identity, part))
}

/// What follows a head that is right.
fn checked_body(bytes: &[u8]) -> Result<&[u8], String> {
    let Some((head, body)) = bytes.split_at_checked(HEAD_BYTES).filter(|(head, _)| head.starts_with(MARK)) else {
        return Err("it is no part of an analysis".to_owned());
    };
    let number = |from: usize| u32::from_le_bytes(std::array::from_fn(|byte| head[from + byte]));
    if number(8) != VERSION {
        return Err(format!("its version is {}, and version {VERSION} is needed", number(8)));
    }
    let (stated, found) = (number(12), crc32c::crc32c(body));
    if stated != found {
        return Err(format!("its checksum is {found:08x}, and the file states {stated:08x}"));
    }
    Ok(body)
}
