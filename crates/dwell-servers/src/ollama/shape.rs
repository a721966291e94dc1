//! What one token takes of the cache, by what Ollama says of a model and of its runner.

use dwell_events::engine::KvType;
use dwell_process::ProcessLine;

use super::api::Shown;

/// Options of the runner that name the type of the keys, and of the values; the last one names both.
const KEY_TYPE: [&str; 3] = ["--cache-type-k", "-ctk", "--kv-cache-type"];
const VALUE_TYPE: [&str; 3] = ["--cache-type-v", "-ctv", "--kv-cache-type"];
const SLOTS: [&str; 3] = ["-np", "--parallel", "--n-parallel"];

/// How the runner of the model was started, by its command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RunnerSettings {
    pub(super) kv_type_k: Option<String>,
    pub(super) kv_type_v: Option<String>,
    pub(super) slots: Option<u32>,
}

impl RunnerSettings {
    /// Of the runner in a tree of processes whose first is the server; nothing if there is none.
    pub(super) fn of(tree: &[ProcessLine]) -> Self {
        let Some(runner) = tree.iter().skip(1).find(|line| is_runner(line)) else { return Self::default() };
        let given = |names: &[&str]| {
            let at = runner.command_line.iter().position(|word| names.contains(&word.as_str()))?;
            runner.command_line.get(at + 1).cloned()
        };
        let or_usual = |given: Option<String>| given.or_else(|| Some(KvType::F16.name().to_owned()));
        Self {
            kv_type_k: or_usual(given(&KEY_TYPE)),
            kv_type_v: or_usual(given(&VALUE_TYPE)),
            slots: given(&SLOTS).and_then(|slots| slots.parse().ok()),
        }
    }
}

/// Runners are given a model; other children of the server are not.
fn is_runner(line: &ProcessLine) -> bool {
    line.command_line.iter().any(|word| word == "--model" || word == "-m")
}

/// Bytes of keys and values of one token; `None` if the metadata does not say enough.
pub(super) fn kv_bytes_per_token(shown: &Shown, keys: Option<&str>, values: Option<&str>) -> Option<u64> {
    let (keys, values) = (KvType::from_name(keys?)?, KvType::from_name(values?)?);
    let layers = shown.number("block_count")?;
    // A list, if layers differ; it is left out of the answer, and so is this.
    let kv_heads = shown.number("attention.head_count_kv")?;
    let head_length = shown.number("embedding_length")?.checked_div(shown.number("attention.head_count")?);
    let key_length = shown.number("attention.key_length").or(head_length)?;
    let value_length = shown.number("attention.value_length").or(head_length)?;
    let key_bytes = keys.row_bytes(kv_heads.checked_mul(key_length)?)?;
    let value_bytes = values.row_bytes(kv_heads.checked_mul(value_length)?)?;
    layers.checked_mul(key_bytes.checked_add(value_bytes)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    /// What `/api/show` says of SmolLM2 of 135 M, shortened.
    fn smollm2(more: &str) -> Shown {
        let json = format!(
            r##"{{"modelfile":"# a comment\nFROM /models/blobs/sha256-b179\nTEMPLATE x","model_info":{{
                "general.architecture":"llama","llama.attention.head_count":9,"llama.attention.head_count_kv":3,
                "llama.block_count":30,"llama.embedding_length":576{more}}}}}"##
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn bytes_per_token_are_those_of_the_cache_that_the_runner_prints() {
        // 1024 cells in q8_0 are printed as 11.95 MiB, and 12,240 × 1024 bytes are that.
        assert_eq!(kv_bytes_per_token(&smollm2(""), Some("q8_0"), Some("q8_0")), Some(12_240));
        assert_eq!(kv_bytes_per_token(&smollm2(""), Some("f16"), Some("f16")), Some(23_040));
    }

    #[test]
    fn given_lengths_of_heads_are_used() {
        let shown = smollm2(r#","llama.attention.key_length":128,"llama.attention.value_length":32"#);
        assert_eq!(kv_bytes_per_token(&shown, Some("f16"), Some("f16")), Some(30 * 3 * (128 + 32) * 2));
    }

    #[test]
    fn what_is_not_said_is_not_guessed() {
        assert_eq!(kv_bytes_per_token(&smollm2(""), None, Some("f16")), None);
        assert_eq!(kv_bytes_per_token(&smollm2(""), Some("iq4_nl"), Some("f16")), None);
        let listed = r#"{"model_info":{"general.architecture":"g","g.block_count":2,"g.attention.head_count_kv":[]}}"#;
        assert_eq!(kv_bytes_per_token(&serde_json::from_str(listed).unwrap(), Some("f16"), Some("f16")), None);
    }

    #[test]
    fn the_file_is_the_one_of_the_modelfile() {
        assert_eq!(smollm2("").model_path().unwrap().to_str(), Some("/models/blobs/sha256-b179"));
        let by_name: Shown = serde_json::from_str(r#"{"modelfile":"FROM smol:latest"}"#).unwrap();
        assert_eq!(by_name.model_path(), None);
    }

    #[test]
    fn the_runner_says_how_it_was_started() {
        let line = |pid, words: &str| ProcessLine {
            pid,
            parent: 1,
            name: "x".to_owned(),
            command_line: words.split(' ').map(str::to_owned).collect(),
        };
        let server = line(10, "ollama serve");
        let new = line(11, "llama-server --model m -c 1024 -np 2 --cache-type-k q8_0 --cache-type-v q4_0");
        let expected =
            RunnerSettings { kv_type_k: Some("q8_0".into()), kv_type_v: Some("q4_0".into()), slots: Some(2) };
        assert_eq!(RunnerSettings::of(&[server.clone(), new]), expected);
        let old = line(12, "ollama runner --model m --kv-cache-type q8_0 --parallel 1");
        let expected =
            RunnerSettings { kv_type_k: Some("q8_0".into()), kv_type_v: Some("q8_0".into()), slots: Some(1) };
        assert_eq!(RunnerSettings::of(&[server.clone(), old]), expected);
        assert_eq!(RunnerSettings::of(&[server]), RunnerSettings::default());
    }
}
