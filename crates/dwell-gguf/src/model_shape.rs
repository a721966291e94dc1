//! The shape of a model: what its metadata says about layers, heads and rows.

use dwell_events::engine::KvType;

use crate::kept_memory::KeptMemory;
use crate::shape_error::ShapeError;
use crate::{GgufFile, MetadataValue, window_pattern};

/// Most layers that llama.cpp can load.
pub(crate) const MOST_LAYERS: u32 = 512;

/// One layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerShape {
    /// Heads that ask; 0 in layers without attention.
    pub heads: u32,
    /// Heads that keep keys and values; 0 in layers that keep none.
    pub kv_heads: u32,
    /// Values of a key.
    pub key_length: u32,
    /// Values of a value; 0 where the value is a part of the key (latent attention).
    pub value_length: u32,
    /// Values in the middle of the feed-forward network.
    pub feed_forward: u32,
    /// Whether it sees only the latest positions.
    pub windowed: bool,
    /// Values of state that it keeps for each sequence, however long that is; 0 in layers that keep none.
    pub state_values: u64,
}

impl LayerShape {
    /// Values that it keeps as keys for each token.
    pub fn key_row_values(&self) -> u64 {
        u64::from(self.kv_heads) * u64::from(self.key_length)
    }

    /// Values that it keeps as values for each token.
    pub fn value_row_values(&self) -> u64 {
        u64::from(self.kv_heads) * u64::from(self.value_length)
    }
}

/// The shape of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelShape {
    /// Architecture.
    pub architecture: String,
    /// The layers, in order.
    pub layers: Vec<LayerShape>,
    /// Values per token between the layers.
    pub embedding: u32,
    /// Tokens.
    pub vocabulary: u32,
    /// Experts per layer; 0 for a dense model.
    pub experts: u32,
    /// Experts that each token uses; 0 for a dense model. The most of all layers where they differ.
    pub experts_used: u32,
    /// Values in the middle of each expert, where they differ from those of dense layers.
    pub expert_feed_forward: Option<u32>,
    /// Context length that the model was trained for.
    pub context_train: u32,
    /// Positions that windowed layers see; `None` if there are no such layers.
    pub sliding_window: Option<u32>,
    /// Whether the output matrix is the embedding matrix.
    pub tied_output: bool,
}

impl ModelShape {
    /// The shape that the metadata of a file gives.
    pub fn from_gguf(file: &GgufFile) -> Result<ModelShape, ShapeError> {
        let reader = MetadataReader::new(file)?;
        let layer_count = reader.in_range("block_count", 1, MOST_LAYERS)?;
        let (sliding_window, windowed) = window_pattern::read(&reader, layer_count)?;
        let experts_used = reader.per_layer("expert_used_count", layer_count)?;
        Ok(ModelShape {
            architecture: reader.architecture().to_owned(),
            layers: read_layers(&reader, &windowed)?,
            embedding: reader.required("embedding_length")?,
            vocabulary: vocabulary(file, &reader)?,
            experts: reader.optional("expert_count")?.unwrap_or(0),
            experts_used: experts_used.into_iter().flatten().max().unwrap_or(0),
            expert_feed_forward: reader.optional("expert_feed_forward_length")?,
            context_train: reader.required("context_length")?,
            sliding_window,
            tied_output: file.tensor("output.weight").is_none(),
        })
    }

    /// Bytes that the KV cache takes for each token: a row of keys and a row of values in each layer.
    pub fn kv_bytes_per_token(&self, keys: KvType, values: KvType) -> Result<u64, ShapeError> {
        (0..self.layers.len()).map(|layer| self.layer_kv_bytes_per_token(layer, keys, values)).sum()
    }

    /// Bytes that the KV cache of one layer takes for each token.
    pub(crate) fn layer_kv_bytes_per_token(
        &self,
        layer: usize,
        keys: KvType,
        values: KvType,
    ) -> Result<u64, ShapeError> {
        let shape = &self.layers[layer];
        let row_bytes = |what, found_values, kv_type: KvType| {
            let not_whole = ShapeError::KvNotWholeBlocks { layer, unit: "row", what, found_values, kv_type };
            kv_type.row_bytes(found_values).ok_or(not_whole)
        };
        Ok(row_bytes("keys", shape.key_row_values(), keys)? + row_bytes("values", shape.value_row_values(), values)?)
    }
}

fn vocabulary(file: &GgufFile, reader: &MetadataReader<'_>) -> Result<u32, ShapeError> {
    const TOKENS: &str = "tokenizer.ggml.tokens";
    if let Some(vocabulary) = reader.optional("vocab_size")? {
        return Ok(vocabulary);
    }
    let count = file.array(TOKENS).ok_or_else(|| ShapeError::MissingKey { key: TOKENS.to_owned() })?.count;
    fits(TOKENS, count, 0, u32::MAX)
}

fn read_layers(reader: &MetadataReader<'_>, windowed: &[bool]) -> Result<Vec<LayerShape>, ShapeError> {
    let count = windowed.len() as u32;
    let heads = reader.per_layer("attention.head_count", count)?.unwrap_or_else(|| vec![0; windowed.len()]);
    let kv_heads = reader.per_layer("attention.head_count_kv", count)?.unwrap_or_else(|| heads.clone());
    let feed_forward = reader.per_layer("feed_forward_length", count)?.unwrap_or_else(|| vec![0; windowed.len()]);
    let kept = KeptMemory::read(reader, heads[0], &kv_heads, &feed_forward)?;
    let lengths = HeadLengths::read(reader, &heads)?;
    (0..windowed.len())
        .map(|layer| {
            let (key_length, value_length) = if windowed[layer] { lengths.windowed } else { lengths.full };
            let shape = LayerShape {
                heads: heads[layer],
                kv_heads: if kept.keeps_kv[layer] { kv_heads[layer] } else { 0 },
                key_length,
                value_length,
                feed_forward: feed_forward[layer],
                windowed: windowed[layer],
                state_values: kept.state_values[layer],
            };
            check_rows(layer, shape)
        })
        .collect()
}

