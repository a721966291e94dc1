//! SGLang.

use super::profile::EngineProfile;

pub(super) const PROFILE: EngineProfile = EngineProfile {
    title: "SGLang",
    about: "an SGLang server",
    port: Some(30000),
    start_command: Some("python -m sglang.launch_server --model-path MODEL"),
    ..EngineProfile::INFERENCE_SERVER
};
