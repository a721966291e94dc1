//! SGLang.

use super::profile::EngineProfile;

pub(super) const PROFILE: EngineProfile = EngineProfile {
    title: "SGLang",
    about: "an SGLang server",
    port: Some(30000),
    start_command: Some("python -m sglang.launch_server --model-path MODEL"),
    publishes_kv_events: true,
    publishes_metrics: true,
    reports_token_ids: true,
    counts_tokens: true,
    ignores_end: true,
    ..EngineProfile::OPENAI_API
};
