//! What a program of llama.cpp can be told: its options differ from version to version.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use dwell_events::engine::{EngineKind, EngineOptions};

use crate::{Interruption, ServerError};

/// How long a program may take to say what it can be told, and how often it is looked at.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// A program of llama.cpp with the options that it has.
#[derive(Clone, Debug)]
pub(crate) struct LlamaProgram {
    pub(crate) engine: EngineKind,
    pub(crate) path: PathBuf,
    /// What it says of its version, such as `0.7.0 (build 11669, commit Debian)`.
    pub(crate) version: Option<String>,
    options: BTreeSet<String>,
    /// Whether fused attention is chosen by a word, rather than switched on.
    has_attention_word: bool,
    /// Level of detail at which it says what it allocates, where it does not by itself.
    trace_level: Option<&'static str>,
}

impl LlamaProgram {
    /// Asks a program for its version and its options.
    pub(crate) fn ask(engine: EngineKind, path: PathBuf, interruption: &Interruption) -> Result<Self, ServerError> {
        let (help, how) = output_of(engine, &path, "--help", interruption)?;
        let options = options_in(&help);
        if !options.contains("-m") {
            return Err(ServerError::NotAProgram {
                engine,
                found: format!("its --help names no option -m ({how})"),
                program: path,
            });
        }
        let version = output_of(engine, &path, "--version", interruption).ok().and_then(|(text, _)| version_in(&text));
        Ok(Self {
            engine,
            version,
            has_attention_word: help.lines().any(|line| line.starts_with("-fa") && line.contains("on|off")),
            trace_level: help.contains("- 4: trace").then_some("4"),
            options,
            path,
        })
    }

    /// Whether it has an option.
    pub(crate) fn has(&self, option: &str) -> bool {
        self.options.contains(option)
    }

    /// Whether it only answers messages; such a program is a front end of the server.
    pub(crate) fn is_chat_only(&self) -> bool {
        self.has("--server-base")
    }

    /// What sets up the model and the context, for every program of llama.cpp.
    pub(crate) fn model_arguments(&self, options: &EngineOptions) -> Result<Vec<OsString>, ServerError> {
        let mut arguments = Arguments { program: self, words: vec!["-m".into(), options.model.clone().into()] };
        for (option, value) in [
            ("-c", options.context_length),
            ("-t", options.threads),
            ("-b", options.batch_size),
            ("-ub", options.micro_batch_size),
        ] {
            arguments.words.extend([option.into(), value.to_string().into()]);
        }
        arguments.pair("-ctk", options.kv_type_k.name())?;
        arguments.pair("-ctv", options.kv_type_v.name())?;
        arguments.attention(options.flash_attention);
        arguments.mapping(options.mmap)?;
        if !options.repack {
            arguments.switch("--no-repack")?;
        }
        if options.full_window_cache {
            arguments.switch("--swa-full")?;
        }
        match options.context_shift {
            true => arguments.switch_if_known("--context-shift"),
            false => arguments.switch_if_known("--no-context-shift"),
        }
        if let Some(level) = self.trace_level {
            arguments.pair("-lv", level)?;
        }
        arguments.switch_if_known("--offline");
        Ok(arguments.words)
    }
}

/// A command line in the making.
struct Arguments<'a> {
    program: &'a LlamaProgram,
    words: Vec<OsString>,
}

impl Arguments<'_> {
    fn switch(&mut self, option: &str) -> Result<(), ServerError> {
        if !self.program.has(option) {
            return Err(self.program.lacks(option));
        }
        self.words.push(option.into());
        Ok(())
    }

    fn switch_if_known(&mut self, option: &str) {
        if self.program.has(option) {
            self.words.push(option.into());
        }
    }

    fn pair(&mut self, option: &str, value: &str) -> Result<(), ServerError> {
        self.switch(option)?;
        self.words.push(value.into());
        Ok(())
    }

    fn attention(&mut self, is_fused: bool) {
        match (self.program.has_attention_word, is_fused) {
            (true, true) => self.words.extend(["-fa".into(), "on".into()]),
            (true, false) => self.words.extend(["-fa".into(), "off".into()]),
            (false, true) => self.switch_if_known("-fa"),
            (false, false) => {}
        }
    }

    fn mapping(&mut self, is_mapped: bool) -> Result<(), ServerError> {
        match (self.program.has("--load-mode"), is_mapped) {
            (true, true) => self.pair("--load-mode", "mmap"),
            (true, false) => self.pair("--load-mode", "none"),
            (false, true) => Ok(()),
            (false, false) => self.switch("--no-mmap"),
        }
    }
}

impl LlamaProgram {
    /// The error for a setting that it has no option for.
    pub(crate) fn lacks(&self, option: &str) -> ServerError {
        ServerError::NoOption { engine: self.engine, wanted: option.to_owned(), program: self.path.clone() }
    }
}

