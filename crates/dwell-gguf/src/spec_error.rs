//! Why a shape cannot be made.

use dwell_events::Hint;
use thiserror::Error;

use crate::{MakeArchitecture, WeightType};

/// A shape that no model can have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A number that must not be 0 is 0.
    #[error("checking the shape: {what} is 0, needed at least 1")]
    Zero {
        /// The number.
        what: &'static str,
    },

    /// A number is larger than llama.cpp can load.
    #[error("checking the shape: {what} is {found}, needed at most {most}")]
    TooMany {
        /// The number.
        what: &'static str,
        /// Its value.
        found: u32,
        /// Its largest possible value.
        most: u32,
    },

    /// The embedding cannot be divided among the heads.
    #[error("checking the shape: an embedding of {embedding} among {heads} heads, needed a multiple or a head dim")]
    HeadsDoNotDivideEmbedding {
        /// Embedding.
        embedding: u32,
        /// Heads.
        heads: u32,
    },

    /// Heads cannot share keys and values evenly.
    #[error("checking the shape: {heads} heads for {kv_heads} kv heads, needed a multiple")]
    KvHeadsDoNotDivideHeads {
        /// Heads.
        heads: u32,
        /// Heads that keep keys and values.
        kv_heads: u32,
    },

    /// Positions are rotated in pairs of values.
    #[error("checking the shape: a head dim of {head_dim}, needed an even one")]
    OddHeadDim {
        /// Values per head.
        head_dim: u32,
    },

    /// A row would end inside a block.
    #[error("checking the shape: {what} gives rows of {row_values} values, needed a multiple of {block_values} for {}",
        weight_type.name())]
    RowNotWholeBlocks {
        /// Numbers that the row follows from.
        what: &'static str,
        /// Values in a row.
        row_values: u64,
        /// Values in a block.
        block_values: u64,
        /// Type of the matrices.
        weight_type: WeightType,
    },

    /// The tokens that every text needs do not fit.
    #[error("checking the shape: a vocabulary of {found}, needed at least {least}")]
    VocabularyTooSmall {
        /// Tokens asked for.
        found: u32,
        /// Special tokens, bytes and the space.
        least: u32,
    },

    /// Experts and experts used contradict each other.
    #[error("checking the shape: {used} of {experts} experts used, needed {}",
        if *experts == 0 { "0 in a dense model".to_owned() } else { format!("1 to {experts}") })]
    ExpertsUsed {
        /// Experts per layer.
        experts: u32,
        /// Experts used by each token.
        used: u32,
    },

    /// The architecture does not have this.
    #[error("checking the shape: {what} in architecture {}, needed {}", architecture.name(), needed.name())]
    NotInArchitecture {
        /// What was asked for.
        what: &'static str,
        /// Architecture asked for.
        architecture: MakeArchitecture,
        /// Architecture that has it.
        needed: MakeArchitecture,
    },

    /// The file would have more bytes than can be counted.
    #[error("checking the shape: the file would take 2^63 bytes or more")]
    TooLarge,
}

impl Hint for SpecError {
    fn hints(&self) -> Vec<String> {
        match self {
            SpecError::RowNotWholeBlocks { row_values, block_values, .. } => {
                let (below, above) =
                    (row_values / block_values * block_values, row_values.next_multiple_of(*block_values));
                let nearest = if below == 0 { format!("{above}") } else { format!("{below} or {above}") };
                vec![format!("choose rows of {nearest} values, or the weight type f16")]
            }
            SpecError::HeadsDoNotDivideEmbedding { embedding, heads } => vec![format!(
                "choose a multiple of twice the heads: --embedding {}; or set the width of a head: --head-size 64",
                nearest_embedding(*embedding, *heads)
            )],
            SpecError::KvHeadsDoNotDivideHeads { heads, .. } => {
                vec![format!("choose a divisor of the heads: --kv-heads {heads}")]
            }
            SpecError::NotInArchitecture { needed, .. } => vec![format!("choose the architecture {}", needed.name())],
            _ => Vec::new(),
        }
    }
}

/// The largest width below that gives every head the same even number of values, or the least.
fn nearest_embedding(embedding: u32, heads: u32) -> u64 {
    let step = 2 * u64::from(heads);
    (u64::from(embedding) / step).max(1) * step
}
