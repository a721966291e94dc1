//! The engines: what each can do, which options it takes, which program it is, which limits it has.
//!
//! One file per engine, and one line in the list below. How a job is done with it is the business of `dwell-llama` and of
//! the drivers in `dwell-servers`, which has the one other list: from engine to driver.

mod command;
mod llama_cli;
mod llama_cpp;
mod llama_server;
mod ollama;
mod openai;
mod profile;
mod sglang;
mod transformers_js;
mod vllm;
mod webllm;
mod wllama;

use crate::choices;

pub use profile::{Ending, EngineProfile, ModelSource, Reach, RecorderAccess};

/// Makes the closed list of engines, and the way from each to its profile.
macro_rules! engines {
    ($($engine:ident = $name:literal, $module:ident;)+) => {
        choices! {
            /// What runs a model.
            EngineKind {
                $(#[doc = concat!("`", $name, "`; what it can do is in its [profile](EngineKind::profile).")]
                $engine = $name,)+
            }
        }

        impl EngineKind {
            /// What it can do.
            pub const fn profile(self) -> &'static EngineProfile {
                match self {
                    $(EngineKind::$engine => &$module::PROFILE,)+
                }
            }
        }
    };
}

engines! {
    LlamaCpp = "llama_cpp", llama_cpp;
    LlamaServer = "llama_server", llama_server;
    LlamaCli = "llama_cli", llama_cli;
    Ollama = "ollama", ollama;
    OpenAi = "openai", openai;
    Vllm = "vllm", vllm;
    Sglang = "sglang", sglang;
    Wllama = "wllama", wllama;
    TransformersJs = "transformers_js", transformers_js;
    WebLlm = "webllm", webllm;
    Command = "command", command;
}

#[expect(clippy::derivable_impls, reason = "the list of choices has no place for it")]
impl Default for EngineKind {
    fn default() -> Self {
        EngineKind::LlamaCpp
    }
}

impl EngineKind {
    /// Names of the engines that are given prompts: those that `dwell run` and experiments take.
    pub const PROMPTED: &'static [&'static str] = &prompted::<{ prompted_count() }>();

    /// Whether dwell runs the model itself.
    pub fn is_embedded(self) -> bool {
        self.profile().is_embedded()
    }

    /// The names of all engines that take prompts and are so, for messages: `vllm or sglang`.
    pub fn names_of(is_so: impl Fn(&EngineProfile) -> bool) -> String {
        let is_one = |engine: &Self| engine.profile().takes_prompts && is_so(engine.profile());
        let names: Vec<&str> = Self::ALL.into_iter().filter(is_one).map(Self::name).collect();
        match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => "none".to_owned(),
        }
    }
}

const fn prompted_count() -> usize {
    let (mut count, mut index) = (0, 0);
    while index < EngineKind::ALL.len() {
        count += EngineKind::ALL[index].profile().takes_prompts as usize;
        index += 1;
    }
    count
}

/// A constant, because lists of choices are; iterators cannot be used in one.
const fn prompted<const COUNT: usize>() -> [&'static str; COUNT] {
    let mut names = [""; COUNT];
    let (mut found, mut index) = (0, 0);
    while found < COUNT {
        if EngineKind::ALL[index].profile().takes_prompts {
            names[found] = EngineKind::NAMES[index];
            found += 1;
        }
        index += 1;
    }
    names
}

#[cfg(test)]
mod tests {
    use crate::engine::EngineOptions;

    use super::*;

    #[test]
    fn engines_are_named_as_a_sentence_needs_them() {
        assert_eq!(EngineKind::names_of(|profile| profile.publishes_kv_events), "vllm or sglang");
        assert_eq!(
            EngineKind::names_of(EngineProfile::is_startable),
            "llama_server, llama_cli, ollama, vllm, wllama, transformers_js or webllm"
        );
        assert_eq!(EngineKind::names_of(EngineProfile::is_joinable), "llama_server, ollama, openai, vllm or sglang");
        assert_eq!(EngineKind::names_of(EngineProfile::is_embedded), "llama_cpp");
        assert_eq!(EngineKind::names_of(|_| false), "none");
    }

    #[test]
    fn profiles_do_not_contradict_themselves() {
        for engine in EngineKind::ALL {
            let (name, profile) = (engine.name(), engine.profile());
            assert_eq!(EngineKind::PROMPTED.contains(&name), profile.takes_prompts, "{name}");
            assert_eq!(profile.is_embedded(), profile.recorder == RecorderAccess::Linked, "{name}");
            let is_looked_for = profile.is_startable() && profile.takes_prompts;
            assert!(profile.programs.is_empty() != is_looked_for, "{name}: its program is looked for by name");
            assert_eq!(profile.port.is_some(), profile.is_joinable(), "{name} is joined at an address");
            assert!(profile.is_joinable() || profile.start_command.is_none(), "{name} is no server");
            assert!(profile.recorder != RecorderAccess::Preloaded || profile.is_startable(), "{name}");
            assert_eq!(profile.takes_option("ignore_end", false), profile.ignores_end, "{name}");
            let is_per_request = profile.options_of_requests.contains(&"context_length");
            assert_eq!(is_per_request, profile.takes_options_per_request, "{name}");
            let is_recorded = profile.recorder != RecorderAccess::None;
            assert_eq!(profile.takes_option("time_resolution", false), is_recorded, "{name}");
        }
    }

    #[test]
    fn options_of_engines_are_options() {
        let options = EngineOptions::new("model.gguf".into());
        let options = serde_json::to_value(options).unwrap_or_default();
        for engine in EngineKind::ALL {
            let profile = engine.profile();
            for name in profile.options_of_requests.iter().chain(profile.options_at_start) {
                assert!(options.get(name).is_some(), "{}: {name}", engine.name());
            }
        }
    }
}
