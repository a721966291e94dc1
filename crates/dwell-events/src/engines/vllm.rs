//! vLLM.

use super::profile::{Ending, EngineProfile, ModelSource, Reach};

pub(super) const PROFILE: EngineProfile = EngineProfile {
    title: "vLLM",
    about: "a vLLM server",
    reach: Reach::StartedOrJoined,
    model: ModelSource::FolderOrName,
    programs: &["vllm"],
    // Its engine and its workers are processes of their own.
    ending: Ending::Asked,
    options_at_start: &["context_length"],
    start_command: Some("vllm serve MODEL"),
    ..EngineProfile::INFERENCE_SERVER
};
