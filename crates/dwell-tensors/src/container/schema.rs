//! The columns, and the message that begins a stream.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use arrow_ipc::convert::{IpcSchemaEncoder, fb_to_schema};
use arrow_ipc::{MessageBuilder, MessageHeader, MetadataVersion, root_as_message};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use dwell_files::arrow_framing::{CONTINUATION, PREFIX_BYTES};
use dwell_files::fenced;
use flatbuffers::FlatBufferBuilder;

use super::{CHECKSUM_BYTES, PAGE_BYTES, is_sealed, padding, seal};

/// Version of the layout, in the metadata of the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ContainerVersion {
    /// Without the column `min_cosine`. Read, and continued where a stream was begun with it.
    One,
    /// The one that streams are begun with.
    #[default]
    Two,
}

impl ContainerVersion {
    /// The version of this text in a stream's metadata.
    pub(crate) fn of(metadata: &BTreeMap<String, String>) -> Option<Self> {
        match metadata.get(VERSION_KEY).map(String::as_str) {
            Some("1") => Some(Self::One),
            Some("2") => Some(Self::Two),
            _ => None,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::Two => "2",
        }
    }

    /// Whether rows say how far off the worst vector is.
    pub(crate) fn has_cosines(self) -> bool {
        self == Self::Two
    }

    /// Every column, in order.
    pub(super) fn schema(self) -> &'static SchemaRef {
        match self {
            Self::One => &SCHEMA_ONE,
            Self::Two => &SCHEMA,
        }
    }
}

/// The versions that are read, in words.
pub(crate) const CONTAINER_VERSIONS: &str = "1 or 2";
/// Key of the version.
pub(crate) const VERSION_KEY: &str = "dwell.container_version";
/// The longest schema message that is read.
const MAX_SCHEMA_BYTES: usize = 64 << 20;
/// The most that a stream may say about itself, by [`metadata_size_bytes`]; what Arrow adds stays below the limit above.
pub(crate) const MAX_METADATA_BYTES: usize = MAX_SCHEMA_BYTES / 2;

/// Place of each column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Column {
    Packet,
    Name,
    Layer,
    Step,
    TokenIndex,
    TimestampNs,
    DType,
    Shape,
    Codec,
    Bound,
    RawBytes,
    Crc32c,
    Payload,
    MaxError,
    Mse,
    Record,
    Dropped,
    TokenId,
    TokenText,
    MinCosine,
}

/// Every column, in order.
pub(super) static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| Arc::new(Schema::new(columns())));

/// The same without those that came with version 2.
static SCHEMA_ONE: LazyLock<SchemaRef> =
    LazyLock::new(|| Arc::new(Schema::new(SCHEMA.fields()[..Column::MinCosine as usize].to_vec())));

fn columns() -> Vec<Field> {
    let shape = DataType::List(Arc::new(Field::new("item", DataType::UInt64, true)));
    vec![
        Field::new("packet", DataType::UInt64, false),
        Field::new("name", DataType::Utf8, false),
        Field::new("layer", DataType::Int32, true),
        Field::new("step", DataType::UInt64, false),
        Field::new("token_index", DataType::UInt64, true),
        Field::new("timestamp_ns", DataType::Int64, false),
        Field::new("dtype", DataType::Utf8, true),
        Field::new("shape", shape, true),
        Field::new("codec", DataType::Utf8, true),
        Field::new("bound", DataType::Float64, true),
        Field::new("raw_bytes", DataType::UInt64, false),
        Field::new("crc32c", DataType::UInt32, true),
        Field::new("payload", DataType::LargeBinary, true),
        Field::new("max_error", DataType::Float64, true),
        Field::new("mse", DataType::Float64, true),
        Field::new("record", DataType::Utf8, false),
        Field::new("dropped", DataType::UInt64, true),
        Field::new("token_id", DataType::Int64, true),
        Field::new("token_text", DataType::Utf8, true),
        Field::new("min_cosine", DataType::Float64, true),
    ]
}

/// About what these texts take in a schema message.
pub(crate) fn metadata_size_bytes(metadata: &BTreeMap<String, String>) -> usize {
    const ENTRY_BYTES: usize = 64;
    metadata.iter().map(|(key, value)| key.len() + value.len() + ENTRY_BYTES).sum()
}

