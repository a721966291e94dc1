//! The server of llama.cpp, started for the run or joined.

mod figures;
mod launch;
mod request;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use dwell_events::engine::{EngineKind, EngineOptions, Job, LoadedModel};
use dwell_events::llama_log::reported_buffers;
use dwell_events::server::{Api, ReportedBuffer, RequestTimings, ServerDescription, ServerOptions};
use dwell_process::process_tree;
use serde::Deserialize;
use serde_json::Value;

use crate::client::{Asked, Piece, Runtime};
use crate::memory_lines::{printed_description, printed_figure};
use crate::processes::server_process;
use crate::program::Program;
use crate::tracing::{joined_untraced, untraced_because};
use crate::{HttpClient, Interruption, ServerError, ServerPlace};

/// A server of llama.cpp.
pub(crate) struct LlamaServer {
    setup: Arc<Setup>,
    interruption: Interruption,
    /// Known as soon as there is an address.
    http: Option<HttpClient>,
    /// The program, if it was started for the run.
    started: Option<Program>,
    /// What the program says of its version.
    version: Option<String>,
    /// Slots that the server has, once it said so.
    slots: Option<u32>,
}

/// What does not change during a run.
struct Setup {
    place: ServerPlace,
    options: EngineOptions,
    server: ServerOptions,
}

/// What `/props` says.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Props {
    total_slots: Option<u32>,
    model_path: Option<PathBuf>,
    model_alias: Option<String>,
    model_ftype: Option<String>,
    build_info: Option<String>,
    chat_template: Option<String>,
    default_generation_settings: Value,
}

impl LlamaServer {
    /// Starts nothing and asks nothing yet.
    pub(crate) fn open(job: &Job, place: &ServerPlace, interruption: Interruption) -> Result<Self, ServerError> {
        let setup = Setup { place: place.clone(), options: job.options.clone(), server: job.server.clone() };
        let mut opened =
            Self { setup: Arc::new(setup), interruption, http: None, started: None, version: None, slots: None };
        if let Some(url) = &job.server.url {
            opened.http = Some(opened.client_of(url)?);
        }
        Ok(opened)
    }

    fn client_of(&self, url: &str) -> Result<HttpClient, ServerError> {
        let key_variable = self.setup.server.api_key_variable.as_deref();
        Ok(HttpClient::new(EngineKind::LlamaServer, url, key_variable, self.interruption.clone())?)
    }

    fn http(&self) -> Result<&HttpClient, ServerError> {
        self.http.as_ref().ok_or_else(|| ServerError::NotReady {
            engine: EngineKind::LlamaServer,
            waited_s: 0,
            state: "it was not started".to_owned(),
        })
    }

    fn is_joined(&self) -> bool {
        self.setup.server.url.is_some()
    }

    /// The process: that of the program, or the one that listens. Where it cannot be seen is said in the facts.
    fn root_process(&self) -> Result<Option<u32>, ServerError> {
        match (&self.started, &self.http) {
            (Some(program), _) => Ok(Some(program.pid())),
            (None, Some(http)) => server_process(http.url(), self.setup.server.pid),
            (None, None) => Ok(None),
        }
    }

    fn command_line(&self) -> Vec<String> {
        if let Some(program) = &self.started {
            return program.command_line().to_vec();
        }
        let root = self.root_process().ok().flatten();
        root.and_then(|pid| process_tree(pid).into_iter().next()).map(|line| line.command_line).unwrap_or_default()
    }

    fn untraced_because(&self) -> Option<String> {
        match (&self.started, self.root_process()) {
            (Some(program), _) => untraced_because(program.pid(), &self.setup.place),
            (None, Ok(root)) => Some(joined_untraced(root)),
            (None, Err(error)) => Some(error.to_string()),
        }
    }

    /// A server may name its model relative to the folder that it was started in.
    fn path_on_this_machine(&self, path: PathBuf) -> Option<PathBuf> {
        if path.is_absolute() {
            return Some(path);
        }
        let pid = self.root_process().ok().flatten()?;
        Some(std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?.join(path))
    }

    fn log(&self) -> String {
        self.started.as_ref().map(Program::printed).unwrap_or_default()
    }
}

impl Runtime for LlamaServer {
    fn start(&mut self, _asked: &Asked<'_>) -> Result<(), ServerError> {
        match &self.setup.server.url {
            // A process that was named and is not there is a mistake; one that cannot be found is said in the facts.
            Some(url) if self.setup.server.pid.is_some() => server_process(url, self.setup.server.pid).map(drop),
            Some(_) => Ok(()),
            None => self.launch(),
        }
    }

    fn load(&mut self, _asked: &Asked<'_>) -> Result<(), ServerError> {
        self.wait_until_loaded()
    }

