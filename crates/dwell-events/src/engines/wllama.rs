//! wllama: llama.cpp in WebAssembly.

use super::profile::{EngineProfile, ModelSource};

pub(super) const PROFILE: EngineProfile = EngineProfile {
    title: "wllama",
    about: "llama.cpp in WebAssembly, in a page of headless Chromium",
    model: ModelSource::File,
    ignores_end: true,
    options_of_requests: &["model", "chat_template", "seed", "temperature", "ignore_end"],
    options_at_start: &["context_length", "threads"],
    ..EngineProfile::IN_BROWSER
};