fn check_rows(layer: usize, shape: LayerShape) -> Result<LayerShape, ShapeError> {
    let rows = [("keys", shape.key_row_values()), ("values", shape.value_row_values())];
    match rows.into_iter().find(|(_, row_values)| *row_values > u64::from(u32::MAX)) {
        Some((what, row_values)) => Err(ShapeError::RowTooLong { layer, what, row_values }),
        None => Ok(shape),
    }
}

/// Lengths of a key and a value.
struct HeadLengths {
    full: (u32, u32),
    windowed: (u32, u32),
}

impl HeadLengths {
    fn read(reader: &MetadataReader<'_>, heads: &[u32]) -> Result<HeadLengths, ShapeError> {
        let divided = reader.required("embedding_length")?.checked_div(heads[0]).unwrap_or(0);
        let key = reader.optional("attention.key_length")?.unwrap_or(divided);
        let value = reader.optional("attention.value_length")?.unwrap_or(divided);
        let windowed_key = reader.optional("attention.key_length_swa")?.unwrap_or(key);
        let windowed_value = reader.optional("attention.value_length_swa")?.unwrap_or(value);
        // With latent attention the cache holds one compressed row, from which both are computed.
        let latent = reader.optional("attention.key_length_mla")?.is_some_and(|length| length > 0);
        let stored = |value| if latent { 0 } else { value };
        Ok(HeadLengths { full: (key, stored(value)), windowed: (windowed_key, stored(windowed_value)) })
    }
}

/// Numbers of the architecture, by the part of the key after its name.
pub(crate) struct MetadataReader<'file> {
    file: &'file GgufFile,
    architecture: &'file str,
}

impl<'file> MetadataReader<'file> {
    fn new(file: &'file GgufFile) -> Result<Self, ShapeError> {
        let missing = || ShapeError::MissingKey { key: "general.architecture".to_owned() };
        Ok(MetadataReader { file, architecture: file.architecture().ok_or_else(missing)? })
    }

    pub(crate) fn architecture(&self) -> &'file str {
        self.architecture
    }

    fn key(&self, part: &str) -> String {
        format!("{}.{part}", self.architecture)
    }

    /// A number; an array of numbers counts as none.
    pub(crate) fn optional(&self, part: &str) -> Result<Option<u32>, ShapeError> {
        let key = self.key(part);
        match self.file.value(&key) {
            None | Some(MetadataValue::Array(_)) => Ok(None),
            Some(value) => number(&key, value).map(Some),
        }
    }

    fn required(&self, part: &str) -> Result<u32, ShapeError> {
        self.optional(part)?.ok_or_else(|| ShapeError::MissingKey { key: self.key(part) })
    }

    fn in_range(&self, part: &str, least: u32, most: u32) -> Result<u32, ShapeError> {
        fits(&self.key(part), self.required(part)?.into(), least, most)
    }

    /// A number for each layer, from an array or from one number for all of them.
    fn per_layer(&self, part: &str, layers: u32) -> Result<Option<Vec<u32>>, ShapeError> {
        let key = self.key(part);
        match self.file.value(&key) {
            None => Ok(None),
            Some(MetadataValue::Array(_)) => self.array_per_layer(&key, layers, number).map(Some),
            Some(value) => Ok(Some(vec![number(&key, value)?; layers as usize])),
        }
    }

    /// A truth value for each layer, if there is an array of them.
    pub(crate) fn flags_per_layer(&self, part: &str, layers: u32) -> Result<Option<Vec<bool>>, ShapeError> {
        let key = self.key(part);
        match self.file.value(&key) {
            Some(MetadataValue::Array(_)) => self.array_per_layer(&key, layers, flag).map(Some),
            _ => Ok(None),
        }
    }

    fn array_per_layer<T>(
        &self,
        key: &str,
        layers: u32,
        convert: fn(&str, &MetadataValue) -> Result<T, ShapeError>,
    ) -> Result<Vec<T>, ShapeError> {
        let Some(array) = self.file.array(key) else { return Err(ShapeError::MissingKey { key: key.to_owned() }) };
        match &array.elements {
            Some(elements) if array.count == u64::from(layers) => {
                elements.iter().map(|element| convert(key, element)).collect()
            }
            _ => Err(ShapeError::WrongArrayLength { key: key.to_owned(), found: array.count, layers }),
        }
    }
}

fn number(key: &str, value: &MetadataValue) -> Result<u32, ShapeError> {
    let found = value.value_type().name().to_owned();
    let wrong = || ShapeError::WrongType { key: key.to_owned(), found, needed: "an integer that is not negative" };
    fits(key, value.as_u64().ok_or_else(wrong)?, 0, u32::MAX)
}

fn flag(key: &str, value: &MetadataValue) -> Result<bool, ShapeError> {
    match value.as_bool() {
        Some(flag) => Ok(flag),
        None => Ok(number(key, value)? != 0),
    }
}

fn fits(key: &str, found: u64, least: u32, most: u32) -> Result<u32, ShapeError> {
    match u32::try_from(found) {
        Ok(value) if (least..=most).contains(&value) => Ok(value),
        _ => Err(ShapeError::OutOfRange { key: key.to_owned(), found, least: least.into(), most: most.into() }),
    }
}
