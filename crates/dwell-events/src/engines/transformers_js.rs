//! transformers.js: ONNX models in WebAssembly or on WebGPU.

use super::profile::{EngineProfile, ModelSource};

pub(super) const PROFILE: EngineProfile = EngineProfile {
    title: "transformers.js",
    about: "transformers.js with ONNX Runtime, in a page of headless Chromium",
    model: ModelSource::Folder,
    options_at_start: &["threads"],
    ..EngineProfile::IN_BROWSER
};
