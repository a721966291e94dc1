//! Starting the server, and waiting for it.

use std::ffi::OsString;
use std::time::Duration;

use dwell_events::engine::EngineKind;

use super::LlamaServer;
use crate::ServerError;
use crate::llama_help::LlamaProgram;
use crate::model_file::check_model_file;
use crate::program::{Program, ProgramCommand, Readiness, find_program, free_port, ready_within, wait_until_ready};

/// How often another port is tried when somebody took the one that was free.
const PORTS_TRIED: usize = 5;
/// What the server says when it cannot have its port.
const PORT_TAKEN: &str = "couldn't bind";

impl LlamaServer {
    /// Starts the program on a port that is free.
    pub(super) fn launch(&mut self) -> Result<(), ServerError> {
        check_model_file(&self.setup.options.model)?;
        let given = self.setup.server.program.as_deref();
        let path = find_program(EngineKind::LlamaServer, given)?;
        let llama = LlamaProgram::ask(EngineKind::LlamaServer, path, &self.interruption)?;
        let port = free_port()?;
        let command = ProgramCommand {
            engine: EngineKind::LlamaServer,
            arguments: self.arguments(&llama, port)?,
            program: llama.path.clone(),
            environment: Vec::new(),
        };
        self.started = Some(Program::start(&command, &self.setup.place)?);
        self.http = Some(self.client_of(&format!("http://127.0.0.1:{port}"))?);
        self.version = llama.version;
        Ok(())
    }

    fn arguments(&self, llama: &LlamaProgram, port: u16) -> Result<Vec<OsString>, ServerError> {
        let options = &self.setup.options;
        let mut arguments = llama.model_arguments(options)?;
        arguments.extend(["-np".into(), options.parallel.to_string().into()]);
        match (options.kv_unified, llama.has("--kv-unified")) {
            (true, true) => arguments.push("--kv-unified".into()),
            (true, false) => return Err(llama.lacks("--kv-unified")),
            (false, _) => arguments.extend(known(llama, &["--no-kv-unified"])),
        }
        arguments.extend(known(llama, &["--metrics", "--slots"]));
        arguments.extend(known(llama, &["--no-ui", "--no-webui"]).into_iter().take(1));
        arguments.extend(["--host".into(), "127.0.0.1".into(), "--port".into(), port.to_string().into()]);
        arguments.extend(self.setup.server.arguments.iter().map(OsString::from));
        Ok(arguments)
    }

    /// Waits until the model is loaded; starts the program again if somebody took its port.
    pub(super) fn wait_until_loaded(&mut self) -> Result<(), ServerError> {
        for _ in 1..PORTS_TRIED {
            match self.wait_once() {
                Err(ServerError::Died { .. }) if self.log().contains(PORT_TAKEN) => self.launch()?,
                other => return other,
            }
        }
        self.wait_once()
    }

    fn wait_once(&mut self) -> Result<(), ServerError> {
        let http = self.http()?.clone();
        let is_joined = self.is_joined();
        let look = || match http.get_any("/health") {
            Ok(answer) if answer.status == 200 => Ok(Readiness::Ready),
            // Versions without this address have loaded before they answer.
            Ok(answer) if answer.status == 404 => Ok(Readiness::Ready),
            Ok(answer) => Ok(Readiness::NotYet(format!("/health says {}", answer.status))),
            Err(error) if is_joined || error.is_interrupted() => Err(error.into()),
            Err(error) => Ok(Readiness::NotYet(error.to_string())),
        };
        let within: Duration = ready_within(&self.setup.server);
        wait_until_ready(self.started.as_mut(), EngineKind::LlamaServer, within, &self.interruption, look)
    }
}

/// Those of the options that the program has.
fn known(llama: &LlamaProgram, options: &[&str]) -> Vec<OsString> {
    options.iter().filter(|option| llama.has(option)).map(OsString::from).collect()
}
