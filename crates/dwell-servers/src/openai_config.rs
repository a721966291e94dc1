//! What one token takes of a KV cache, by the configuration that lies beside a model's weights.
//!
//! vLLM and SGLang say where they have a model from, not how many layers and heads it has. On the same machine that is in
//! `config.json` of the model's folder, or of the cache of downloads.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Bytes of one value in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KvWidth {
    /// That of the model's weights.
    AsModel,
    /// A number.
    Bytes(u64),
}

impl KvWidth {
    /// By the name of a type; `None` for one that takes no whole bytes, or is not known.
    pub(crate) fn named(name: Option<&str>) -> Option<Self> {
        match name {
            None | Some("auto") => Some(KvWidth::AsModel),
            Some(name) => bytes_of(name).map(KvWidth::Bytes),
        }
    }
}

fn bytes_of(name: &str) -> Option<u64> {
    match name.strip_prefix("torch.").unwrap_or(name) {
        "float32" | "float" => Some(4),
        "float16" | "half" | "bfloat16" | "bf16" | "fp16" => Some(2),
        name if name.starts_with("fp8") || name.starts_with("float8") || name == "int8" => Some(1),
        _ => None,
    }
}

#[derive(Deserialize)]
struct ModelConfig {
    num_hidden_layers: Option<u64>,
    num_attention_heads: Option<u64>,
    num_key_value_heads: Option<u64>,
    head_dim: Option<u64>,
    hidden_size: Option<u64>,
    #[serde(alias = "dtype")]
    torch_dtype: Option<String>,
    /// Layers of several kinds keep different amounts.
    layer_types: Option<Vec<String>>,
    /// Latent attention keeps something else than keys and values.
    kv_lora_rank: Option<u64>,
    /// Models that see have the text's part apart.
    text_config: Option<Box<ModelConfig>>,
}

impl ModelConfig {
    fn kv_bytes_per_token(&self, width: KvWidth) -> Option<u64> {
        if let Some(text) = &self.text_config {
            return text.kv_bytes_per_token(width);
        }
        let kinds_differ = self.layer_types.iter().flatten().any(|kind| kind != "full_attention");
        if self.kv_lora_rank.is_some() || kinds_differ {
            return None;
        }
        let heads = self.num_attention_heads?;
        let head_dim = self.head_dim.or_else(|| self.hidden_size?.checked_div(heads))?;
        let value_bytes = match width {
            KvWidth::Bytes(bytes) => bytes,
            KvWidth::AsModel => bytes_of(self.torch_dtype.as_deref()?)?,
        };
        let factors = [self.num_hidden_layers?, self.num_key_value_heads.unwrap_or(heads), head_dim, value_bytes];
        factors.into_iter().try_fold(2_u64, u64::checked_mul)
    }
}

/// Bytes that keys and values of one token take in a model on this machine, by its folder or its name. A folder may be
/// relative to the one that the server was started in.
pub(crate) fn kv_bytes_per_token_of(model: &str, server_folder: Option<&Path>, width: KvWidth) -> Option<u64> {
    let text = config_files(model, server_folder).into_iter().find_map(|path| fs::read(path).ok())?;
    serde_json::from_slice::<ModelConfig>(&text).ok()?.kv_bytes_per_token(width)
}

/// Places of a model's configuration, likeliest first.
fn config_files(model: &str, server_folder: Option<&Path>) -> Vec<PathBuf> {
    let beside = Path::new(model).join("config.json");
    if Path::new(model).is_absolute() {
        return vec![beside];
    }
    let relative = server_folder.map(|folder| folder.join(beside));
    let snapshots = download_cache()
        .map(|cache| cache.join(format!("models--{}", model.replace('/', "--"))))
        .map(|dir| dir.join("snapshots"));
    let found = snapshots.and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten().flatten();
    relative.into_iter().chain(found.map(|entry| entry.path().join("config.json"))).collect()
}

/// The folder into which Hugging Face's library downloads models.
fn download_cache() -> Option<PathBuf> {
    let variable = |name| env::var_os(name).map(PathBuf::from);
    variable("HF_HUB_CACHE")
        .or_else(|| variable("HF_HOME").map(|home| home.join("hub")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/huggingface/hub")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn bytes(config: &str, width: Option<&str>) -> Option<u64> {
        serde_json::from_str::<ModelConfig>(config).unwrap().kv_bytes_per_token(KvWidth::named(width)?)
    }

    /// SmolLM2 of 135 M: 30 layers, 3 of 9 heads with 64 values each, in two bytes: 23,040 bytes for keys and for values.
    const SMOLLM2: &str = r#"{"num_hidden_layers":30,"num_attention_heads":9,"num_key_value_heads":3,
        "hidden_size":576,"torch_dtype":"bfloat16"}"#;

    #[test]
    fn keys_and_values_of_all_layers_count() {
        assert_eq!(bytes(SMOLLM2, None), Some(2 * 30 * 3 * 64 * 2));
        assert_eq!(bytes(SMOLLM2, Some("auto")), Some(23_040));
        assert_eq!(bytes(SMOLLM2, Some("fp8_e4m3")), Some(11_520));
        assert_eq!(bytes(SMOLLM2, Some("float32")), Some(46_080));
    }

    #[test]
    fn a_given_head_size_and_a_nested_configuration_are_used() {
        let nested =
            r#"{"text_config":{"num_hidden_layers":2,"num_attention_heads":4,"head_dim":128,"dtype":"float16"}}"#;
        assert_eq!(bytes(nested, None), Some(2 * 2 * 4 * 128 * 2));
    }

    #[test]
    fn what_cannot_be_said_is_not_said() {
        let windowed = SMOLLM2.replace("}", r#","layer_types":["full_attention","sliding_attention"]}"#);
        let latent = SMOLLM2.replace("}", r#","kv_lora_rank":512}"#);
        for (config, width) in
            [(windowed.as_str(), None), (latent.as_str(), None), (SMOLLM2, Some("nvfp4")), ("{}", None)]
        {
            assert_eq!(bytes(config, width), None, "{config} {width:?}");
        }
    }

    #[test]
    fn a_folder_is_read_and_a_missing_one_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), SMOLLM2).unwrap();
        let bytes = |model: &str, server_folder| kv_bytes_per_token_of(model, server_folder, KvWidth::AsModel);
        assert_eq!(bytes(folder.path().to_str().unwrap(), None), Some(23_040));
        assert_eq!(bytes("/nowhere", None), None);
        let (above, name) = (folder.path().parent(), folder.path().file_name().unwrap().to_str().unwrap());
        assert_eq!(bytes(name, above), Some(23_040), "relative to the folder of the server");
        assert_eq!(bytes(name, None), None);
    }
}
