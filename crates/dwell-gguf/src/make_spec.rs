//! What a made model looks like, and which shapes are possible.

use serde::{Deserialize, Serialize};

use crate::GgmlType;
use crate::model_shape::MOST_LAYERS;
use crate::spec_error::SpecError;
use crate::tokenizer::LEAST_VOCABULARY;

/// Most experts that llama.cpp can load.
const MOST_EXPERTS: u32 = 1024;
/// Beyond this the scores of the tokens, 32-bit floats, would no longer differ.
const MOST_VOCABULARY: u32 = 1 << 24;

/// Architecture of a made model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MakeArchitecture {
    /// Plain attention; dense or with experts.
    Llama,
    /// With a window, every second layer attends only to the latest positions.
    Gemma3,
}

impl MakeArchitecture {
    /// Every architecture.
    pub const ALL: [MakeArchitecture; 2] = [MakeArchitecture::Llama, MakeArchitecture::Gemma3];

    /// The name used on the command line and in the file.
    pub fn name(self) -> &'static str {
        match self {
            MakeArchitecture::Llama => "llama",
            MakeArchitecture::Gemma3 => "gemma3",
        }
    }
}

/// Type of the matrices of a made model. Norms and the routers of experts are always 32-bit floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightType {
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    F16,
    /// 8-bit blocks of 32.
    Q8_0,
    /// 4-bit blocks of 32 with a scale.
    Q4_0,
    /// 4-bit blocks of 32 with a scale and a minimum.
    Q4_1,
    /// 4-bit super-blocks of 256.
    #[expect(non_camel_case_types, reason = "this is how ggml writes it")]
    Q4_K,
}

impl WeightType {
    /// Every type, widest first.
    pub const ALL: [WeightType; 6] =
        [WeightType::F32, WeightType::F16, WeightType::Q8_0, WeightType::Q4_1, WeightType::Q4_0, WeightType::Q4_K];

    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            WeightType::F32 => "f32",
            WeightType::F16 => "f16",
            WeightType::Q8_0 => "q8_0",
            WeightType::Q4_0 => "q4_0",
            WeightType::Q4_1 => "q4_1",
            WeightType::Q4_K => "q4_k",
        }
    }

    /// The tensor type in the file.
    pub fn ggml_type(self) -> GgmlType {
        match self {
            WeightType::F32 => GgmlType::F32,
            WeightType::F16 => GgmlType::F16,
            WeightType::Q8_0 => GgmlType::Q8_0,
            WeightType::Q4_0 => GgmlType::Q4_0,
            WeightType::Q4_1 => GgmlType::Q4_1,
            WeightType::Q4_K => GgmlType::Q4_K,
        }
    }

    /// Number of llama.cpp for a file whose matrices have this type.
    pub(crate) fn file_type(self) -> u32 {
        match self {
            WeightType::F32 => 0,
            WeightType::F16 => 1,
            WeightType::Q4_0 => 2,
            WeightType::Q4_1 => 3,
            WeightType::Q8_0 => 7,
            WeightType::Q4_K => 14,
        }
    }
}

/// Shape of a model to make. [`MakePlan::new`](crate::MakePlan::new) checks it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakeSpec {
    /// Architecture.
    pub architecture: MakeArchitecture,
    /// Layers.
    pub layers: u32,
    /// Values per token between the layers.
    pub embedding: u32,
    /// Heads that ask.
    pub heads: u32,
    /// Heads that keep keys and values; the heads that ask are a multiple of them.
    pub kv_heads: u32,
    /// Values per head; `None` divides the embedding among the heads.
    pub head_dim: Option<u32>,
    /// Values in the middle of the feed-forward network, or of each expert.
    pub feed_forward: u32,
    /// Tokens.
    pub vocabulary: u32,
    /// Context length that the file claims to be trained for.
    pub context: u32,
    /// Experts per layer; 0 for a dense model.
    pub experts: u32,
    /// Experts that each token uses; 0 for a dense model.
    pub experts_used: u32,
    /// Whether the output matrix is the embedding matrix.
    pub tied_output: bool,
    /// Type of the matrices.
    pub weight_type: WeightType,
    /// Positions that the windowed layers of [`MakeArchitecture::Gemma3`] see; `None` for no windowed layers.
    pub window: Option<u32>,
    /// The weights follow from this.
    pub seed: u64,
}

