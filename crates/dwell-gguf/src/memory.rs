//! How much memory a model needs at a context length.

use dwell_events::engine::{EngineOptions, KvType};
use serde::Serialize;

use crate::shape_error::ShapeError;
use crate::{LayerShape, ModelShape};

/// llama.cpp rounds the numbers of cells up to multiples of this.
const CELL_ROUNDING: u64 = 256;
const BYTES_PER_VALUE: u64 = 4;

/// How a model is going to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRequest {
    /// Positions that the KV cache holds, over all sequences.
    pub context_length: u32,
    /// Type of the keys.
    pub kv_type_k: KvType,
    /// Type of the values.
    pub kv_type_v: KvType,
    /// Most tokens computed in one graph.
    pub micro_batch_size: u32,
    /// Sequences side by side.
    pub parallel: u32,
    /// Whether the sequences share one pool of cells.
    pub kv_unified: bool,
    /// Whether attention runs as one fused operation.
    pub flash_attention: bool,
    /// Whether windowed layers keep the full context too.
    pub full_window_cache: bool,
}

impl MemoryRequest {
    /// One sequence with the defaults of llama.cpp's tools: graphs of 512 tokens, fused attention, windowed layers
    /// that keep only their window.
    pub fn new(context_length: u32, kv_type: KvType) -> MemoryRequest {
        MemoryRequest {
            context_length,
            kv_type_k: kv_type,
            kv_type_v: kv_type,
            micro_batch_size: 512,
            parallel: 1,
            kv_unified: false,
            flash_attention: true,
            full_window_cache: false,
        }
    }

    fn streams(&self) -> u64 {
        if self.kv_unified { 1 } else { self.parallel.max(1).into() }
    }

    fn cells_per_stream(&self) -> u64 {
        let all = u64::from(self.context_length).next_multiple_of(CELL_ROUNDING);
        (all / self.streams()).next_multiple_of(CELL_ROUNDING)
    }

    /// Tokens that a graph really computes: no more than the context holds.
    fn graph_tokens(&self) -> u64 {
        u64::from(self.micro_batch_size).min(self.cells_per_stream())
    }

    fn windowed_cells_per_stream(&self, window: u32) -> u64 {
        let all = self.cells_per_stream();
        if self.full_window_cache {
            return all;
        }
        let windows = if self.kv_unified { self.parallel.max(1).into() } else { 1 };
        (u64::from(window) * windows + self.graph_tokens()).min(all).next_multiple_of(CELL_ROUNDING)
    }
}

impl From<&EngineOptions> for MemoryRequest {
    fn from(options: &EngineOptions) -> MemoryRequest {
        MemoryRequest {
            context_length: options.context_length,
            kv_type_k: options.kv_type_k,
            kv_type_v: options.kv_type_v,
            micro_batch_size: options.micro_batch_size.min(options.batch_size),
            parallel: options.parallel,
            kv_unified: options.kv_unified,
            flash_attention: options.flash_attention,
            full_window_cache: options.full_window_cache,
        }
    }
}

/// Memory that a model needs, part by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryNeeded {
    /// All tensors.
    pub weights_bytes: u64,
    /// Keys and values of all cells.
    pub kv_bytes: u64,
    /// State of the layers that keep one, for all sequences.
    pub state_bytes: u64,
    /// Estimate of the buffer for intermediate results; see [`ModelShape::compute_bytes_estimate`].
    pub compute_bytes_estimate: u64,
}

impl MemoryNeeded {
    /// All parts together.
    pub fn total_bytes(&self) -> u64 {
        let parts = [self.kv_bytes, self.state_bytes, self.compute_bytes_estimate];
        parts.into_iter().fold(self.weights_bytes, u64::saturating_add)
    }
}

impl ModelShape {
    /// Memory needed with weights of this size.
    pub fn memory_needed(&self, weights_bytes: u64, request: &MemoryRequest) -> Result<MemoryNeeded, ShapeError> {
        Ok(MemoryNeeded {
            weights_bytes,
            kv_bytes: self.kv_bytes(request)?,
            state_bytes: self.state_bytes_per_sequence().saturating_mul(request.parallel.max(1).into()),
            compute_bytes_estimate: self.compute_bytes_estimate(request),
        })
    }

    /// Bytes of the whole KV cache: the cells of each layer, of which windowed layers need fewer.
    ///
    /// State of recurrent layers is not in it; see [`ModelShape::state_bytes_per_sequence`].
    pub fn kv_bytes(&self, request: &MemoryRequest) -> Result<u64, ShapeError> {
        if request.flash_attention {
            self.check_heads(request)?;
        }
        let mut bytes: u64 = 0;
        for (index, layer) in self.layers.iter().enumerate() {
            let per_token = self.layer_kv_bytes_per_token(index, request.kv_type_k, request.kv_type_v)?;
            let cells = self.layer_cells(layer, request);
            bytes = bytes.saturating_add(per_token.saturating_mul(cells).saturating_mul(request.streams()));
        }
        Ok(bytes)
    }