/// The message that begins a stream, with what the stream says about itself.
pub(crate) fn schema_message(metadata: &BTreeMap<String, String>, version: ContainerVersion) -> Vec<u8> {
    let mut all: HashMap<String, String> = metadata.clone().into_iter().collect();
    all.insert(VERSION_KEY.to_owned(), version.text().to_owned());
    let schema = Schema::new_with_metadata(version.schema().fields().clone(), all);
    let mut builder = FlatBufferBuilder::new();
    let header = IpcSchemaEncoder::new().schema_to_fb_offset(&mut builder, &schema).as_union_value();
    let mut message = MessageBuilder::new(&mut builder);
    message.add_version(MetadataVersion::V5);
    message.add_header_type(MessageHeader::Schema);
    message.add_bodyLength(0);
    message.add_header(header);
    let root = message.finish();
    builder.finish(root, None);
    let mut bytes = message_head(builder.finished_data(), PAGE_BYTES);
    seal(&mut bytes, &[]);
    bytes
}

/// Prefix and metadata of a message, padded to a multiple of `unit` with room for a checksum at the end.
pub(super) fn message_head(metadata: &[u8], unit: usize) -> Vec<u8> {
    let prefix_bytes = PREFIX_BYTES as usize;
    let used_bytes = prefix_bytes + metadata.len() + CHECKSUM_BYTES;
    let padded_bytes = used_bytes + padding(used_bytes, unit);
    let mut bytes = Vec::with_capacity(padded_bytes);
    bytes.extend_from_slice(&CONTINUATION);
    // Metadata is far below 2 GiB: its parts are bounded where they are taken in.
    bytes.extend_from_slice(&((padded_bytes - prefix_bytes) as u32).to_le_bytes());
    bytes.extend_from_slice(metadata);
    bytes.resize(padded_bytes, 0);
    bytes
}

/// Length of a message's metadata, from its first bytes; `None` if they begin no message.
pub(super) fn metadata_bytes(prefix: &[u8]) -> Option<usize> {
    let (continuation, length) = prefix.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length.first_chunk()?);
    (*continuation == CONTINUATION && i32::try_from(length).is_ok()).then_some(length as usize)
}

/// What [`read_schema`] found.
pub(crate) struct StreamHead {
    /// What the stream says about itself.
    pub(crate) metadata: BTreeMap<String, String>,
    /// Length of the message; the first batch begins here.
    pub(crate) bytes: u64,
}

/// Reads the message that begins a stream through `read`, which gives bytes from the beginning of the file.
///
/// The error is what was found instead.
pub(crate) fn read_schema(
    file_bytes: u64,
    read: impl Fn(usize) -> std::io::Result<Vec<u8>>,
) -> Result<StreamHead, String> {
    let prefix_bytes = PREFIX_BYTES as usize;
    let text = |error: std::io::Error| format!("bytes that could not be read ({error})");
    if file_bytes < PREFIX_BYTES {
        return Err(format!("{file_bytes} bytes, too few for a schema"));
    }
    let length = metadata_bytes(&read(prefix_bytes).map_err(text)?).ok_or("no Arrow IPC stream")?;
    if length > MAX_SCHEMA_BYTES || (prefix_bytes + length) as u64 > file_bytes {
        return Err(format!("a schema message of {length} bytes in a file of {file_bytes}"));
    }
    let bytes = read(prefix_bytes + length).map_err(text)?;
    let schema = parse_schema(bytes.get(prefix_bytes..).unwrap_or_default())?;
    let metadata: BTreeMap<String, String> = schema.metadata().clone().into_iter().collect();
    // Another version may have other columns; that it is another one is for the caller to say.
    let version = ContainerVersion::of(&metadata);
    let is_known = version.is_some() || !metadata.contains_key(VERSION_KEY);
    if is_known && schema.fields() != version.unwrap_or_default().schema().fields() {
        return Err(format!("an Arrow stream with other columns ({})", column_names(schema.fields())));
    }
    if is_known && (bytes.len() % PAGE_BYTES != 0 || !is_sealed(&bytes, &[])) {
        return Err("a damaged schema: its checksum does not fit".to_owned());
    }
    Ok(StreamHead { metadata, bytes: bytes.len() as u64 })
}

fn parse_schema(metadata: &[u8]) -> Result<Schema, String> {
    let message = root_as_message(metadata).map_err(|error| format!("a damaged schema ({error})"))?;
    let schema = message.header_as_schema().ok_or("an Arrow stream without a schema")?;
    fenced(|| fb_to_schema(schema)).map_err(|reason| format!("a damaged schema ({reason})"))
}

fn column_names(fields: &Fields) -> String {
    let names: Vec<_> = fields.iter().take(8).map(|field| field.name().as_str()).collect();
    let more = if fields.len() > names.len() { ", …" } else { "" };
    format!("{}{more}", names.join(", "))
}
