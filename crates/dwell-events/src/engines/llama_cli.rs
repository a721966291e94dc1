//! The programs of llama.cpp that answer one prompt and end.

use super::profile::EngineProfile;

pub(super) const PROFILE: EngineProfile = EngineProfile {
    about: "an unmodified llama-completion or llama-cli, started for each request",
    // Newest name first.
    programs: &["llama-completion", "llama-cli", "main", "llama"],
    ..EngineProfile::LLAMA_PROGRAM
};
