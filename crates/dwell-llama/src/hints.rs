//! What to do about each error.

use dwell_events::Hint;

use crate::EngineError;

impl Hint for EngineError {
    fn hints(&self) -> Vec<String> {
        match self {
            EngineError::OptionIsZero { option } => vec![format!("{} 1 or more", flag(option))],
            EngineError::OptionTooLarge { option, limit, .. } => vec![format!("{} {limit} or less", flag(option))],
            EngineError::Temperature { .. } => one("--temperature 0 for the likeliest token, 0.8 to draw"),
            EngineError::QuantizedValuesNeedFlashAttention { .. } => {
                vec!["--flash-attention on".into(), "--kv-type-v f16".into()]
            }
            EngineError::ModelUnreadable { .. } | EngineError::ModelNotAFile { .. } => {
                one("give the path of a .gguf file that you may read")
            }
            EngineError::NotGguf { .. } => one("convert the model with llama.cpp's convert_hf_to_gguf.py"),
            EngineError::ModelMemory { .. } => {
                vec!["--mmap on".into(), "use a smaller model".into()]
            }
            EngineError::ModelIncomplete { .. } => one("download the model again and compare its size and checksum"),
            EngineError::UnknownArchitecture { .. } => one("use a model whose architecture this llama.cpp knows"),
            EngineError::KvBlock { part, .. } => vec![format!("--kv-type-{} f16", &part[..1])],
            EngineError::ContextMemory { fitting_context_length, .. } if *fitting_context_length > 0 => {
                vec![format!("--context-length {fitting_context_length} or less"), "--kv-type-k q8_0".into()]
            }
            EngineError::ContextMemory { .. } | EngineError::ContextRefused { .. } => {
                one("use a smaller --context-length")
            }
            EngineError::NoChatTemplate | EngineError::UnknownChatTemplate { .. } => one("--chat-template off"),
            EngineError::FillTooShort { around, .. } => {
                vec![format!("--prompt-tokens {0} or more; of an action, fill_to_tokens {0}", around + 1)]
            }
            EngineError::PromptTooLong { .. } => vec![
                "use a larger --context-length or a shorter prompt".into(),
                "--context-shift does not help: a prompt has to fit as a whole".into(),
            ],
            EngineError::TapRefused { hints, .. } => hints.clone(),
            EngineError::NothingToContinue { .. } => one("put a prompt for this sequence before the generation"),
            EngineError::ShiftUnsupported { .. } => vec![
                "if the keys are quantised: --kv-type-k f16".into(),
                "--full-window-cache, if the model has sliding-window layers".into(),
            ],
            _ => Vec::new(),
        }
    }
}

fn one(hint: &str) -> Vec<String> {
    vec![hint.to_owned()]
}

/// The command-line flag of an option.
fn flag(option: &str) -> String {
    format!("--{}", option.replace('_', "-"))
}
