//! Which layers keep keys and values, and which keep a state instead: as llama.cpp decides it.

use crate::model_shape::MetadataReader;
use crate::shape_error::ShapeError;

/// Architectures that see all of their input at once and keep nothing: llama.cpp gives them no memory.
const WITHOUT_MEMORY: [&str; 15] = [
    "bert",
    "modern-bert",
    "nomic-bert",
    "nomic-bert-moe",
    "neo-bert",
    "jina-bert-v2",
    "jina-bert-v3",
    "eurobert",
    "gemma-embedding",
    "wavtokenizer-dec",
    "dream",
    "llada",
    "llada-moe",
    "rnd1",
    "clef",
];

/// Architectures all of whose layers keep a state and none keeps keys and values.
const ALL_RECURRENT: [&str; 6] = ["mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"];
/// Architectures whose layers keep a state where they have no heads for keys and values.
const RECURRENT_WITHOUT_HEADS: [&str; 6] = ["jamba", "plamo2", "granitehybrid", "lfm2", "lfm2moe", "kimi-linear"];
/// The same, but layers that are feed-forward networks alone keep nothing.
const RECURRENT_WITHOUT_HEADS_AND_NETWORK: [&str; 2] = ["nemotron_h", "nemotron_h_moe"];
/// Architectures in which every n-th layer attends; the key that says which n may be missing.
const ATTENTION_INTERVALS: [(&str, u32); 4] = [("qwen3next", 4), ("qwen35", 4), ("qwen35moe", 4), ("minimax-01", 8)];

/// What each layer keeps.
pub(crate) struct KeptMemory {
    /// Whether it keeps keys and values of its own.
    pub(crate) keeps_kv: Vec<bool>,
    /// Values of state that it keeps for each sequence.
    pub(crate) state_values: Vec<u64>,
}

impl KeptMemory {
    /// Reads it for layers with these heads for keys and values and these feed-forward networks; `heads` ask in the
    /// first layer.
    pub(crate) fn read(
        reader: &MetadataReader<'_>,
        heads: u32,
        kv_heads: &[u32],
        feed_forward: &[u32],
    ) -> Result<KeptMemory, ShapeError> {
        let count = kv_heads.len() as u32;
        let is_recurrent = recurrent_layers(reader, kv_heads, feed_forward)?;
        let values = state_values(reader, heads.into())?;
        let drafting = reader.optional("nextn_predict_layers")?.unwrap_or(0);
        let computed = count.saturating_sub(drafting);
        let state = |layer: u32| if layer < computed && is_recurrent[layer as usize] { values } else { 0 };
        let end = match reader.architecture() {
            architecture if WITHOUT_MEMORY.contains(&architecture) || ALL_RECURRENT.contains(&architecture) => 0,
            "gemma3n" => computed.min(20),
            _ => computed.min(count.saturating_sub(reader.optional("attention.shared_kv_layers")?.unwrap_or(0))),
        };
        // Both kinds of memory side by side.
        let has_both = reader.architecture() == "falcon-h1";
        let keeps_kv = |layer: u32| layer < end && (has_both || !is_recurrent[layer as usize]);
        Ok(KeptMemory { keeps_kv: (0..count).map(keeps_kv).collect(), state_values: (0..count).map(state).collect() })
    }
}

fn recurrent_layers(
    reader: &MetadataReader<'_>,
    kv_heads: &[u32],
    feed_forward: &[u32],
) -> Result<Vec<bool>, ShapeError> {
    let architecture = reader.architecture();
    if let Some(flags) = reader.flags_per_layer("attention.recurrent_layers", kv_heads.len() as u32)? {
        return Ok(flags);
    }
    if ALL_RECURRENT.contains(&architecture) || architecture == "falcon-h1" {
        return Ok(vec![true; kv_heads.len()]);
    }
    if RECURRENT_WITHOUT_HEADS.contains(&architecture) {
        return Ok(kv_heads.iter().map(|&heads| heads == 0).collect());
    }
    if RECURRENT_WITHOUT_HEADS_AND_NETWORK.contains(&architecture) {
        return Ok(kv_heads.iter().zip(feed_forward).map(|(&heads, &network)| heads == 0 && network == 0).collect());
    }
    let default =
        ATTENTION_INTERVALS.into_iter().find(|(known, _)| *known == architecture).map(|(_, interval)| interval);
    let interval = reader.optional("full_attention_interval")?.or(default).filter(|interval| *interval > 0);
    let is_recurrent = |layer: usize| interval.is_some_and(|interval| !(layer as u32 + 1).is_multiple_of(interval));
    Ok((0..kv_heads.len()).map(is_recurrent).collect())
}

/// Values that a recurrent layer keeps for each sequence: the last inputs of its convolution or shift, and its state.
fn state_values(reader: &MetadataReader<'_>, heads: u64) -> Result<u64, ShapeError> {
    let number = |part: &str| reader.optional(part).map(|value| value.map_or(0, u64::from));
    let embedding = number("embedding_length")?;
    let head_size = number("wkv.head_size")?;
    if head_size > 0 {
        let shifts = reader.optional("token_shift_count")?.map_or(2, u64::from);
        return Ok(embedding.saturating_mul(shifts.saturating_add(head_size)));
    }
    let convolved = number("shortconv.l_cache")?;
    if convolved > 0 {
        return Ok(embedding.saturating_mul(convolved - 1));
    }
    let kernel = number("ssm.conv_kernel")?;
    let key_dim = number("kda.head_dim")?;
    if key_dim > 0 {
        let inner = key_dim.saturating_mul(heads);
        let shifted = if kernel > 0 { kernel - 1 } else { 3 };
        return Ok(inner.saturating_mul(shifted.saturating_mul(3).saturating_add(key_dim)));
    }
    if reader.architecture() == "minimax-01" {
        let length = number("attention.key_length")?;
        return Ok(length.saturating_mul(length).saturating_mul(heads));
    }
    let (inner, state) = (number("ssm.inner_size")?, number("ssm.state_size")?);
    let channels = inner.saturating_add(number("ssm.group_count")?.saturating_mul(state).saturating_mul(2));
    Ok(kernel.saturating_sub(1).saturating_mul(channels).saturating_add(inner.saturating_mul(state)))
}
