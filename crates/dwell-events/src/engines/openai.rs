//! Any server with the API of OpenAI.

use super::profile::EngineProfile;

pub(super) const PROFILE: EngineProfile = EngineProfile::OPENAI_API;