impl Default for MakeSpec {
    /// A dense model of 4 layers and about 0.2 million parameters.
    fn default() -> MakeSpec {
        MakeSpec {
            architecture: MakeArchitecture::Llama,
            layers: 4,
            embedding: 64,
            heads: 4,
            kv_heads: 2,
            head_dim: None,
            feed_forward: 128,
            vocabulary: 512,
            context: 2048,
            experts: 0,
            experts_used: 0,
            tied_output: true,
            weight_type: WeightType::F16,
            window: None,
            seed: 0,
        }
    }
}

impl MakeSpec {
    /// Values per head, given or following from the embedding.
    pub fn head_dim(&self) -> u32 {
        self.head_dim.unwrap_or_else(|| self.embedding / self.heads.max(1))
    }

    /// Values of all heads together.
    pub(crate) fn attention_values(&self) -> u64 {
        u64::from(self.heads) * u64::from(self.head_dim())
    }

    /// Whether a model can have this shape and llama.cpp can load it.
    pub fn check(&self) -> Result<(), SpecError> {
        self.check_limits()?;
        self.check_heads()?;
        self.check_experts()?;
        self.check_architecture()?;
        self.check_rows()
    }

    fn check_limits(&self) -> Result<(), SpecError> {
        let not_zero = [
            ("layers", self.layers),
            ("embedding", self.embedding),
            ("heads", self.heads),
            ("kv heads", self.kv_heads),
            ("head dim", self.head_dim.unwrap_or(1)),
            ("feed forward", self.feed_forward),
            ("context", self.context),
            ("window", self.window.unwrap_or(1)),
        ];
        if let Some((what, _)) = not_zero.into_iter().find(|(_, value)| *value == 0) {
            return Err(SpecError::Zero { what });
        }
        let limited = [
            ("layers", self.layers, MOST_LAYERS),
            ("experts", self.experts, MOST_EXPERTS),
            ("vocabulary", self.vocabulary, MOST_VOCABULARY),
        ];
        for (what, found, most) in limited {
            if found > most {
                return Err(SpecError::TooMany { what, found, most });
            }
        }
        if self.vocabulary < LEAST_VOCABULARY {
            return Err(SpecError::VocabularyTooSmall { found: self.vocabulary, least: LEAST_VOCABULARY });
        }
        Ok(())
    }

    fn check_heads(&self) -> Result<(), SpecError> {
        let &MakeSpec { embedding, heads, kv_heads, head_dim, .. } = self;
        if head_dim.is_none() && !embedding.is_multiple_of(heads) {
            return Err(SpecError::HeadsDoNotDivideEmbedding { embedding, heads });
        }
        if !heads.is_multiple_of(kv_heads) {
            return Err(SpecError::KvHeadsDoNotDivideHeads { heads, kv_heads });
        }
        let head_dim = self.head_dim();
        if head_dim.is_multiple_of(2) { Ok(()) } else { Err(SpecError::OddHeadDim { head_dim }) }
    }

    fn check_experts(&self) -> Result<(), SpecError> {
        let &MakeSpec { experts, experts_used: used, .. } = self;
        if used > experts || (used == 0) != (experts == 0) {
            return Err(SpecError::ExpertsUsed { experts, used });
        }
        Ok(())
    }

    fn check_architecture(&self) -> Result<(), SpecError> {
        let architecture = self.architecture;
        let (what, needed) = match architecture {
            MakeArchitecture::Llama if self.window.is_some() => ("a window", MakeArchitecture::Gemma3),
            MakeArchitecture::Gemma3 if self.experts > 0 => ("experts", MakeArchitecture::Llama),
            _ => return Ok(()),
        };
        Err(SpecError::NotInArchitecture { what, architecture, needed })
    }