    /// Bytes of state that the recurrent layers keep for each sequence, in 32-bit floats, however long the context is.
    pub fn state_bytes_per_sequence(&self) -> u64 {
        let layers = self.layers.iter().map(|layer| layer.state_values.saturating_mul(BYTES_PER_VALUE));
        layers.fold(0, u64::saturating_add)
    }

    /// Fused attention needs whole blocks in each head, not only in the row.
    fn check_heads(&self, request: &MemoryRequest) -> Result<(), ShapeError> {
        for (layer, shape) in self.layers.iter().enumerate().filter(|(_, shape)| shape.kv_heads > 0) {
            let heads =
                [("keys", shape.key_length, request.kv_type_k), ("values", shape.value_length, request.kv_type_v)];
            for (what, length, kv_type) in heads {
                let found_values = length.into();
                if kv_type.row_bytes(found_values).is_none() {
                    return Err(ShapeError::KvNotWholeBlocks { layer, unit: "head", what, found_values, kv_type });
                }
            }
        }
        Ok(())
    }

    /// Estimate of llama.cpp's buffer for intermediate results on the CPU.
    ///
    /// The buffer is as large as the hungriest stage of a graph, since stages reuse each other's memory. For each
    /// token of a graph the stages keep, in 32-bit floats: six embeddings and the logits at the output; six
    /// embeddings and three rows of the feed-forward network (of each used expert) in a layer; three embeddings,
    /// three queries, a key and a value in attention, where unfused attention adds a score per head and cell. The
    /// mask, a number per token and cell, is there all the time.
    pub fn compute_bytes_estimate(&self, request: &MemoryRequest) -> u64 {
        let layers = self.layers.iter().map(|layer| self.layer_values_per_token(layer, request));
        let hungriest = layers.chain([self.output_values_per_token()]).max().unwrap_or(0);
        let mask_value_bytes = if request.flash_attention { 2 } else { BYTES_PER_VALUE };
        let mask_bytes = self.mask_cells(request) * mask_value_bytes;
        let bytes_per_token = hungriest.saturating_mul(BYTES_PER_VALUE).saturating_add(mask_bytes);
        bytes_per_token.saturating_mul(request.graph_tokens())
    }

    /// Cells of one stream in a layer.
    fn layer_cells(&self, layer: &LayerShape, request: &MemoryRequest) -> u64 {
        match self.sliding_window {
            Some(window) if layer.windowed => request.windowed_cells_per_stream(window),
            _ => request.cells_per_stream(),
        }
    }

    /// Windowed layers and the others have a mask each.
    fn mask_cells(&self, request: &MemoryRequest) -> u64 {
        let one_of = |windowed| self.layers.iter().find(|layer| layer.windowed == windowed);
        [one_of(false), one_of(true)].into_iter().flatten().map(|layer| self.layer_cells(layer, request)).sum()
    }

    fn output_values_per_token(&self) -> u64 {
        6 * u64::from(self.embedding) + u64::from(self.vocabulary)
    }

    fn layer_values_per_token(&self, layer: &LayerShape, request: &MemoryRequest) -> u64 {
        let embedding = u64::from(self.embedding);
        let feed_forward = 6 * embedding + 3 * self.feed_forward_values_per_token(layer);
        let (heads, key_length) = (u64::from(layer.heads), u64::from(layer.key_length));
        let scores = if request.flash_attention { 0 } else { heads * self.layer_cells(layer, request) };
        let queries = heads.saturating_mul(key_length).saturating_mul(3);
        let kept = layer.key_row_values() + layer.value_row_values();
        feed_forward.max(queries.saturating_add(3 * embedding + kept).saturating_add(scores))
    }

