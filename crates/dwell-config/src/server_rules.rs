//! What the engine of a model and its server must be to each other.

use dwell_events::engine::{EngineKind, ModelSource, Reach};
use dwell_events::server::StartKind;
use dwell_events::without_secrets;
use serde_json::Value as Json;

use crate::rules::Rules;

impl Rules<'_, '_> {
    /// The engine of each model and how it is reached.
    pub(crate) fn servers(&mut self) {
        for (index, model) in self.list("/models").to_vec().iter().enumerate() {
            let engine = model.get("engine").and_then(Json::as_str).and_then(EngineKind::from_name);
            let Some(engine) = engine else { continue };
            let server = ServerKeys { rules: self, index, engine };
            if engine.is_embedded() {
                server.refuse_all()
            } else {
                server.check()
            }
            self.model_source(index, engine, model);
        }
        self.cold_needs_a_server_that_can_forget();
    }

    /// Where a model comes from: a file for what dwell starts with one, else the server may have it.
    fn model_source(&mut self, index: usize, engine: EngineKind, model: &Json) {
        // A source that is there and wrong has been told already.
        let has = |rules: &Self, key: &str| rules.places.contains_key(&format!("models[{index}].{key}"));
        let is_joined = has(self, "server.url");
        let profile = engine.profile();
        let has_other = match profile.model {
            ModelSource::File => false,
            ModelSource::FileUnlessJoined => is_joined,
            ModelSource::FileOrName => has(self, "server.model_name"),
            ModelSource::Folder => has(self, "server.model_name"),
            ModelSource::FolderOrName => is_joined || has(self, "server.model_name"),
            ModelSource::Own => true,
        };
        let found = match (has(self, "path"), has(self, "name")) {
            (true, true) => "both path and name",
            (false, false) if !has_other => "neither path nor name",
            _ => return,
        };
        let needed = match profile.model {
            ModelSource::FileOrName => {
                &format!("one of them, or server.model_name: a GGUF file, or a model that {} has", profile.title)
            }
            ModelSource::FolderOrName => {
                "server.url or server.model_name: a server that has the model, or a folder or name of one to start it with"
            }
            ModelSource::Folder => "server.model_name: the folder of the model",
            ModelSource::FileUnlessJoined => "one of them, or server.url: a GGUF file, or a server that has the model",
            ModelSource::File | ModelSource::Own => {
                "one of them: a GGUF file, or a model that `dwell model pull` knows"
            }
        };
        if model.is_object() {
            let key = format!("models[{index}]");
            self.problems.add(self.place(&key), &key, found, needed);
        }
    }

    fn cold_needs_a_server_that_can_forget(&mut self) {
        let starts = self.list("/sweep/starts");
        let Some(cold) = starts.iter().position(|start| start.as_str() == Some(StartKind::Cold.name())) else { return };
        let models = self.list("/models").to_vec();
        let keeps = |model: &&Json| {
            let engine = model.get("engine").and_then(Json::as_str).and_then(EngineKind::from_name).unwrap_or_default();
            model.pointer("/server/url").is_some_and(Json::is_string) && !engine.profile().unloads
        };
        let Some(model) = models.iter().find(keeps) else { return };
        let id = model.get("id").and_then(Json::as_str).unwrap_or_default();
        let key = format!("sweep.starts[{cold}]");
        let found = format!("cold together with the model {id:?} of a server that runs already");
        let needed = format!("servers that dwell starts, or {}", EngineKind::names_of(|profile| profile.unloads));
        let problem = self.problems.add(self.place(&key), &key, found, &needed);
        problem.hint = Some("a server that runs keeps its model; leave out `cold`, or `server.url`".to_owned());
    }
}

/// The keys of one model's server.
struct ServerKeys<'r, 'a, 'file> {
    rules: &'r mut Rules<'a, 'file>,
    index: usize,
    engine: EngineKind,
}

