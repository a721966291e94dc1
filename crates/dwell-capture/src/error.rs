use dwell_codec::UnknownCodec;
use dwell_events::Hint;
use dwell_tensors::TensorsError;

use crate::glob::UnreadableGlob;
use crate::group::Group;

/// Why tensors could not be captured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The stream could not be written.
    #[error(transparent)]
    Stream(#[from] TensorsError),

    /// The codec is none.
    #[error(transparent)]
    Codec(#[from] UnknownCodec),

    /// Nothing was asked for.
    #[error("choosing tensors found no name and no group, at least 1 is needed")]
    NothingWanted,

    /// Every 0th step is none.
    #[error("checking the options: every is 0, at least 1 is needed")]
    EveryIsZero,

    /// A pattern cannot be read.
    #[error(transparent)]
    Glob(#[from] UnreadableGlob),

    /// No tensor has such a name.
    #[error("choosing tensors found none in the model's graph that {pattern:?} names")]
    NoMatch {
        /// What was asked for.
        pattern: String,
        /// What may have been meant.
        close: Vec<String>,
    },

    /// The model has no tensor of a group under a name that is known.
    #[error("choosing tensors found none of the group {} in the model's graph", group.name())]
    NoGroup {
        /// The group.
        group: Group,
    },

    /// The model has no such layer.
    #[error("choosing layers found {layer}, the model's graph has 0 to {last}")]
    NoLayer {
        /// What was asked for.
        layer: u32,
        /// The last that there is.
        last: u32,
    },

    /// The chosen tensors and the chosen layers have nothing in common.
    #[error("choosing tensors found none in the chosen layers")]
    NothingInLayers,

    /// The elements of all chosen tensors are blocks that only the engine can read.
    #[error("choosing tensors found {name:?} of type {type_name}, whose elements are not stored one by one")]
    Unstorable {
        /// One of them.
        name: String,
        /// The engine's name of its type.
        type_name: String,
    },

    /// The slice cannot be applied.
    #[error("applying the slice to {name:?} of shape ({shape}): {reason}")]
    SliceMisfit {
        /// The tensor.
        name: String,
        /// Its shape.
        shape: String,
        /// What does not fit.
        reason: String,
    },

    /// What llama.cpp says of a tensor does not fit together.
    #[error("reading the elements of {name:?} found strides that leave its memory")]
    Strides {
        /// The tensor.
        name: String,
    },

    /// The engine does not generate again what it generated before.
    #[error("resuming found token {index} to be {recorded} in the capture, it was now generated as {generated}")]
    OtherToken {
        /// Which token, from 0.
        index: u64,
        /// Its id in the capture.
        recorded: i64,
        /// Its id now.
        generated: i64,
    },

    /// The generation ended before what the capture already has.
    #[error(
        "resuming found {recorded_packets} tensors and {recorded_tokens} tokens in the capture, now there were only {packets} and {tokens}"
    )]
    TooShort {
        /// Tensors in the capture.
        recorded_packets: u64,
        /// Tokens in the capture.
        recorded_tokens: u64,
        /// Tensors now.
        packets: u64,
        /// Tokens now.
        tokens: u64,
    },
}

impl Hint for CaptureError {
    fn hints(&self) -> Vec<String> {
        let one = |hint: &str| vec![hint.to_owned()];
        match self {
            Self::Stream(error) => error.hints(),
            Self::Codec(error) => error.hints(),
            Self::NothingWanted => vec![format!("--tensors {}, or a glob on a name", Group::NAMES.join(","))],
            Self::EveryIsZero => one("--every 1 for every step"),
            Self::Glob(error) => error.hints(),
            Self::NoMatch { close, .. } => {
                let close = close.iter().map(|name| format!("--tensors '{name}'"));
                close.chain([LIST_HINT.to_owned()]).collect()
            }
            Self::NoGroup { .. } => one(LIST_HINT),
            Self::NoLayer { last, .. } => vec![format!("--layers 0-{last}")],
            Self::NothingInLayers => one("leave --layers out, or see the layers of each tensor with --list"),
            Self::Unstorable { .. } => one("choose others, or --kv-type f16 if it is the KV cache"),
            Self::SliceMisfit { .. } => {
                one("see the shapes with --list; a dimension of tokens takes ranges and the indices 0 and -1")
            }
            Self::OtherToken { .. } => vec![
                "resume on the machine, and with the dwell, that began the capture".to_owned(),
                "or begin anew with --force".to_owned(),
            ],
            Self::TooShort { .. } => one("use a larger --max-tokens"),
            Self::Strides { .. } => Vec::new(),
        }
    }
}

const LIST_HINT: &str = "see what there is with --list in place of -o";
