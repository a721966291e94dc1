//! Tiny models of many architectures. Each has its metadata here; llama.cpp says which tensors it wants, and they get
//! random values.

use std::path::{Path, PathBuf};

use crate::common::{dwell, text_of};
use dwell_gguf::testing::{VOCABULARY, write_model};
use dwell_gguf::{MetadataArray, MetadataValue, ValueType};
use serde_json::Value;

/// A number, or one for each layer, of a key below the architecture's name.
#[derive(Clone, Copy)]
pub enum Key {
    Number(&'static str, u32),
    Float(&'static str, f32),
    Flag(&'static str, bool),
    Numbers(&'static str, &'static [u32]),
}

/// An architecture, and how its tiny model differs from the plain one.
pub struct Tiny {
    pub architecture: &'static str,
    pub keys: &'static [&'static [Key]],
}

use Key::{Flag, Float, Number, Numbers};

/// Two layers of two heads of 32.
const PLAIN: &[Key] = &[
    Number("context_length", 512),
    Number("embedding_length", 64),
    Number("block_count", 2),
    Number("feed_forward_length", 96),
    Number("attention.head_count", 2),
    Number("attention.head_count_kv", 2),
    Float("attention.layer_norm_epsilon", 1e-5),
    Float("attention.layer_norm_rms_epsilon", 1e-5),
    Float("logit_scale", 1.0),
];

const EXPERTS: &[Key] = &[
    Number("expert_count", 4),
    Number("expert_used_count", 2),
    Number("expert_feed_forward_length", 96),
    Number("expert_shared_feed_forward_length", 64),
    Number("expert_shared_count", 1),
    Number("leading_dense_block_count", 1),
    Number("expert_gating_func", 2),
];

const WINDOW: &[Key] = &[
    Number("attention.sliding_window", 4),
    Number("attention.sliding_window_pattern", 2),
    Float("final_logit_softcapping", 30.0),
];

const LATENT: &[Key] = &[
    Number("attention.head_count_kv", 1),
    Number("attention.key_length", 48),
    Number("attention.value_length", 32),
    Number("attention.key_length_mla", 40),
    Number("attention.value_length_mla", 24),
    Number("attention.q_lora_rank", 24),
    Number("attention.kv_lora_rank", 32),
    Number("rope.dimension_count", 16),
];

const SCAN: &[Key] = &[
    Number("ssm.conv_kernel", 4),
    Number("ssm.inner_size", 128),
    Number("ssm.state_size", 16),
    Number("ssm.time_step_rank", 4),
    Number("ssm.group_count", 2),
];

const ONE_GROUP: &[Key] = &[Number("ssm.group_count", 0)];
const SECOND_ATTENDS: &[Key] = &[Numbers("attention.head_count", &[2, 2]), Numbers("attention.head_count_kv", &[0, 2])];
const HEADS_OF_32: &[Key] =
    &[Number("wkv.head_size", 32), Number("time_mix_extra_dim", 8), Number("time_decay_extra_dim", 8)];
const WKV7: &[Key] = &[
    Number("wkv.head_size", 32),
    Number("attention.decay_lora_rank", 8),
    Number("attention.iclr_lora_rank", 8),
    Number("attention.value_residual_mix_lora_rank", 8),
    Number("attention.gate_lora_rank", 8),
];
const DELTA_NET: &[Key] = &[
    Number("full_attention_interval", 2),
    Number("ssm.conv_kernel", 4),
    Number("ssm.inner_size", 64),
    Number("ssm.state_size", 16),
    Number("ssm.time_step_rank", 4),
    Number("ssm.group_count", 2),
    Number("attention.key_length", 32),
    Number("attention.value_length", 32),
];

const fn tiny(architecture: &'static str, keys: &'static [&'static [Key]]) -> Tiny {
    Tiny { architecture, keys }
}

/// Every architecture that is tried.
pub const ALL: &[Tiny] = &[
    tiny("llama", &[]),
    tiny("arcee", &[]),
    tiny("baichuan", &[]),
    tiny("bloom", &[]),
    tiny("cohere2", &[WINDOW]),
    tiny("command-r", &[]),
    tiny("dbrx", &[EXPERTS, &[Float("attention.clamp_kqv", 1.0)]]),
    tiny("deepseek", &[EXPERTS, &[Float("expert_weights_scale", 1.0)]]),
    tiny("deepseek2", &[EXPERTS, LATENT, &[Float("expert_weights_scale", 1.0)]]),
    tiny("exaone", &[]),
    tiny("falcon", &[]),
    tiny("falcon-h1", &[SCAN]),
    tiny("gemma", &[]),
    tiny("gemma2", &[WINDOW, &[Float("attn_logit_softcapping", 50.0)]]),
    tiny("gemma3", &[WINDOW]),
    tiny("glm4", &[&[Number("rope.dimension_count", 16)]]),
    tiny("gpt-oss", &[EXPERTS, WINDOW]),
    tiny("gpt2", &[]),
    tiny("gptneox", &[&[Flag("use_parallel_residual", true)]]),
    tiny("granite", &[]),
    tiny("granitehybrid", &[SCAN, SECOND_ATTENDS, &[Flag("rope.scaling.finetuned", true)]]),
    tiny("granitemoe", &[EXPERTS]),
    tiny("internlm2", &[]),
    tiny("jamba", &[SCAN, ONE_GROUP, SECOND_ATTENDS]),
    tiny("lfm2", &[SECOND_ATTENDS, &[Number("shortconv.l_cache", 3)]]),
    tiny("mamba", &[SCAN, ONE_GROUP]),
    tiny("mamba2", &[SCAN]),
    tiny("mpt", &[&[Float("attention.max_alibi_bias", 8.0), Float("attention.clamp_kqv", 1.0)]]),
    tiny("nemotron", &[]),
    tiny(
        "nemotron_h",
        &[
            SCAN,
            &[
                Number("block_count", 3),
                Numbers("feed_forward_length", &[0, 0, 96]),
                Numbers("attention.head_count_kv", &[0, 2, 0]),
                Number("attention.key_length", 32),
                Number("attention.value_length", 32),
            ],
        ],
    ),
    tiny("olmo", &[]),
    tiny("olmo2", &[]),
    tiny("olmoe", &[EXPERTS]),
    tiny("phi2", &[&[Number("rope.dimension_count", 16)]]),
    tiny("phi3", &[&[Number("rope.dimension_count", 16), Number("rope.scaling.original_context_length", 512)]]),
    tiny("qwen2", &[]),
    tiny("qwen2moe", &[EXPERTS]),
    tiny("qwen3", &[]),
    tiny("qwen3moe", &[EXPERTS]),
    tiny("qwen3next", &[EXPERTS, DELTA_NET]),
    tiny("rwkv6", &[HEADS_OF_32]),
    tiny("rwkv7", &[WKV7]),
    tiny("seed_oss", &[]),
    tiny("smollm3", &[]),
    tiny("stablelm", &[&[Number("rope.dimension_count", 16), Flag("use_parallel_residual", true)]]),
    tiny("starcoder", &[]),
    tiny("starcoder2", &[]),
];

impl Tiny {
    /// Writes the model into a folder; what llama.cpp has against its metadata otherwise.
    pub fn make(&self, folder: &Path) -> Result<PathBuf, String> {
        let (metadata, model) = (folder.join("metadata.gguf"), folder.join("model.gguf"));
        let values = self.values();
        write_model(&metadata, &values, &[]).unwrap();
        let output = dwell().args(["model", "tensors"]).arg(&metadata).output().unwrap();
        if !output.status.success() {
            return Err(text_of(&output));
        }
        let wanted: Value = serde_json::from_slice(&output.stdout).unwrap();
        let tensors: Vec<(String, Vec<u64>)> = wanted.as_array().unwrap().iter().map(tensor).collect();
        write_model(&model, &values, &tensors).unwrap();
        Ok(model)
    }

    fn values(&self) -> Vec<(String, MetadataValue)> {
        let mut keys: Vec<Key> = PLAIN.to_vec();
        for &key in self.keys.iter().copied().flatten() {
            keys.retain(|known| known.name() != key.name());
            keys.push(key);
        }
        let mut values = vec![
            ("general.architecture".to_owned(), MetadataValue::Text(self.architecture.to_owned())),
            (format!("{}.vocab_size", self.architecture), MetadataValue::U32(VOCABULARY)),
        ];
        values.extend(keys.iter().map(|key| (format!("{}.{}", self.architecture, key.name()), key.value())));
        values
    }
}

fn tensor(wanted: &Value) -> (String, Vec<u64>) {
    let dimensions = wanted["dimensions"].as_array().unwrap().iter().map(|entries| entries.as_u64().unwrap()).collect();
    (wanted["name"].as_str().unwrap().to_owned(), dimensions)
}

impl Key {
    fn name(&self) -> &'static str {
        match *self {
            Number(name, _) | Float(name, _) | Flag(name, _) | Numbers(name, _) => name,
        }
    }

    fn value(&self) -> MetadataValue {
        match *self {
            Number(_, number) => MetadataValue::U32(number),
            Float(_, number) => MetadataValue::F32(number),
            Flag(_, flag) => MetadataValue::Bool(flag),
            Numbers(_, numbers) => MetadataValue::Array(MetadataArray {
                element_type: ValueType::U32,
                count: numbers.len() as u64,
                elements: Some(numbers.iter().map(|&number| MetadataValue::U32(number)).collect()),
            }),
        }
    }
}
