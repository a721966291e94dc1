//! A batch read back: everything but its payloads.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray, RecordBatch, StringArray};
use arrow_buffer::Buffer;
use arrow_ipc::reader::read_record_batch;
use arrow_ipc::{MessageHeader, root_as_message};
use dwell_codec::{Codec, DType, Encoded};
use dwell_files::arrow_framing::PREFIX_BYTES;
use dwell_files::fenced;

use super::row::{DROPPED, Row, TENSOR, TOKEN};
use super::schema::{Column, ContainerVersion};
use super::{MAX_BATCH_ROWS, MAX_DIMENSIONS, MAX_TEXT_BYTES, PAGE_BYTES, is_sealed};
use crate::{TensorHead, TokenMark};

/// Places of the payload column in the list of buffers.
const PAYLOAD_OFFSETS_BUFFER: usize = 30;
const PAYLOAD_BUFFER: usize = PAYLOAD_OFFSETS_BUFFER + 1;
/// The most that small columns can take: a name, a text, a shape and numbers in every row.
const MAX_COLUMNS_BYTES: usize = MAX_BATCH_ROWS * (2 * MAX_TEXT_BYTES + 8 * MAX_DIMENSIONS + 512);

/// Lengths of a batch's parts, from its metadata.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchLayout {
    /// Bytes of prefix and metadata.
    pub(super) message_bytes: usize,
    /// Bytes of the small columns, which follow.
    pub(super) columns_bytes: usize,
    /// Bytes of all payloads, which follow those.
    pub(super) payload_bytes: u64,
    /// Bytes of the whole batch in the file.
    pub(super) bytes: u64,
}

impl BatchLayout {
    /// The layout of the batch that begins with `message`, prefix and metadata. The error says why it is none.
    pub(super) fn of(message: &[u8]) -> Result<Self, String> {
        let metadata = message.get(PREFIX_BYTES as usize..).unwrap_or_default();
        let parsed = root_as_message(metadata).map_err(|error| format!("metadata that is none ({error})"))?;
        if parsed.header_type() != MessageHeader::RecordBatch {
            return Err(format!("a message of type {:?}", parsed.header_type()));
        }
        let batch = parsed.header_as_record_batch().ok_or("a batch without content")?;
        let buffers = batch.buffers().ok_or("a batch without buffers")?;
        if buffers.len() <= PAYLOAD_BUFFER {
            return Err(format!("a batch of {} buffers", buffers.len()));
        }
        let payload = buffers.get(PAYLOAD_BUFFER);
        let misfit = || format!("payloads at {}+{} of {}", payload.offset(), payload.length(), parsed.bodyLength());
        let columns_bytes = usize::try_from(payload.offset()).map_err(|_| misfit())?;
        let payload_bytes = u64::try_from(payload.length()).map_err(|_| misfit())?;
        let body_bytes = u64::try_from(parsed.bodyLength()).map_err(|_| misfit())?;
        let is_inside = (columns_bytes as u64).checked_add(payload_bytes).is_some_and(|end| end <= body_bytes);
        let bytes = body_bytes.checked_add(message.len() as u64).filter(|_| is_inside).ok_or_else(misfit)?;
        if columns_bytes > MAX_COLUMNS_BYTES {
            return Err(format!("small columns of {columns_bytes} bytes"));
        }
        if bytes % PAGE_BYTES as u64 != 0 {
            return Err(format!("a batch of {bytes} bytes, which is no multiple of {PAGE_BYTES}"));
        }
        let layout = Self { message_bytes: message.len(), columns_bytes, payload_bytes, bytes };
        let padding_bytes = bytes - layout.head_bytes() - payload_bytes;
        if padding_bytes >= PAGE_BYTES as u64 {
            return Err(format!("a batch with {padding_bytes} bytes behind its payloads"));
        }
        Ok(layout)
    }

    /// Bytes before the payloads.
    pub(super) fn head_bytes(&self) -> u64 {
        (self.message_bytes + self.columns_bytes) as u64
    }
}

/// The rows of the batch that begins with `message` and whose small columns are `columns`.
pub(super) fn rows_of(
    message: &[u8],
    columns: Vec<u8>,
    layout: &BatchLayout,
    version: ContainerVersion,
) -> Result<Vec<Row>, String> {
    if !is_sealed(message, &columns) {
        return Err("a checksum that does not fit".to_owned());
    }
    let offsets = payload_offsets(message, &columns, layout)?;
    let batch = decode(message, columns, version)?;
    if offsets.len() != batch.num_rows() + 1 {
        return Err(format!("{} payload offsets for {} rows", offsets.len(), batch.num_rows()));
    }
    let cells = Cells(&batch);
    offsets.windows(2).enumerate().map(|(row, ends)| cells.row(row, ends[1] - ends[0])).collect()
}