impl ServerKeys<'_, '_, '_> {
    fn path(&self, key: &str) -> String {
        format!("models[{}].server{key}", self.index)
    }

    fn has(&self, key: &str) -> bool {
        self.rules.places.contains_key(&self.path(key))
    }

    fn add(&mut self, key: &str, found: impl Into<String>, needed: &str) {
        let path = self.path(key);
        // What is missing is missing from the model.
        let holder = if self.has(key) { path.clone() } else { format!("models[{}]", self.index) };
        self.rules.problems.add(self.rules.place(&holder), &path, found, needed);
    }

    /// The embedded engine has no server.
    fn refuse_all(mut self) {
        let is_key = |path: &String| path.starts_with(&self.path("."));
        if self.rules.places.keys().any(is_key) {
            let found = format!("a server for {}, which dwell runs itself", self.engine.name());
            self.add("", found, "no such section, or another engine such as `llama_server`");
        }
    }

    fn check(mut self) {
        self.url_or_program();
        self.scheme();
        self.device();
        self.kv_events();
    }

    fn url_or_program(&mut self) {
        let name = self.engine.name();
        let (has_url, has_program) = (self.has(".url"), self.has(".program"));
        match self.engine.profile().reach {
            Reach::Started if has_url => {
                let found = format!("an address for {name}, a program that ends");
                return self.add(".url", found, "the engine `llama_server`");
            }
            Reach::Joined if has_program => {
                self.add(".program", format!("a program for {name}"), "the url of a server that runs already");
            }
            Reach::Joined if !has_url => {
                self.add(
                    ".url",
                    "no such key",
                    "the address of a server that runs already: dwell does not start this engine",
                );
            }
            _ if has_url && has_program => {
                self.add(".program", "both url and program", "one of them: a server that runs, or a program to start");
            }
            _ => {}
        }
        if has_url && self.has(".arguments") {
            self.add(".arguments", "arguments for a server that runs already", "a program to start, or no arguments");
        }
        if self.arguments_have_secrets() {
            // The file is copied into the results as it is.
            let needed = "no key here: a variable of the environment, such as LLAMA_API_KEY or VLLM_API_KEY";
            self.add(".arguments", "a key, token or password", needed);
        }
        if !has_url && self.has(".pid") {
            self.add(".pid", "a process without an address", "the url of the server that runs in it");
        }
    }

    fn arguments_have_secrets(&self) -> bool {
        let pointer = format!("/models/{}/server/arguments", self.index);
        let arguments = self.rules.values.pointer(&pointer).and_then(Json::as_array);
        let words: Vec<String> = arguments.into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect();
        without_secrets(&words) != words
    }

    fn scheme(&mut self) {
        let pointer = format!("/models/{}/server/url", self.index);
        let url = self.rules.values.pointer(&pointer).and_then(Json::as_str);
        let scheme = url.and_then(|url| url.split_once("://")).map(|(scheme, _)| scheme.to_owned());
        if let Some(scheme) = scheme.filter(|scheme| !matches!(scheme.as_str(), "http" | "https")) {
            self.add(".url", format!("the scheme {scheme:?}"), "http or https");
        }
    }

    fn device(&mut self) {
        if self.has(".device") && !self.engine.profile().is_in_browser {
            let found = format!("a device of a browser for {}", self.engine.name());
            let needed = EngineKind::names_of(|profile| profile.is_in_browser);
            self.add(".device", found, &format!("{needed}: other engines do not run in a page"));
        }
    }

    fn kv_events(&mut self) {
        let keys =
            [".kv_events.endpoint", ".kv_events.replay_endpoint", ".kv_events.topic", ".kv_events.keeps_token_ids"];
        let Some(first) = keys.into_iter().find(|key| self.has(key)) else { return };
        if !self.engine.profile().publishes_kv_events {
            let found = format!("KV events of {}", self.engine.name());
            let publishers = EngineKind::names_of(|profile| profile.publishes_kv_events);
            return self.add(".kv_events", found, &format!("{publishers}: no other engine publishes them"));
        }
        if !self.has(".kv_events.endpoint") {
            self.add(first, "KV events without an endpoint", "kv_events.endpoint, the address of the publisher");
        }
    }
}
