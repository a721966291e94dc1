//! Any command that computes with ggml as a shared library: it does its own work, and dwell watches.

use super::profile::{Ending, EngineProfile, ModelSource};

pub(super) const PROFILE: EngineProfile = EngineProfile {
    title: "command",
    about: "any program that has ggml as a shared library, by `dwell trace -- COMMAND`",
    takes_prompts: false,
    model: ModelSource::Own,
    // It may have started others, and have something to put in order.
    ending: Ending::Asked,
    ignores_end: false,
    follows_mmap: false,
    // It has its own; a given file tells only the shape of the model.
    options_of_requests: &["model"],
    options_at_start: &["time_resolution"],
    ..EngineProfile::LLAMA_PROGRAM
};
