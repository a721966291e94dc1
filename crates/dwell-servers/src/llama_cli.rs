//! The programs of llama.cpp that answer one prompt and end.

mod frame;
mod output;
mod perf_lines;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::ops::ControlFlow;

use dwell_events::engine::{EngineKind, EngineOptions, Job, LoadedModel};
use dwell_events::llama_log::reported_buffers;
use dwell_events::server::{Api, ReportedBuffer, RequestTimings, ServerDescription, ServerOptions};
use tempfile::NamedTempFile;

use crate::client::{Asked, Piece, Runtime};
use crate::llama_help::LlamaProgram;
use crate::memory_lines::{printed_description, printed_figure};
use crate::model_file::check_model_file;
use crate::program::{Program, ProgramCommand, Readiness, find_program, ready_within, wait_until_ready};
use crate::tracing::untraced_because;
use crate::{Interruption, ServerError, ServerPlace};

use frame::Frame;
use output::{Output, Read};
use perf_lines::timings_in;

/// What programs say when the model is loaded and they begin with the prompt.
const LOADED: [&str; 2] = ["generate: n_ctx", "model loaded"];

/// A program that is started for every request.
pub(crate) struct LlamaCli {
    place: ServerPlace,
    options: EngineOptions,
    server: ServerOptions,
    interruption: Interruption,
    llama: Option<LlamaProgram>,
    running: Option<Running>,
    /// What the last one printed.
    last_log: String,
    /// Whether the last program ended before all that it had to say was written.
    was_output_cut: Option<bool>,
}

/// A program at work.
struct Running {
    program: Program,
    output: Output,
    /// The program reads the prompt from it.
    _prompt: NamedTempFile,
}

impl LlamaCli {
    /// Starts nothing yet.
    pub(crate) fn open(job: &Job, place: &ServerPlace, interruption: Interruption) -> Self {
        Self {
            place: place.clone(),
            options: job.options.clone(),
            server: job.server.clone(),
            interruption,
            llama: None,
            running: None,
            last_log: String::new(),
            was_output_cut: None,
        }
    }

    /// The program, found and asked for its options once.
    fn llama(&mut self) -> Result<LlamaProgram, ServerError> {
        if let Some(llama) = &self.llama {
            return Ok(llama.clone());
        }
        check_model_file(&self.options.model)?;
        let path = find_program(EngineKind::LlamaCli, self.server.program.as_deref())?;
        let llama = LlamaProgram::ask(EngineKind::LlamaCli, path, &self.interruption)?;
        self.llama = Some(llama.clone());
        Ok(llama)
    }

    fn run_program(&mut self, asked: &Asked<'_>, place: &ServerPlace) -> Result<Running, ServerError> {
        let llama = self.llama()?;
        let prompt = prompt_file(given_text(&llama, asked), place)?;
        let mut arguments = llama.model_arguments(&self.options)?;
        arguments.extend(["-f".into(), prompt.path().into()]);
        arguments.extend(request_arguments(&llama, asked)?);
        arguments.extend(self.server.arguments.iter().map(OsString::from));
        let command = ProgramCommand {
            engine: EngineKind::LlamaCli,
            program: llama.path.clone(),
            arguments,
            environment: Vec::new(),
        };
        let frame = if llama.is_chat_only() { Frame::of_chat(given_text(&llama, asked)) } else { Frame::of_text() };
        let (program, stdout) = Program::start_piped(&command, place)?;
        Ok(Running { program, output: Output::new(stdout, frame), _prompt: prompt })
    }