/// Where each payload begins, and where the last one ends, from the beginning of the payloads.
fn payload_offsets(message: &[u8], columns: &[u8], layout: &BatchLayout) -> Result<Vec<u64>, String> {
    let parsed = root_as_message(message.get(PREFIX_BYTES as usize..).unwrap_or_default());
    let parsed = parsed.map_err(|error| error.to_string())?;
    let batch = parsed.header_as_record_batch().ok_or("a batch without content")?;
    let buffer = batch.buffers().ok_or("a batch without buffers")?.get(PAYLOAD_OFFSETS_BUFFER);
    let range = usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
    let bytes = range.and_then(|(start, length)| columns.get(start..start.checked_add(length)?));
    let offsets: Vec<_> = bytes.ok_or("payload offsets outside of the batch")?.as_chunks().0.iter().collect();
    let offsets: Vec<u64> = offsets.into_iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    let ends_fit = offsets.first() == Some(&0) && offsets.last() == Some(&layout.payload_bytes);
    if ends_fit && offsets.is_sorted() { Ok(offsets) } else { Err("payload offsets that do not fit".to_owned()) }
}

/// The batch without its payloads, which are not in `columns`.
fn decode(message: &[u8], columns: Vec<u8>, version: ContainerVersion) -> Result<RecordBatch, String> {
    let parsed = root_as_message(message.get(PREFIX_BYTES as usize..).unwrap_or_default());
    let parsed = parsed.map_err(|error| error.to_string())?;
    let batch = parsed.header_as_record_batch().ok_or("a batch without content")?;
    check_buffers(&batch, columns.len())?;
    let body = Buffer::from_vec(columns);
    let schema = version.schema();
    let others: Vec<usize> = (0..schema.fields().len()).filter(|column| *column != Column::Payload as usize).collect();
    let read = || {
        let dictionaries = Default::default();
        read_record_batch(&body, batch, schema.clone(), &dictionaries, Some(&others), &parsed.version())
    };
    fenced(read)?.map_err(|error| error.to_string())
}

/// Every buffer but the payloads' must lie in the small columns; `arrow_ipc` takes that for granted.
fn check_buffers(batch: &arrow_ipc::RecordBatch<'_>, columns_bytes: usize) -> Result<(), String> {
    if batch.compression().is_some() {
        return Err("a compressed batch".to_owned());
    }
    if !(0..=MAX_BATCH_ROWS as i64).contains(&batch.length()) {
        return Err(format!("a batch of {} rows", batch.length()));
    }
    for (place, buffer) in batch.buffers().ok_or("a batch without buffers")?.iter().enumerate() {
        let end = usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let end = end.and_then(|(offset, length)| offset.checked_add(length));
        if place != PAYLOAD_BUFFER && end.is_none_or(|end| end > columns_bytes) {
            return Err(format!("a buffer at {}+{} of {columns_bytes}", buffer.offset(), buffer.length()));
        }
    }
    for node in batch.nodes().ok_or("a batch without columns")? {
        let length_max = batch.length() * MAX_DIMENSIONS as i64;
        if !(0..=length_max).contains(&node.length()) || !(0..=node.length()).contains(&node.null_count()) {
            return Err(format!("a column of {} rows with {} nulls", node.length(), node.null_count()));
        }
    }
    Ok(())
}

/// The cells of a batch that has every column but the payload.
struct Cells<'a>(&'a RecordBatch);

