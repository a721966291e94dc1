//! The llama.cpp that dwell is linked with.

use super::profile::{EngineProfile, Reach, RecorderAccess};

pub(super) const PROFILE: EngineProfile = EngineProfile {
    about: "the llama.cpp that dwell is linked with",
    reach: Reach::Embedded,
    recorder: RecorderAccess::Linked,
    reports_token_ids: true,
    counts_tokens: true,
    answers_side_by_side: true,
    ..EngineProfile::LLAMA_PROGRAM
};
