//! vLLM.

use super::profile::EngineProfile;

pub(super) const PROFILE: EngineProfile = EngineProfile {
    title: "vLLM",
    about: "a vLLM server",
    start_command: Some("vllm serve MODEL"),
    publishes_kv_events: true,
    publishes_metrics: true,
    reports_token_ids: true,
    counts_tokens: true,
    ignores_end: true,
    ..EngineProfile::OPENAI_API
};