    fn facts(&mut self) -> Result<ServerDescription, ServerError> {
        let props: Props = self.http()?.get_json("/props")?;
        self.slots = props.total_slots;
        self.version = self.version.take().or(props.build_info);
        let n_ctx = props.default_generation_settings.get("n_ctx").and_then(Value::as_u64);
        let command_line = self.command_line();
        let (key_type, value_type) = kv_types(&command_line);
        let shares_context = shares_context(&command_line);
        let mut reported = BTreeMap::new();
        for (name, value) in [("model_ftype", props.model_ftype), ("chat_template", props.chat_template)] {
            reported.extend(value.map(|value| (name.to_owned(), value)));
        }
        Ok(ServerDescription {
            version: self.version.as_ref().map(|version| format!("llama.cpp {version}")),
            url: Some(self.http()?.url().to_owned()),
            is_started_here: self.started.is_some(),
            command_line,
            model_name: props.model_alias,
            model_path: props.model_path.and_then(|path| self.path_on_this_machine(path)),
            context_length: n_ctx.and_then(|n_ctx| u32::try_from(n_ctx).ok()),
            slots: props.total_slots,
            shares_context,
            kv_type_k: key_type,
            kv_type_v: value_type,
            kv_bytes_per_token: None,
            untraced_because: self.untraced_because(),
            was_loaded: Some(self.is_joined()),
            reported,
            ..ServerDescription::default()
        })
    }

    fn model(&mut self) -> LoadedModel {
        let log = self.log();
        let figure = |name: &str| printed_figure(&log, name).and_then(|value| value.parse::<u32>().ok()).unwrap_or(0);
        let listed: Value = self.http().and_then(|http| Ok(http.get_json("/v1/models")?)).unwrap_or_default();
        let meta = listed.pointer("/data/0/meta").cloned().unwrap_or_default();
        let wide = |name: &str| meta.get(name).and_then(Value::as_u64).unwrap_or(0);
        let narrow = |name: &str| u32::try_from(wide(name)).unwrap_or(0);
        let system_info = log.lines().find_map(|line| line.split_once("system_info: "));
        LoadedModel {
            description: match printed_description(&log) {
                said if said.is_empty() => listed_description(&listed),
                said => said,
            },
            parameters: wide("n_params"),
            size_bytes: wide("size"),
            layers: figure("n_layer"),
            vocabulary: narrow("n_vocab"),
            context_length: figure("n_ctx"),
            context_per_sequence: narrow("n_ctx"),
            sliding_window: figure("n_swa"),
            runtime: self.version.as_ref().map(|version| format!("llama.cpp {version}")).unwrap_or_default(),
            system_info: system_info.map_or("", |(_, info)| info.trim()).to_owned(),
            threads: if self.is_joined() { 0 } else { self.setup.options.threads },
        }
    }

    fn processes(&mut self) -> Vec<(u32, &'static str)> {
        self.root_process().ok().flatten().map(|pid| (pid, "server")).into_iter().collect()
    }

    fn generate(
        &mut self,
        asked: &Asked<'_>,
        on_piece: &mut dyn FnMut(Piece) -> ControlFlow<()>,
    ) -> Result<RequestTimings, ServerError> {
        request::generate(self.http()?, self.slots, asked, on_piece)
    }

    fn another(&self) -> Option<Box<dyn Runtime>> {
        Some(Box::new(Self {
            setup: self.setup.clone(),
            interruption: self.interruption.clone(),
            http: self.http.clone(),
            started: None,
            version: self.version.clone(),
            slots: self.slots,
        }))
    }

    fn count_tokens(&mut self, asked: &Asked<'_>) -> Result<Option<u64>, ServerError> {
        request::count_tokens(self.http()?, asked).map(Some)
    }

    fn is_counting_cheap(&self) -> bool {
        true
    }

    fn metrics(&mut self) -> Result<Option<BTreeMap<String, f64>>, ServerError> {
        figures::figures(self.http()?)
    }

    fn buffers(&mut self) -> Vec<ReportedBuffer> {
        reported_buffers(&self.log())
    }

    fn death(&mut self) -> Option<String> {
        self.started.as_mut().and_then(Program::death)
    }

    fn stop(&mut self) {
        if let Some(program) = &mut self.started {
            program.stop();
        }
    }
}

/// Whether a request is a message to be answered.
fn is_chat(asked: &Asked<'_>) -> bool {
    asked.server.api == Api::Chat
}

/// The types of keys and values that a command line names.
fn kv_types(command_line: &[String]) -> (Option<String>, Option<String>) {
    let after = |names: [&str; 2]| {
        let place = command_line.iter().rposition(|word| names.contains(&word.as_str()))?;
        command_line.get(place + 1).cloned()
    };
    (after(["-ctk", "--cache-type-k"]), after(["-ctv", "--cache-type-v"]))
}

/// Whether the slots share one context, by a command line. Without a number of slots the server decides on both.
fn shares_context(command_line: &[String]) -> Option<bool> {
    let last_of = |names: &[&str]| command_line.iter().rposition(|word| names.contains(&word.as_str()));
    if command_line.is_empty() {
        return None;
    }
    let has_slots = last_of(&["-np", "--parallel"]).is_some();
    Some(!has_slots || last_of(&["-kvu", "--kv-unified"]) > last_of(&["-no-kvu", "--no-kv-unified"]))
}

/// Name and type of the model, by the server's list of models.
fn listed_description(listed: &Value) -> String {
    let words = ["/data/0/id", "/data/0/meta/ftype"].map(|place| listed.pointer(place).and_then(Value::as_str));
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_says_whether_slots_share_a_context() {
        let shares = |line: &str| shares_context(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(shares(""), None);
        assert_eq!(shares("llama-server -m x -c 512"), Some(true));
        assert_eq!(shares("llama-server -np 4"), Some(false));
        assert_eq!(shares("llama-server -np 4 --kv-unified"), Some(true));
        assert_eq!(shares("llama-server -np 4 --kv-unified --no-kv-unified"), Some(false));
    }
}
