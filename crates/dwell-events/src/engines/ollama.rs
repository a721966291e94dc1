//! Ollama.

use super::profile::{Ending, EngineProfile, ModelSource, Reach, RecorderAccess};

pub(super) const PROFILE: EngineProfile = EngineProfile {
    title: "Ollama",
    about: "Ollama, with its runner",
    reach: Reach::StartedOrJoined,
    model: ModelSource::FileOrName,
    recorder: RecorderAccess::Preloaded,
    programs: &["ollama"],
    port: Some(11434),
    start_command: Some("ollama serve"),
    missing_model: &["ollama pull {name}", "or make it of a file: ollama create {name} -f Modelfile"],
    // It leaves its runner behind when it is killed.
    ending: Ending::Asked,
    unloads: true,
    // It loads the model anew for another context length or number of threads.
    takes_options_per_request: true,
    options_of_requests: &[
        "model",
        "parallel",
        "chat_template",
        "seed",
        "temperature",
        "context_length",
        "threads",
        "batch_size",
        "mmap",
        "context_shift",
    ],
    options_at_start: &["kv_type_k", "kv_type_v", "flash_attention", "time_resolution"],
    ..EngineProfile::OPENAI_API
};