    /// Hands over what the program writes until it has ended.
    fn listen(
        &mut self,
        running: &mut Running,
        on_piece: &mut dyn FnMut(Piece) -> ControlFlow<()>,
    ) -> Result<RequestTimings, ServerError> {
        loop {
            match running.output.next(&self.interruption) {
                Read::Piece(piece) => {
                    if on_piece(piece).is_break() {
                        running.program.stop();
                        return Ok(RequestTimings::default());
                    }
                }
                Read::Interrupted => {
                    running.program.stop();
                    return Ok(RequestTimings::default());
                }
                Read::End => break,
            }
        }
        match running.program.wait() {
            Some(status) if status.success() => {
                let timings = timings_in(&running.program.printed());
                self.was_output_cut = Some(!running.output.is_whole() || timings.generated_tokens.is_none());
                Ok(timings)
            }
            _ => Err(ServerError::Died { doing: "generating", how: running.program.death().unwrap_or_default() }),
        }
    }
}

impl Runtime for LlamaCli {
    fn start(&mut self, asked: &Asked<'_>) -> Result<(), ServerError> {
        let place = self.place.clone();
        self.running = Some(self.run_program(asked, &place)?);
        Ok(())
    }

    fn load(&mut self, _asked: &Asked<'_>) -> Result<(), ServerError> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let printed = running.program.log();
        let look = || match LOADED.iter().any(|&said| printed.text().contains(said)) {
            true => Ok(Readiness::Ready),
            false => Ok(Readiness::NotYet("the model is not loaded".to_owned())),
        };
        let within = ready_within(&self.server);
        let waited =
            wait_until_ready(Some(&mut running.program), EngineKind::LlamaCli, within, &self.interruption, look);
        match waited {
            // It has answered already, and ended before its words were out.
            Err(ServerError::Died { .. }) if running.program.end().is_some_and(|end| end.success()) => Ok(()),
            other => other,
        }
    }

    fn is_loaded_for_each_request(&self) -> bool {
        true
    }

    fn facts(&mut self) -> Result<ServerDescription, ServerError> {
        let log = self.log();
        let untraced_because =
            self.running.as_ref().and_then(|running| untraced_because(running.program.pid(), &self.place));
        let version = self.llama()?.version;
        Ok(ServerDescription {
            version: version.map(|version| format!("llama.cpp {version}")),
            is_started_here: true,
            command_line: self
                .running
                .as_ref()
                .map(|running| running.program.command_line().to_vec())
                .unwrap_or_default(),
            model_path: Some(self.options.model.clone()),
            context_length: printed_figure(&log, "n_ctx_seq")
                .or(printed_figure(&log, "n_ctx"))
                .and_then(|n| n.parse().ok()),
            slots: Some(1),
            kv_type_k: Some(self.options.kv_type_k.name().to_owned()),
            kv_type_v: Some(self.options.kv_type_v.name().to_owned()),
            untraced_because,
            was_loaded: Some(false),
            ..ServerDescription::default()
        })
    }

    fn model(&mut self) -> LoadedModel {
        let log = self.log();
        let figure = |name: &str| printed_figure(&log, name).and_then(|value| value.parse::<u32>().ok()).unwrap_or(0);
        let system_info = log.lines().find_map(|line| line.split_once("system_info: "));
        let version = self.llama.as_ref().and_then(|llama| llama.version.clone());
        LoadedModel {
            description: printed_description(&log),
            layers: figure("n_layer"),
            vocabulary: figure("n_vocab"),
            context_length: figure("n_ctx"),
            context_per_sequence: figure("n_ctx_seq"),
            sliding_window: figure("n_swa"),
            runtime: version.map(|version| format!("llama.cpp {version}")).unwrap_or_default(),
            system_info: system_info.map_or("", |(_, info)| info.trim()).to_owned(),
            threads: self.options.threads,
            ..LoadedModel::default()
        }
    }

    fn processes(&mut self) -> Vec<(u32, &'static str)> {
        self.running.iter().map(|running| (running.program.pid(), "program")).collect()
    }

    fn generate(
        &mut self,
        _asked: &Asked<'_>,
        on_piece: &mut dyn FnMut(Piece) -> ControlFlow<()>,
    ) -> Result<RequestTimings, ServerError> {
        let Some(mut running) = self.running.take() else {
            return Err(ServerError::Died { doing: "generating", how: "the program was not started".to_owned() });
        };
        let listened = self.listen(&mut running, on_piece);
        self.last_log = running.program.printed();
        listened
    }

