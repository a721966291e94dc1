//! `llama-server`, the HTTP server of llama.cpp.

use super::profile::{EngineProfile, ModelSource, Reach};

pub(super) const PROFILE: EngineProfile = EngineProfile {
    about: "an unmodified llama-server",
    reach: Reach::StartedOrJoined,
    model: ModelSource::FileUnlessJoined,
    programs: &["llama-server"],
    port: Some(8080),
    start_command: Some("llama-server -m MODEL.gguf"),
    publishes_metrics: true,
    reports_token_ids: true,
    counts_tokens: true,
    answers_side_by_side: true,
    options_at_start: &[
        "context_length",
        "threads",
        "batch_size",
        "micro_batch_size",
        "kv_unified",
        "kv_type_k",
        "kv_type_v",
        "flash_attention",
        "mmap",
        "repack",
        "full_window_cache",
        "context_shift",
        "time_resolution",
    ],
    ..EngineProfile::LLAMA_PROGRAM
};