    fn feed_forward_values_per_token(&self, layer: &LayerShape) -> u64 {
        let dense = u64::from(layer.feed_forward);
        let expert = self.expert_feed_forward.map_or(dense, u64::from);
        dense.max(expert.saturating_mul(self.experts_used.into())).min(u64::MAX / 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two layers of 4 heads of 64 and 2 kv heads, one of them with a window of 100 if asked for.
    fn shape(window: Option<u32>) -> ModelShape {
        let layer = LayerShape {
            heads: 4,
            kv_heads: 2,
            key_length: 64,
            value_length: 64,
            feed_forward: 512,
            windowed: window.is_some(),
            state_values: 0,
        };
        ModelShape {
            architecture: "gemma3".to_owned(),
            layers: vec![layer, LayerShape { windowed: false, ..layer }],
            embedding: 256,
            vocabulary: 1000,
            experts: 0,
            experts_used: 0,
            expert_feed_forward: None,
            context_train: 4096,
            sliding_window: window,
            tied_output: true,
        }
    }

    #[test]
    fn the_kv_cache_holds_rounded_up_cells_of_every_layer() {
        // A row is 2 x 64 values; f16 takes 2 bytes a value, and there are keys and values.
        let request = MemoryRequest::new(900, KvType::F16);
        assert_eq!(shape(None).kv_bytes(&request), Ok(2 * 1024 * (128 * 2 * 2)));
        // 128 values are 4 blocks of 34 bytes.
        let request = MemoryRequest::new(900, KvType::Q8_0);
        assert_eq!(shape(None).kv_bytes(&request), Ok(2 * 1024 * (4 * 34 * 2)));
    }

    #[test]
    fn keys_and_values_can_differ_in_type() {
        let request = MemoryRequest { kv_type_v: KvType::Q4_0, ..MemoryRequest::new(256, KvType::F16) };
        assert_eq!(shape(None).kv_bytes(&request), Ok(2 * 256 * (128 * 2 + 4 * 18)));
    }

    #[test]
    fn windowed_layers_hold_the_window_and_a_graph_of_tokens() {
        let row_bytes = 128 * 2 * 2;
        let request = MemoryRequest::new(4096, KvType::F16);
        // 100 + 512 cells are rounded up to 768.
        assert_eq!(shape(Some(100)).kv_bytes(&request), Ok((768 + 4096) * row_bytes));
        let all = MemoryRequest { full_window_cache: true, ..request };
        assert_eq!(shape(Some(100)).kv_bytes(&all), Ok((4096 + 4096) * row_bytes));
        let short = MemoryRequest { context_length: 256, ..request };
        assert_eq!(shape(Some(100)).kv_bytes(&short), Ok((256 + 256) * row_bytes));
    }

    #[test]
    fn sequences_have_cells_of_their_own_or_share_them() {
        let row_bytes = 2 * 128 * 2 * 2;
        let own = MemoryRequest { parallel: 3, ..MemoryRequest::new(1024, KvType::F16) };
        // A third of 1024 is rounded up to 512.
        assert_eq!(shape(None).kv_bytes(&own), Ok(3 * 512 * row_bytes));
        let shared = MemoryRequest { kv_unified: true, ..own };
        assert_eq!(shape(None).kv_bytes(&shared), Ok(1024 * row_bytes));
    }

    #[test]
    fn fused_attention_needs_whole_blocks_in_every_head() {
        let mut shape = shape(None);
        shape.layers[1].key_length = 16;
        let fused = MemoryRequest::new(256, KvType::Q8_0);
        let error = shape.kv_bytes(&fused).unwrap_err();
        let message = "sizing the KV cache: layer 1 has heads of 16 keys, needed a multiple of 32 for q8_0";
        assert_eq!(error.to_string(), message);
        let unfused = MemoryRequest { flash_attention: false, ..fused };
        assert_eq!(shape.kv_bytes(&unfused), Ok(256 * (4 * 34 * 2) + 256 * (34 + 4 * 34)));
    }

    #[test]
    fn the_compute_estimate_is_that_of_the_hungriest_stage() {
        let request = MemoryRequest::new(1024, KvType::F16);
        // The feed-forward network: 6 x 256 + 3 x 512 values, and a mask of 2 bytes a cell.
        assert_eq!(shape(None).compute_bytes_estimate(&request), 512 * ((1536 + 1536) * 4 + 1024 * 2));
        // A large vocabulary: the logits.
        let wide = ModelShape { vocabulary: 50_000, ..shape(None) };
        assert_eq!(wide.compute_bytes_estimate(&request), 512 * ((1536 + 50_000) * 4 + 1024 * 2));
        // Without fused attention: 3 x 256 + 3 x 256 + 2 x 128 values and 4 x 1024 scores.
        let unfused = MemoryRequest { flash_attention: false, ..request };
        assert_eq!(shape(None).compute_bytes_estimate(&unfused), 512 * ((1792 + 4096) * 4 + 1024 * 4));
    }

    #[test]
    fn every_sequence_has_a_state_of_its_own() {
        let mut shape = shape(None);
        shape.layers[0].state_values = 100;
        assert_eq!(shape.state_bytes_per_sequence(), 400);
        let request = MemoryRequest { parallel: 3, ..MemoryRequest::new(1024, KvType::F16) };
        assert_eq!(shape.memory_needed(0, &request).map(|needed| needed.state_bytes), Ok(1200));
        let longer = MemoryRequest { context_length: 8192, ..request };
        assert_eq!(shape.memory_needed(0, &longer).map(|needed| needed.state_bytes), Ok(1200));
    }

    #[test]
    fn the_total_is_the_sum_of_the_parts() {
        let mut shape = shape(None);
        shape.layers[0].state_values = 100;
        let needed = shape.memory_needed(5000, &MemoryRequest::new(256, KvType::F16)).unwrap();
        assert_eq!(needed.total_bytes(), 5000 + needed.kv_bytes + 400 + needed.compute_bytes_estimate);
    }
}