    /// By a run of the program that is not recorded and generates one token.
    fn count_tokens(&mut self, asked: &Asked<'_>) -> Result<Option<u64>, ServerError> {
        let unrecorded =
            ServerPlace { ring_dir: None, allocation_library: None, environment: Vec::new(), ..self.place.clone() };
        let mut running = self.run_program(&Asked { max_tokens: 1, ..*asked }, &unrecorded)?;
        let timings = self.listen(&mut running, &mut |_| ControlFlow::Continue(()))?;
        Ok(timings.prompt_tokens)
    }

    /// The program publishes nothing; what it left out is counted here.
    fn metrics(&mut self) -> Result<Option<BTreeMap<String, f64>>, ServerError> {
        let figure =
            |was_cut: bool| BTreeMap::from([("llama_cli:output_was_cut".to_owned(), f64::from(u8::from(was_cut)))]);
        Ok(self.was_output_cut.map(figure))
    }

    fn buffers(&mut self) -> Vec<ReportedBuffer> {
        reported_buffers(&self.log())
    }

    fn death(&mut self) -> Option<String> {
        self.running.as_mut().and_then(|running| running.program.death())
    }

    fn stop(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.program.stop();
            self.last_log = running.program.printed();
        }
    }
}

impl LlamaCli {
    fn log(&self) -> String {
        self.running.as_ref().map_or_else(|| self.last_log.clone(), |running| running.program.printed())
    }
}

/// Long texts do not fit into an argument. The program drops one newline at the end of the file.
fn prompt_file(text: &str, place: &ServerPlace) -> Result<NamedTempFile, ServerError> {
    let written = NamedTempFile::with_prefix_in("prompt-", &place.log_dir).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.write_all(b"\n")?;
        Ok(file)
    });
    written.map_err(|source| ServerError::System { doing: "writing the prompt for the program", source })
}

/// Whether the program is given a message. One that takes nothing else fills its own template: that of dwell is then not
/// used, and the tokens can be others.
fn is_chat(llama: &LlamaProgram, asked: &Asked<'_>) -> bool {
    asked.server.api == Api::Chat || (llama.is_chat_only() && asked.server.template.is_some())
}

/// What the program is given: the last message, or the whole text.
fn given_text<'a>(llama: &LlamaProgram, asked: &Asked<'a>) -> &'a str {
    let message = asked.turns.last().filter(|_| is_chat(llama, asked));
    message.map_or(asked.text, |turn| turn.text.as_str())
}

fn request_arguments(llama: &LlamaProgram, asked: &Asked<'_>) -> Result<Vec<OsString>, ServerError> {
    let is_chat = is_chat(llama, asked);
    if llama.is_chat_only() && !is_chat {
        return Err(ServerError::ChatOnly { program: llama.path.clone() });
    }
    let mut arguments: Vec<OsString> = Vec::new();
    for (option, value) in [
        ("-n", asked.max_tokens.to_string()),
        ("--temp", asked.options.temperature.to_string()),
        ("--seed", asked.options.seed.to_string()),
    ] {
        arguments.extend([option.into(), value.into()]);
    }
    if asked.options.ignore_end {
        arguments.push("--ignore-eos".into());
    }
    let mode: &[&str] = if is_chat { &["-cnv", "-st", "--jinja"] } else { &["-no-cnv"] };
    if is_chat && asked.turns.len() > 1 {
        return Err(ServerError::OneTurn { engine: EngineKind::LlamaCli, turns: asked.turns.len() });
    }
    if is_chat && !llama.has("-st") {
        return Err(llama.lacks("-st"));
    }
    let plain = ["--no-display-prompt", "--no-escape", "--simple-io", "--perf"];
    arguments.extend(mode.iter().chain(&plain).filter(|option| llama.has(option)).map(OsString::from));
    Ok(arguments)
}