    fn check_rows(&self) -> Result<(), SpecError> {
        let weight_type = self.weight_type;
        let block_values = weight_type.ggml_type().block_values;
        let rows = [
            ("embedding", self.embedding.into()),
            ("heads x head dim", self.attention_values()),
            ("feed forward", self.feed_forward.into()),
        ];
        match rows.into_iter().find(|(_, row_values): &(_, u64)| !row_values.is_multiple_of(block_values)) {
            Some((what, row_values)) => {
                Err(SpecError::RowNotWholeBlocks { what, row_values, block_values, weight_type })
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use dwell_events::Hint;

    use super::*;

    /// The message for the default shape with one change.
    fn refusal(change: impl FnOnce(&mut MakeSpec)) -> String {
        let mut spec = MakeSpec::default();
        spec.check().unwrap();
        change(&mut spec);
        spec.check().unwrap_err().to_string()
    }

    #[test]
    fn impossible_shapes_are_refused_with_what_was_found_and_needed() {
        let refused = [
            (refusal(|spec| spec.layers = 0), "layers is 0, needed at least 1"),
            (refusal(|spec| spec.layers = 513), "layers is 513, needed at most 512"),
            (refusal(|spec| spec.experts = 1025), "experts is 1025, needed at most 1024"),
            (refusal(|spec| spec.vocabulary = u32::MAX), "vocabulary is 4294967295, needed at most 16777216"),
            (refusal(|spec| spec.window = Some(0)), "window is 0, needed at least 1"),
            (refusal(|spec| spec.heads = 3), "an embedding of 64 among 3 heads, needed a multiple or a head dim"),
            (refusal(|spec| spec.kv_heads = 3), "4 heads for 3 kv heads, needed a multiple"),
            (refusal(|spec| spec.kv_heads = 8), "4 heads for 8 kv heads, needed a multiple"),
            (refusal(|spec| spec.head_dim = Some(9)), "a head dim of 9, needed an even one"),
            (refusal(|spec| spec.vocabulary = 259), "a vocabulary of 259, needed at least 260"),
            (refusal(|spec| spec.experts = 8), "0 of 8 experts used, needed 1 to 8"),
            (refusal(|spec| spec.experts_used = 2), "2 of 0 experts used, needed 0 in a dense model"),
            (refusal(|spec| (spec.experts, spec.experts_used) = (2, 3)), "3 of 2 experts used, needed 1 to 2"),
            (refusal(|spec| spec.window = Some(8)), "a window in architecture llama, needed gemma3"),
        ];
        for (message, reason) in refused {
            assert_eq!(message, format!("checking the shape: {reason}"));
        }
    }

    #[test]
    fn experts_are_refused_where_the_architecture_has_none() {
        let message = refusal(|spec| {
            spec.architecture = MakeArchitecture::Gemma3;
            (spec.experts, spec.experts_used) = (8, 2);
        });
        assert_eq!(message, "checking the shape: experts in architecture gemma3, needed llama");
    }

    #[test]
    fn heads_that_do_not_divide_the_embedding_are_refused_with_one_that_they_do() {
        let error = MakeSpec { heads: 3, embedding: 256, ..MakeSpec::default() }.check().unwrap_err();
        let hint = "choose a multiple of twice the heads: --embedding 252; or set the width of a head: --head-size 64";
        assert_eq!(error.hints(), [hint]);
        let fitting = MakeSpec { heads: 3, kv_heads: 3, embedding: 252, ..MakeSpec::default() };
        assert_eq!(fitting.check(), Ok(()));
    }

    #[test]
    fn a_row_that_is_not_whole_blocks_is_refused_with_the_nearest_that_are() {
        let spec = MakeSpec { weight_type: WeightType::Q8_0, feed_forward: 100, ..MakeSpec::default() };
        let error = spec.check().unwrap_err();
        let message = "checking the shape: feed forward gives rows of 100 values, needed a multiple of 32 for q8_0";
        assert_eq!(error.to_string(), message);
        assert_eq!(error.hints(), ["choose rows of 96 or 128 values, or the weight type f16"]);
    }
}
