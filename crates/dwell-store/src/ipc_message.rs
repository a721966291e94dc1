//! One message of an Arrow IPC stream, checked before it is decoded.
//!
//! `arrow_ipc` trusts lengths and offsets (it allocates a body of whatever
//! size is claimed, and panics on offsets outside it), so everything that it would trust is checked here.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{MessageHeader, Type, convert, root_as_message};
use arrow_schema::SchemaRef;
use dwell_files::arrow_framing::PREFIX_BYTES;
use dwell_files::fenced;

/// The most that one column of one batch may claim to unpack to. Arrow's 32-bit offsets cannot reach further.
const MAX_UNPACKED_BYTES: i64 = i32::MAX as i64;

/// Dictionaries read so far, by id.
pub(crate) type Dictionaries = HashMap<i64, ArrayRef>;

/// A message whose bytes are all there.
pub(crate) struct IpcMessage {
    pub(crate) metadata: Vec<u8>,
    pub(crate) body: Buffer,
}

/// Size of the body that belongs to this metadata; `None` if the metadata is damaged.
pub(crate) fn body_bytes(metadata: &[u8]) -> Option<u64> {
    let message = root_as_message(metadata).ok()?;
    u64::try_from(message.bodyLength()).ok()
}

impl IpcMessage {
    /// The message that these bytes are, prefix included, if it has no body.
    pub(crate) fn without_body(bytes: &[u8]) -> Self {
        Self { metadata: bytes.get(PREFIX_BYTES as usize..).unwrap_or_default().to_vec(), body: Buffer::default() }
    }

    /// The schema that this message holds.
    pub(crate) fn schema(&self) -> Result<SchemaRef, String> {
        let message = root_as_message(&self.metadata).map_err(|error| error.to_string())?;
        let schema = message.header_as_schema().ok_or("the first message is not a schema")?;
        check_columns(&schema)?;
        fenced(|| Arc::new(convert::fb_to_schema(schema)))
    }

    /// The batch that this message holds; `None` if it is a dictionary, which is kept for the batches after it.
    pub(crate) fn decode(
        &self,
        schema: &SchemaRef,
        dictionaries: &mut Dictionaries,
    ) -> Result<Option<RecordBatch>, String> {
        let message = root_as_message(&self.metadata).map_err(|error| error.to_string())?;
        let version = message.version();
        match message.header_type() {
            MessageHeader::RecordBatch => {
                let batch = message.header_as_record_batch().ok_or("a record batch without content")?;
                check_layout(&batch, &self.body)?;
                let decode = || read_record_batch(&self.body, batch, schema.clone(), dictionaries, None, &version);
                fenced(decode)?.map(Some).map_err(|error| error.to_string())
            }
            MessageHeader::DictionaryBatch => {
                let dictionary = message.header_as_dictionary_batch().ok_or("a dictionary without content")?;
                check_layout(&dictionary.data().ok_or("a dictionary without values")?, &self.body)?;
                let decode = || read_dictionary(&self.body, dictionary, schema, dictionaries, &version);
                fenced(decode)?.map(|()| None).map_err(|error| error.to_string())
            }
            other => Err(format!("a message of type {other:?}")),
        }
    }

    /// Whether this message is a dictionary rather than a batch.
    pub(crate) fn is_dictionary(&self) -> bool {
        root_as_message(&self.metadata).is_ok_and(|message| message.header_type() == MessageHeader::DictionaryBatch)
    }
}

/// Raw streams hold flat columns of numbers, text and bytes; `arrow_ipc` panics on much of what else could be there.
fn check_columns(schema: &arrow_ipc::Schema<'_>) -> Result<(), String> {
    for field in schema.fields().ok_or("a schema without columns")? {
        let is_readable = match field.type_type() {
            Type::Bool | Type::Binary | Type::Utf8 => true,
            Type::Int => field.type_as_int().is_some_and(|int| is_int_width(int.bitWidth())),
            Type::FloatingPoint => {
                field.type_as_floating_point().is_some_and(|float| (0..=2).contains(&float.precision().0))
            }
            _ => false,
        };
        let has_readable_index = field
            .dictionary()
            .is_none_or(|dictionary| dictionary.indexType().is_some_and(|index| is_int_width(index.bitWidth())));
        if !is_readable || !has_readable_index {
            return Err(format!("column {:?} of type {:?}", field.name().unwrap_or_default(), field.type_type()));
        }
    }
    Ok(())
}

fn is_int_width(bits: i32) -> bool {
    matches!(bits, 8 | 16 | 32 | 64)
}

/// Every buffer must lie inside the body and unpack to a size that can exist.
fn check_layout(batch: &arrow_ipc::RecordBatch<'_>, body: &[u8]) -> Result<(), String> {
    let is_compressed = batch.compression().is_some();
    for buffer in batch.buffers().ok_or("a batch without buffers")? {
        let bytes = usize::try_from(buffer.offset())
            .ok()
            .zip(usize::try_from(buffer.length()).ok())
            .and_then(|(start, length)| body.get(start..start.checked_add(length)?))
            .ok_or_else(|| {
                format!("a buffer at {}+{} in a body of {}", buffer.offset(), buffer.length(), body.len())
            })?;
        if is_compressed {
            check_unpacked_size(bytes)?;
        }
    }
    for node in batch.nodes().ok_or("a batch without columns")? {
        if node.length() != batch.length() || !(0..=node.length()).contains(&node.null_count()) {
            return Err(format!("a column of {} rows with {} nulls", node.length(), node.null_count()));
        }
    }
    Ok(())
}

/// A compressed buffer begins with its unpacked size; -1 means that it is stored as it is.
fn check_unpacked_size(buffer: &[u8]) -> Result<(), String> {
    if buffer.is_empty() {
        return Ok(());
    }
    let size = buffer.first_chunk::<8>().map(|bytes| i64::from_le_bytes(*bytes));
    match size {
        Some(size) if (-1..=MAX_UNPACKED_BYTES).contains(&size) => Ok(()),
        Some(size) => Err(format!("a buffer that claims to unpack to {size} bytes")),
        None => Err(format!("a compressed buffer of {} bytes", buffer.len())),
    }
}
