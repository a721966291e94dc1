//! What is remembered of a sequence between actions.

use dwell_events::engine::EngineOptions;

use crate::sampler::Sampler;
use crate::utf8::Utf8Assembler;

/// How a sequence goes on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Next {
    /// Nothing was processed, or what was processed last has been removed.
    Unknown,
    /// From these logits a token can be chosen.
    Logits {
        /// One for each token of the vocabulary.
        values: Vec<f32>,
        /// Step that computed them.
        step: u32,
    },
    /// This token was chosen and is not in the cache yet.
    Token(i32),
}

/// A sequence beside its cells.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) sampler: Sampler,
    pub(crate) text: Utf8Assembler,
    pub(crate) next: Next,
    /// Whether its first cell holds the model's first token, which a context shift keeps.
    pub(crate) has_first_token: bool,
}

impl Sequence {
    pub(crate) fn new(index: u32, options: &EngineOptions) -> Sequence {
        Sequence {
            sampler: Sampler::new(options.temperature, options.seed.wrapping_add(index)),
            text: Utf8Assembler::default(),
            next: Next::Unknown,
            has_first_token: false,
        }
    }

    /// The chosen token that is not in the cache yet.
    pub(crate) fn pending(&self) -> Option<i32> {
        match self.next {
            Next::Token(id) => Some(id),
            _ => None,
        }
    }
}
