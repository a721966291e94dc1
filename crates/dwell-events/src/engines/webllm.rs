//! WebLLM: models compiled by MLC, on WebGPU.

use super::profile::{EngineProfile, ModelSource};

pub(super) const PROFILE: EngineProfile = EngineProfile {
    title: "WebLLM",
    about: "WebLLM on WebGPU, in a page of headless Chromium",
    model: ModelSource::Folder,
    options_at_start: &["context_length"],
    ..EngineProfile::IN_BROWSER
};
