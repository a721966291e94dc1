//! A batch as it is written.

use std::borrow::Cow;

use arrow_ipc::{Buffer, MessageBuilder, MessageHeader, MetadataVersion, RecordBatchBuilder};
use flatbuffers::FlatBufferBuilder;

use super::columns::{ALIGNMENT_BYTES, Body};
use super::row::Row;
use super::schema::{ContainerVersion, message_head};
use super::{PAGE_BYTES, padding, seal};

/// Everything of a batch but its payloads: the file gets `head`, the payloads in the order of the rows, and
/// `tail_bytes` zeros.
pub(crate) struct BatchFrame {
    /// Prefix, metadata and small columns.
    pub(crate) head: Vec<u8>,
    /// Bytes of all payloads.
    pub(crate) payload_bytes: u64,
    /// Zeros up to the next page.
    pub(crate) tail_bytes: usize,
}

impl BatchFrame {
    /// Length of the batch in the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.head.len() as u64 + self.payload_bytes + self.tail_bytes as u64
    }
}

/// The frame of a batch of at most [`super::MAX_BATCH_ROWS`] rows, with the columns of a version.
pub(crate) fn batch_frame(rows: &[Row], version: ContainerVersion) -> BatchFrame {
    let mut body = Body::new(rows);
    let payload_buffer = small_columns(&mut body, version);
    let columns_bytes = body.bytes.len();
    let payload_bytes: u64 = rows.iter().map(Row::payload_bytes).sum();
    body.buffers[payload_buffer] = Buffer::new(columns_bytes as i64, payload_bytes as i64);

    // The length of the metadata does not depend on the length of the body, which is known only after it.
    let metadata_length = message_head(&metadata(&body, 0), ALIGNMENT_BYTES).len();
    let used_bytes = metadata_length as u64 + columns_bytes as u64 + payload_bytes;
    let tail_bytes = padding((used_bytes % PAGE_BYTES as u64) as usize, PAGE_BYTES);
    let body_bytes = columns_bytes as u64 + payload_bytes + tail_bytes as u64;
    let mut head = message_head(&metadata(&body, body_bytes), ALIGNMENT_BYTES);
    seal(&mut head, &body.bytes);
    head.extend_from_slice(&body.bytes);
    BatchFrame { head, payload_bytes, tail_bytes }
}

/// Fills in every column in the order of the schema; the result is the place of the payloads' buffer.
fn small_columns(body: &mut Body<'_>, version: ContainerVersion) -> usize {
    body.numbers(|row| Some(row.packet().to_le_bytes()));
    body.texts(|row| Some(Cow::Borrowed(row.name())));
    body.numbers(|row| row.head()?.layer.map(i32::to_le_bytes));
    body.numbers(|row| Some(row.step().to_le_bytes()));
    body.numbers(|row| row.token_index().map(u64::to_le_bytes));
    body.numbers(|row| Some(row.timestamp_ns().to_le_bytes()));
    body.texts(|row| Some(Cow::Borrowed(row.head()?.dtype.name())));
    body.lists(|row| Some(row.head()?.shape.as_slice()));
    body.texts(Row::codec);
    body.numbers(|row| row.encoded()?.bound.map(f64::to_le_bytes));
    body.numbers(|row| Some(row.raw_bytes().to_le_bytes()));
    body.numbers(|row| row.crc32c().map(u32::to_le_bytes));
    let payload_buffer = body.payloads();
    body.numbers(|row| row.encoded()?.max_error.map(f64::to_le_bytes));
    body.numbers(|row| row.encoded()?.mse.map(f64::to_le_bytes));
    body.texts(|row| Some(Cow::Borrowed(row.record())));
    body.numbers(|row| row.dropped().map(u64::to_le_bytes));
    body.numbers(|row| Some(row.token()?.token_id.to_le_bytes()));
    body.texts(|row| Some(Cow::Borrowed(row.token()?.token_text.as_str())));
    if version.has_cosines() {
        body.numbers(|row| row.encoded()?.min_cosine.map(f64::to_le_bytes));
    }
    payload_buffer
}

fn metadata(body: &Body<'_>, body_bytes: u64) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let nodes = builder.create_vector(&body.nodes);
    let buffers = builder.create_vector(&body.buffers);
    let mut batch = RecordBatchBuilder::new(&mut builder);
    batch.add_length(body.nodes.first().map_or(0, |node| node.length()));
    batch.add_nodes(nodes);
    batch.add_buffers(buffers);
    let header = batch.finish().as_union_value();
    let mut message = MessageBuilder::new(&mut builder);
    message.add_version(MetadataVersion::V5);
    message.add_header_type(MessageHeader::RecordBatch);
    // Scalars that equal their default are left out; 0 would make the metadata shorter than the real length.
    message.add_bodyLength(if body_bytes == 0 { 1 } else { body_bytes as i64 });
    message.add_header(header);
    let root = message.finish();
    builder.finish(root, None);
    builder.finished_data().to_vec()
}