impl Cells<'_> {
    fn row(&self, row: usize, payload_bytes: u64) -> Result<Row, String> {
        match self.text(Column::Record, row) {
            Some(TENSOR) => self.tensor(row, payload_bytes),
            _ if payload_bytes != 0 => Err("a payload in a row that is no tensor".to_owned()),
            Some(TOKEN) => self.token(row).map(Row::Token).ok_or_else(|| "a token without its cells".to_owned()),
            Some(DROPPED) => self.dropped(row).ok_or_else(|| "a count of drops without its cells".to_owned()),
            other => Err(format!("a row of kind {other:?}")),
        }
    }

    fn tensor(&self, row: usize, payload_bytes: u64) -> Result<Row, String> {
        let dtype = self.text(Column::DType, row).ok_or("a tensor without a type")?;
        let dtype: DType = dtype.parse().map_err(|error| format!("{error}"))?;
        let codec = self.text(Column::Codec, row).ok_or("a tensor without a codec")?;
        let codec: Codec = codec.parse().map_err(|error| format!("{error}"))?;
        let encoded = Encoded {
            codec,
            bound: self.number::<Float64Type>(Column::Bound, row),
            max_error: self.number::<Float64Type>(Column::MaxError, row),
            mse: self.number::<Float64Type>(Column::Mse, row),
            min_cosine: self.number::<Float64Type>(Column::MinCosine, row),
        };
        let crc32c = self.number::<UInt32Type>(Column::Crc32c, row).ok_or("a tensor without a checksum")?;
        let packet = self.number::<UInt64Type>(Column::Packet, row).ok_or("a tensor without a number")?;
        let head = self.head(row, dtype).ok_or("a tensor without its cells")?;
        if head.raw_bytes() != self.number::<UInt64Type>(Column::RawBytes, row) {
            return Err(format!("a tensor of {dtype} {:?} with another number of bytes", head.shape));
        }
        Ok(Row::Tensor { packet, head, encoded, crc32c, payload_bytes })
    }

    fn head(&self, row: usize, dtype: DType) -> Option<TensorHead> {
        Some(TensorHead {
            name: self.text(Column::Name, row)?.to_owned(),
            layer: self.number::<Int32Type>(Column::Layer, row),
            step: self.number::<UInt64Type>(Column::Step, row)?,
            token_index: self.number::<UInt64Type>(Column::TokenIndex, row),
            timestamp_ns: self.number::<Int64Type>(Column::TimestampNs, row)?,
            dtype,
            shape: self.shape(row)?,
        })
    }

    fn token(&self, row: usize) -> Option<TokenMark> {
        Some(TokenMark {
            token_index: self.number::<UInt64Type>(Column::TokenIndex, row)?,
            token_id: self.number::<Int64Type>(Column::TokenId, row)?,
            token_text: self.text(Column::TokenText, row)?.to_owned(),
            packet: self.number::<UInt64Type>(Column::Packet, row)?,
            timestamp_ns: self.number::<Int64Type>(Column::TimestampNs, row)?,
        })
    }

    fn dropped(&self, row: usize) -> Option<Row> {
        Some(Row::Dropped {
            name: self.text(Column::Name, row)?.to_owned(),
            packet: self.number::<UInt64Type>(Column::Packet, row)?,
            count: self.number::<UInt64Type>(Column::Dropped, row)?,
            raw_bytes: self.number::<UInt64Type>(Column::RawBytes, row)?,
            timestamp_ns: self.number::<Int64Type>(Column::TimestampNs, row)?,
            step: self.number::<UInt64Type>(Column::Step, row)?,
        })
    }

    /// `None` for a column that the stream's version has not.
    fn array(&self, column: Column) -> Option<&dyn Array> {
        // The payload is left out, so the columns after it are one place further to the front.
        let place = column as usize - usize::from(column as usize > Column::Payload as usize);
        self.0.columns().get(place).map(AsRef::as_ref)
    }

    fn number<T: ArrowPrimitiveType>(&self, column: Column, row: usize) -> Option<T::Native> {
        let array: &PrimitiveArray<T> = self.array(column)?.as_primitive_opt()?;
        array.is_valid(row).then(|| array.value(row))
    }

    fn text(&self, column: Column, row: usize) -> Option<&str> {
        let array: &StringArray = self.array(column)?.as_string_opt()?;
        array.is_valid(row).then(|| array.value(row)).filter(|text| text.len() <= MAX_TEXT_BYTES)
    }

    fn shape(&self, row: usize) -> Option<Vec<u64>> {
        let lists = self.array(Column::Shape)?.as_list_opt::<i32>()?;
        let list = lists.is_valid(row).then(|| lists.value(row)).filter(|list| list.len() <= MAX_DIMENSIONS)?;
        let lengths: &PrimitiveArray<UInt64Type> = list.as_primitive_opt()?;
        (lengths.null_count() == 0).then(|| lengths.values().to_vec())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;
    use crate::container::schema::SCHEMA;
    use arrow_schema::DataType;

    #[test]
    fn the_payload_has_the_buffers_that_are_counted_for_it() {
        let buffers = |data_type: &DataType| match data_type {
            DataType::Utf8 | DataType::LargeBinary => 3,
            DataType::List(_) => 4,
            _ => 2,
        };
        let before: usize = SCHEMA.fields()[..Column::Payload as usize].iter().map(|f| buffers(f.data_type())).sum();
        assert_eq!(SCHEMA.fields()[Column::Payload as usize].name(), "payload");
        assert_eq!(before + 2, PAYLOAD_BUFFER);
    }
}
