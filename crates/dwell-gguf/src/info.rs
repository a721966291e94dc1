//! Everything worth knowing about a model file, in one place.

use std::collections::BTreeMap;
use std::path::PathBuf;

use dwell_events::engine::KvType;
use serde::Serialize;

use crate::shape_error::ShapeError;
use crate::{GgufFile, LayerShape, MemoryNeeded, MemoryRequest, ModelShape, TensorInfo};

/// What to find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InfoOptions {
    /// How the model is going to be run; a context length of 0 stands for the one it was trained for.
    pub memory: MemoryRequest,
    /// Whether to list every tensor.
    pub list_tensors: bool,
}

/// Tensors of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TypeTotal {
    /// Name of the type.
    pub type_name: &'static str,
    /// How many tensors have it.
    pub count: u64,
    /// Bytes of all of them.
    pub size_bytes: u64,
}

/// Size of the KV cache in one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KvBytesPerToken {
    /// Type of keys and values.
    pub kv_type: KvType,
    /// Bytes for each token; `None` if the rows are not whole blocks of the type.
    pub bytes: Option<u64>,
}

/// One tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TensorLine {
    /// Name.
    pub name: String,
    /// Name of the type.
    pub type_name: &'static str,
    /// Dimensions, the row first.
    pub dimensions: Vec<u64>,
    /// First byte in the file.
    pub file_offset: u64,
    /// Bytes that it takes.
    pub size_bytes: u64,
}

/// What is known about a model file. Prints as a report.
///
/// Numbers that can differ between layers are lists of the values that occur, smallest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelInfo {
    /// The file, if it has a path.
    pub path: Option<PathBuf>,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Version of the format.
    pub gguf_version: u32,
    /// Number of files that the model is split into; the tensors and bytes here are those of this file.
    pub split_files: u64,
    /// Architecture.
    pub architecture: String,
    /// Name of the model.
    pub name: Option<String>,
    /// Values in all tensors.
    pub parameters: u64,
    /// Layers.
    pub layers: usize,
    /// Values per token between the layers.
    pub embedding: u32,
    /// Heads that ask.
    pub heads: Vec<u32>,
    /// Heads that keep keys and values.
    pub kv_heads: Vec<u32>,
    /// Values of a key in one head.
    pub head_dim: Vec<u32>,
    /// Values in the middle of the feed-forward network.
    pub feed_forward: Vec<u32>,
    /// Experts per layer; 0 for a dense model.
    pub experts: u32,
    /// Experts that each token uses.
    pub experts_used: u32,
    /// Tokens.
    pub vocabulary: u32,
    /// Context length that the model was trained for.
    pub context_train: u32,
    /// Positions that windowed layers see.
    pub sliding_window: Option<u32>,
    /// How many layers are windowed.
    pub windowed_layers: usize,
    /// Whether the output matrix is the embedding matrix.
    pub tied_output: bool,
    /// Tensors by type, most bytes first.
    pub types: Vec<TypeTotal>,
    /// Size of the KV cache in each type.
    pub kv_bytes_per_token: Vec<KvBytesPerToken>,
    /// State that layers without attention keep for each sequence; 0 if there are none.
    pub state_bytes_per_sequence: u64,
    /// Context length of `memory`.
    pub context_length: u32,
    /// Type of the keys in `memory`.
    pub kv_type_k: KvType,
    /// Type of the values in `memory`.
    pub kv_type_v: KvType,
    /// Memory needed.
    pub memory: MemoryNeeded,
    /// Every tensor, if asked for.
    pub tensors: Option<Vec<TensorLine>>,
}

impl ModelInfo {
    /// Find out about a file.
    pub fn new(file: &GgufFile, options: &InfoOptions) -> Result<ModelInfo, ShapeError> {
        let shape = ModelShape::from_gguf(file)?;
        let mut request = options.memory;
        if request.context_length == 0 {
            request.context_length = shape.context_train;
        }
        let memory = shape.memory_needed(file.tensor_bytes(), &request)?;
        let tensors = options.list_tensors.then(|| file.tensors().iter().map(tensor_line).collect());
        Ok(ModelInfo {
            path: file.path().map(ToOwned::to_owned),
            file_bytes: file.file_bytes(),
            gguf_version: file.version(),
            split_files: file.u64("split.count").unwrap_or(1),
            architecture: shape.architecture.clone(),
            name: file.name().map(ToOwned::to_owned),
            parameters: file.parameters(),
            layers: shape.layers.len(),
            embedding: shape.embedding,
            heads: occurring(&shape, |layer| layer.heads),
            kv_heads: occurring(&shape, |layer| layer.kv_heads),
            head_dim: occurring(&shape, |layer| layer.key_length),
            feed_forward: occurring(&shape, |layer| layer.feed_forward),
            experts: shape.experts,
            experts_used: shape.experts_used,
            vocabulary: shape.vocabulary,
            context_train: shape.context_train,
            sliding_window: shape.sliding_window,
            windowed_layers: shape.layers.iter().filter(|layer| layer.windowed).count(),
            tied_output: shape.tied_output,
            types: type_totals(file.tensors()),
            kv_bytes_per_token: kv_bytes_per_token(&shape),
            state_bytes_per_sequence: shape.state_bytes_per_sequence(),
            context_length: request.context_length,
            kv_type_k: request.kv_type_k,
            kv_type_v: request.kv_type_v,
            memory,
            tensors,
        })
    }
}

fn occurring(shape: &ModelShape, value: fn(&LayerShape) -> u32) -> Vec<u32> {
    let mut values: Vec<u32> = shape.layers.iter().map(value).collect();
    values.sort_unstable();
    values.dedup();
    values
}

fn type_totals(tensors: &[TensorInfo]) -> Vec<TypeTotal> {
    let mut totals: BTreeMap<&'static str, TypeTotal> = BTreeMap::new();
    for tensor in tensors {
        let type_name = tensor.ggml_type.name;
        let total = totals.entry(type_name).or_insert(TypeTotal { type_name, count: 0, size_bytes: 0 });
        total.count += 1;
        total.size_bytes = total.size_bytes.saturating_add(tensor.size_bytes);
    }
    let mut totals: Vec<TypeTotal> = totals.into_values().collect();
    totals.sort_by_key(|total| std::cmp::Reverse(total.size_bytes));
    totals
}

fn kv_bytes_per_token(shape: &ModelShape) -> Vec<KvBytesPerToken> {
    KvType::ALL
        .map(|kv_type| KvBytesPerToken { kv_type, bytes: shape.kv_bytes_per_token(kv_type, kv_type).ok() })
        .into()
}

fn tensor_line(tensor: &TensorInfo) -> TensorLine {
    TensorLine {
        name: tensor.name.clone(),
        type_name: tensor.ggml_type.name,
        dimensions: tensor.dimensions.clone(),
        file_offset: tensor.file_offset,
        size_bytes: tensor.size_bytes,
    }
}
