//! Whether the KV cache will fit into memory.
//!
//! llama.cpp clears the cache when it makes it, so a cache larger than memory gets the process killed. The
//! estimate is a lower bound: a context that would fit is never refused.

use dwell_events::engine::EngineOptions;

use crate::EngineError;
use crate::model::Model;

/// llama.cpp pads the cells of a stream to this.
const CELL_PADDING: u64 = 256;

/// What llama.cpp keeps per cell beside keys and values: position, shift, 2-D place, set of 256 sequences.
const BOOKKEEPING_BYTES_PER_CELL: u64 = 48;

/// Bytes that the system can give to this process without swapping, if it says so.
pub(crate) fn available_bytes() -> Option<u64> {
    parse_available(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Refuses a cache that is larger than memory.
pub(crate) fn check_cache_fits(model: &Model, options: &EngineOptions) -> Result<(), EngineError> {
    let Some(available_bytes) = available_bytes() else { return Ok(()) };
    let cells = cache_cells(options);
    let bytes_per_cell = BOOKKEEPING_BYTES_PER_CELL + model_bytes_per_cell(model, options).unwrap_or(0);
    let needed_bytes = cells * bytes_per_cell;
    if needed_bytes <= available_bytes {
        return Ok(());
    }
    let fitting_context_length = available_bytes / bytes_per_cell / CELL_PADDING * CELL_PADDING;
    Err(EngineError::ContextMemory { context_length: cells, needed_bytes, available_bytes, fitting_context_length })
}

/// Cells that llama.cpp makes for a context, with its padding.
fn cache_cells(options: &EngineOptions) -> u64 {
    let cells = u64::from(options.context_length).next_multiple_of(CELL_PADDING);
    if options.kv_unified {
        return cells;
    }
    let streams = u64::from(options.parallel);
    (cells / streams).next_multiple_of(CELL_PADDING) * streams
}

/// Bytes of keys and values per cell, or `None` where not all layers have a cache of the full length or the
/// metadata does not say how wide it is.
fn model_bytes_per_cell(model: &Model, options: &EngineOptions) -> Option<u64> {
    let has_short_windows = model.sliding_window() > 0 && !options.full_window_cache;
    if has_short_windows
        || model.has_recurrent_state()
        || model.architecture_number("attention.shared_kv_layers") > Some(0)
    {
        return None;
    }
    let heads = model.architecture_number("attention.head_count_kv")?;
    let key_bytes = options.kv_type_k.row_bytes(heads * model.key_head_size()?)?;
    // With multi-head latent attention the values are derived from the keys.
    let value_bytes = match model.architecture_number("attention.kv_lora_rank") {
        Some(_) => 0,
        None => options.kv_type_v.row_bytes(heads * model.value_head_size()?)?,
    };
    Some(u64::from(model.layers()) * (key_bytes + value_bytes))
}

/// Refuses cache types whose blocks would span heads: llama.cpp aborts on some of them.
pub(crate) fn check_blocks_fill_heads(model: &Model, options: &EngineOptions) -> Result<(), EngineError> {
    let parts = [
        ("key", options.kv_type_k, [model.key_head_size(), model.architecture_number("attention.key_length_swa")]),
        (
            "value",
            options.kv_type_v,
            [model.value_head_size(), model.architecture_number("attention.value_length_swa")],
        ),
    ];
    for (part, kv_type, head_sizes) in parts {
        let (block_values, _) = kv_type.block();
        for head_size in head_sizes.into_iter().flatten() {
            if !head_size.is_multiple_of(block_values) {
                return Err(EngineError::KvBlock { part, kv_type, block_values, head_size });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_available_memory() {
        let meminfo = "MemTotal:       24000000 kB\nMemAvailable:    1000 kB\n";
        assert_eq!(parse_available(meminfo), Some(1_024_000));
        assert_eq!(parse_available("MemTotal: 1 kB\n"), None);
        assert_eq!(parse_available("MemAvailable: many\n"), None);
    }

    #[test]
    fn this_machine_says_what_is_available() {
        assert!(available_bytes().is_some_and(|bytes| bytes > 0));
    }
}
