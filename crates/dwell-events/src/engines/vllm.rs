//! vLLM.

use super::profile::EngineProfile;

pub(super) const PROFILE: EngineProfile = EngineProfile {
    title: "vLLM",
    about: "a vLLM server",
    start_command: Some("vllm serve MODEL"),
    ..EngineProfile::INFERENCE_SERVER
};
