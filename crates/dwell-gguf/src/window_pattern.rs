//! Which layers see only the latest positions.
//!
//! A file says how long the window is, and rarely which layers have it; the rest is known to the runtime by
//! architecture. This follows llama.cpp's `load_swa_pattern` and its callers.

use crate::model_shape::MetadataReader;
use crate::shape_error::ShapeError;

/// What llama.cpp assumes about an architecture.
struct KnownPattern {
    architecture: &'static str,
    /// One layer in so many attends to everything.
    group_layers: u64,
    /// Whether that is the first of them rather than the last.
    full_first: bool,
    /// Window if the file does not say.
    default_window: Option<u32>,
}

const fn known(architecture: &'static str, group_layers: u64, full_first: bool, window: u32) -> KnownPattern {
    let default_window = if window == 0 { None } else { Some(window) };
    KnownPattern { architecture, group_layers, full_first, default_window }
}

const KNOWN: [KnownPattern; 15] = [
    known("afmoe", 4, false, 0),
    known("cohere2", 4, false, 0),
    known("cohere2moe", 4, true, 0),
    known("exaone-moe", 4, false, 128),
    known("gemma-embedding", 6, false, 0),
    known("gemma2", 2, false, 4096),
    known("gemma3", 6, false, 0),
    known("gemma3n", 5, false, 0),
    known("gpt-oss", 2, false, 0),
    known("laguna", 4, true, 0),
    known("llama4", 4, false, 8192),
    known("mellum", 4, false, 0),
    known("olmo2", 4, false, 0),
    known("plamo3", 8, false, 0),
    known("smallthinker", 4, true, 0),
];

/// The window, and for each layer whether it has it. No window if no layer has it.
pub(crate) fn read(reader: &MetadataReader<'_>, layers: u32) -> Result<(Option<u32>, Vec<bool>), ShapeError> {
    let known = KNOWN.iter().find(|known| known.architecture == reader.architecture());
    let in_file = reader.optional("attention.sliding_window")?;
    let window = in_file.or(known.and_then(|known| known.default_window)).filter(|window| *window > 0);
    let windowed = match window {
        Some(_) => windowed_layers(reader, known, layers)?,
        None => vec![false; layers as usize],
    };
    Ok((window.filter(|_| windowed.contains(&true)), windowed))
}

fn windowed_layers(
    reader: &MetadataReader<'_>,
    known: Option<&KnownPattern>,
    layers: u32,
) -> Result<Vec<bool>, ShapeError> {
    const PATTERN: &str = "attention.sliding_window_pattern";
    if let Some(flags) = reader.flags_per_layer(PATTERN, layers)? {
        return Ok(flags);
    }
    // Architectures that are not known keep the whole context even if the file names a window.
    let Some(known) = known else { return Ok(vec![false; layers as usize]) };
    let group = reader.optional(PATTERN)?.map_or(known.group_layers, u64::from);
    Ok((0..u64::from(layers)).map(|layer| is_windowed(layer, group, known.full_first)).collect())
}

fn is_windowed(layer: u64, group_layers: u64, full_first: bool) -> bool {
    match group_layers {
        0 => true,
        _ if full_first => !layer.is_multiple_of(group_layers),
        _ => layer % group_layers < group_layers - 1,
    }
}