/// What a program prints on either stream, and how it ended; one that does not end soon is not what it should be.
pub(crate) fn output_of(
    engine: EngineKind,
    path: &Path,
    argument: &str,
    interruption: &Interruption,
) -> Result<(String, String), ServerError> {
    let spawn_error = |source| ServerError::Spawn { engine, source, program: path.to_owned() };
    let mut printed = tempfile::tempfile().map_err(spawn_error)?;
    let output = || printed.try_clone().map(Stdio::from).map_err(spawn_error);
    let mut command = Command::new(path);
    command.arg(argument).stdin(Stdio::null()).stdout(output()?).stderr(output()?);
    let mut child = command.spawn().map_err(spawn_error)?;
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(spawn_error)? {
            break status;
        }
        if interruption.is_interrupted() || begin.elapsed() > ANSWER_WITHIN {
            // It may have ended meanwhile, which is as good.
            let _ = child.kill();
            let _ = child.wait();
            return Err(match interruption.is_interrupted() {
                true => ServerError::Interrupted { doing: "asking the program for its options" },
                false => {
                    let found = format!("it does not answer {argument}");
                    ServerError::NotAProgram { engine, found, program: path.to_owned() }
                }
            });
        }
        thread::sleep(LOOK_INTERVAL);
    };
    let mut bytes = Vec::new();
    printed.rewind().and_then(|()| printed.read_to_end(&mut bytes)).map_err(spawn_error)?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), status.to_string()))
}

/// Names of options: the words with a dash that a line of the help begins with.
fn options_in(help: &str) -> BTreeSet<String> {
    let names = |line: &str| -> Vec<String> {
        let words = line.split_whitespace().map(|word| word.trim_end_matches(',').to_owned());
        words.take_while(|word| word.starts_with('-')).collect()
    };
    help.lines().filter(|line| line.starts_with('-')).flat_map(names).collect()
}

fn version_in(text: &str) -> Option<String> {
    text.lines().find_map(|line| line.trim().strip_prefix("version: ")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "\
----- common params -----

-h,    --help, --usage                  print usage and exit
-m,    --model FNAME                    model path
-fa,   --flash-attn [on|off|auto]       set Flash Attention use
-kvo,  --kv-offload, -nkvo, --no-kv-offload
                                        whether to enable KV cache offloading (-x is no option)
-lv,   --verbosity, --log-verbosity N   Set the verbosity threshold.
                                         - 3: info
                                         - 4: trace (more info)
--load-mode MODE                        model loading mode
-ctk,  --cache-type-k TYPE              KV cache data type for K
-ctv,  --cache-type-v TYPE              KV cache data type for V
";

    fn program(help: &str) -> LlamaProgram {
        LlamaProgram {
            engine: EngineKind::LlamaServer,
            path: "llama-server".into(),
            version: None,
            options: options_in(help),
            has_attention_word: help.contains("on|off"),
            trace_level: help.contains("- 4: trace").then_some("4"),
        }
    }

    fn words(program: &LlamaProgram, options: &EngineOptions) -> Result<String, String> {
        let words = program.model_arguments(options).map_err(|error| error.to_string())?;
        Ok(words.join(" ".as_ref()).to_string_lossy().into_owned())
    }

    #[test]
    fn options_are_the_words_that_lines_begin_with() {
        let found = options_in(HELP);
        for name in ["-h", "--usage", "-m", "--no-kv-offload", "-lv", "--load-mode"] {
            assert!(found.contains(name), "{name}");
        }
        assert!(!found.contains("-x") && !found.contains("-"));
        assert_eq!(version_in("version: 0.7.0 (build 1)\nbuilt with"), Some("0.7.0 (build 1)".to_owned()));
    }

    #[test]
    fn each_setting_becomes_the_option_that_this_version_has() {
        let mut options = EngineOptions::new("m.gguf".into());
        let common = "-m m.gguf -c 2048 -t 1 -b 2048 -ub 512 -ctk f16 -ctv f16";
        assert_eq!(words(&program(HELP), &options), Ok(format!("{common} -fa on --load-mode mmap -lv 4")));
        let older =
            "-m, --model F\n-fa,   --flash-attn  enable\n-ctk, --x T\n-ctv, --y T\n--no-mmap  no\n--no-repack  no\n";
        options.mmap = false;
        options.repack = false;
        options.flash_attention = false;
        assert_eq!(words(&program(older), &options), Ok(format!("{common} --no-mmap --no-repack")));
        let refused = words(&program(HELP), &options);
        assert_eq!(
            refused,
            Err("starting llama_server: --no-repack, and this version has no option for it: \"llama-server\""
                .to_owned())
        );
    }
}
