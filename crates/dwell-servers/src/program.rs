//! Programs that are started for a run: found, started behind a guard, watched, and ended.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use dwell_events::engine::EngineKind;
use dwell_events::server::ServerOptions;
use dwell_process::process_tree;
use rustix::process::{Pid, Signal, kill_process};

use crate::http::Interruption;
use crate::{ServerError, ServerPlace};

/// What programs print, in the log folder.
pub(crate) const LOG_NAME: &str = "server.log";
/// Libraries that the system loads into a program before its own.
const PRELOAD_VARIABLE: &str = "LD_PRELOAD";
/// Lines of the log that an error message shows.
const LOG_LINES_SHOWN: usize = 5;
/// How long a program may take to end after it was asked to, before it is ended by force: half of the time that the
/// observer gives an interrupted worker.
const END_GRACE: Duration = Duration::from_secs(5);
/// How long a server may take to be ready, unless the job says otherwise.
const READY_WITHIN: Duration = Duration::from_secs(300);
/// First and longest pause between two looks at something that is waited for.
pub(crate) const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));
/// Folders that programs are installed into without being in everybody's PATH.
const USUAL_PLACES: [&str; 4] = ["/usr/local/bin", "/usr/bin", "/opt/homebrew/bin", "/opt/llama.cpp/bin"];

/// A program with its arguments.
#[derive(Clone, Debug)]
pub(crate) struct ProgramCommand {
    pub(crate) engine: EngineKind,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    /// Variables besides those of the place.
    pub(crate) environment: Vec<(OsString, OsString)>,
}

/// A running program; it does not outlive this value.
pub(crate) struct Program {
    child: Child,
    command_line: Vec<String>,
    log: Arc<ProgramLog>,
    status: Option<ExitStatus>,
}

/// What a program prints.
pub(crate) struct ProgramLog {
    /// What all programs of the run print.
    file: File,
    /// Where this one's part begins.
    begin: u64,
}

impl ProgramLog {
    /// What was printed so far.
    pub(crate) fn text(&self) -> String {
        let mut bytes = Vec::new();
        let mut file = &self.file;
        // What cannot be read is not there to be shown.
        let _ = file.seek(SeekFrom::Start(self.begin)).and_then(|_| file.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Program {
    /// Starts a program whose output goes to the log.
    pub(crate) fn start(command: &ProgramCommand, place: &ServerPlace) -> Result<Self, ServerError> {
        Self::spawn(command, place, None)
    }

    /// Starts a program whose standard output is read by the caller.
    pub(crate) fn start_piped(
        command: &ProgramCommand,
        place: &ServerPlace,
    ) -> Result<(Self, Option<ChildStdout>), ServerError> {
        let mut program = Self::spawn(command, place, Some(Stdio::piped()))?;
        let stdout = program.child.stdout.take();
        Ok((program, stdout))
    }

    fn spawn(command: &ProgramCommand, place: &ServerPlace, stdout: Option<Stdio>) -> Result<Self, ServerError> {
        let log_error = |source| ServerError::System { doing: "opening the log of the server", source };
        let file = File::options().read(true).append(true).create(true).open(place.log_dir.join(LOG_NAME));
        let mut file = file.map_err(log_error)?;
        let begin = file.seek(SeekFrom::End(0)).map_err(log_error)?;
        let output = || file.try_clone().map(Stdio::from).map_err(log_error);
        let words = place.guard.iter().cloned().chain([command.program.clone().into_os_string()]);
        let words: Vec<OsString> = words.chain(command.arguments.iter().cloned()).collect();
        let child = Command::new(&words[0])
            .args(&words[1..])
            .envs(recorder_environment(place))
            .envs(command.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(stdout.map_or_else(output, Ok)?)
            .stderr(output()?)
            .spawn()
            .map_err(|source| ServerError::Spawn {
                engine: command.engine,
                source,
                program: command.program.clone(),
            })?;
        let own = &words[place.guard.len()..];
        let command_line = own.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        Ok(Self { child, command_line, log: Arc::new(ProgramLog { file, begin }), status: None })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The program and its arguments.
    pub(crate) fn command_line(&self) -> &[String] {
        &self.command_line
    }

    /// What it has printed so far.
    pub(crate) fn printed(&self) -> String {
        self.log.text()
    }

    /// What it prints, to be read while it is waited for.
    pub(crate) fn log(&self) -> Arc<ProgramLog> {
        self.log.clone()
    }

    /// How it ended, if it has.
    pub(crate) fn end(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    /// How it ended, if it has, as a sentence with its last words.
    pub(crate) fn death(&mut self) -> Option<String> {
        let status = self.end()?;
        Some(format!("{}{}", how_it_ended(status), last_words(&self.printed())))
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> Option<ExitStatus> {
        if self.end().is_none() {
            self.status = self.child.wait().ok();
        }
        self.status
    }

    /// Asks it to end, waits, and ends it by force if it does not.
    pub(crate) fn stop(&mut self) {
        if self.end().is_some() {
            return;
        }
        // It may end between the question and the signal; its process id is ours until it is waited for.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let asked = Instant::now();
        let mut pause = PAUSES.0;
        while self.end().is_none() && asked.elapsed() < END_GRACE {
            thread::sleep(pause);
            pause = longer(pause);
        }
        if self.end().is_none() {
            self.kill_all();
        }
    }

    /// Ends it by force, and what it started: nobody else would.
    fn kill_all(&mut self) {
        let started = process_tree(self.pid()).into_iter().map(|line| line.pid).filter(|&pid| pid != self.pid());
        let started: Vec<u32> = started.collect();
        let _ = self.child.kill();
        self.wait();
        for pid in started.into_iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
            // Some end with the program.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What makes the recorders inside the program work; nothing if the program is to stay unrecorded.
pub(crate) fn recorder_environment(place: &ServerPlace) -> Vec<(OsString, OsString)> {
    let mut environment = place.environment.clone();
    let recorder = place.preload_library.as_ref().filter(|_| place.ring_dir.is_some());
    let ours: Vec<OsString> =
        [recorder, place.allocation_library.as_ref()].into_iter().flatten().map(|path| path.clone().into()).collect();
    if !ours.is_empty() {
        // What the user preloads stays.
        let others = std::env::var_os(PRELOAD_VARIABLE).filter(|others| !others.is_empty());
        let libraries: Vec<OsString> = ours.into_iter().chain(others).collect();
        environment.push((PRELOAD_VARIABLE.into(), libraries.join(OsStr::new(":"))));
    }
    environment
}

fn how_it_ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("the program ended with exit code {code}"),
        (_, Some(signal)) => format!("the program was ended by signal {signal}{}", signal_name(signal)),
        _ => "the program ended for an unknown reason".to_owned(),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match Signal::from_named_raw(signal) {
        Some(Signal::KILL) => " (SIGKILL)",
        Some(Signal::TERM) => " (SIGTERM)",
        Some(Signal::SEGV) => " (SIGSEGV)",
        Some(Signal::ABORT) => " (SIGABRT)",
        Some(Signal::ILL) => " (SIGILL)",
        Some(Signal::BUS) => " (SIGBUS)",
        _ => "",
    }
}

/// The end of a log, as the tail of a sentence; before it, the first error, which the end is often a consequence of. Of a
/// program that gave up by an assertion, that alone: a backtrace follows it.
fn last_words(log: &str) -> String {
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if let Some(assertion) = lines.iter().rev().find(|line| is_assertion(line)) {
        return format!("; it said: {assertion}");
    }
    let begin = lines.len().saturating_sub(LOG_LINES_SHOWN);
    let before = &lines[..begin];
    let first_error =
        before.iter().find(|line| is_exception(line)).or_else(|| before.iter().find(|line| is_error(line)));
    let shown: Vec<&str> = first_error.into_iter().chain(&lines[begin..]).copied().collect();
    if shown.is_empty() { "; it said nothing".to_owned() } else { format!("; it said: {}", shown.join(" / ")) }
}

/// What ggml and the C library print before they abort: a place in a source file, and what did not hold there.
fn is_assertion(line: &str) -> bool {
    let place = line.split_once(": ").map(|(place, _)| place);
    let is_place = |place: &str| {
        let (file, number) = place.rsplit_once(':').unwrap_or_default();
        let has_ending = [".c", ".cpp", ".h", ".hpp", ".cu", ".m"].iter().any(|ending| file.ends_with(ending));
        has_ending && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    line.contains("GGML_ASSERT(") || line.contains("Assertion `") || place.is_some_and(is_place)
}

/// What Python prints at the end of a traceback: `ValueError: ...`. Those that follow are consequences of the first.
fn is_exception(line: &str) -> bool {
    line.split_once("Error: ").is_some_and(|(before, _)| before.ends_with(|last: char| last.is_ascii_lowercase()))
}

fn is_error(line: &str) -> bool {
    line.contains(" E ") || line.to_ascii_lowercase().contains("error")
}

/// The pause after this one.
pub(crate) fn longer(pause: Duration) -> Duration {
    (pause * 3 / 2).min(PAUSES.1)
}

/// Waits until something that a program does is done; an error at once if the program ends before.
pub(crate) fn wait_until_ready(
    mut program: Option<&mut Program>,
    engine: EngineKind,
    within: Duration,
    interruption: &Interruption,
    mut look: impl FnMut() -> Result<Readiness, ServerError>,
) -> Result<(), ServerError> {
    let begin = Instant::now();
    let mut pause = PAUSES.0;
    let mut state;
    loop {
        if interruption.is_interrupted() {
            return Err(ServerError::Interrupted { doing: "waiting for the model to be loaded" });
        }
        let end = program.as_mut().and_then(|program| program.end());
        let readiness = look()?;
        match (readiness, end) {
            // Something else may answer at the address of a server that could not begin.
            (Readiness::Ready, None) => return Ok(()),
            (Readiness::Ready, Some(end)) if end.success() => return Ok(()),
            (Readiness::NotYet(found), None) => state = found,
            (_, Some(_)) => {
                let how = program.and_then(|program| program.death()).unwrap_or_default();
                return Err(ServerError::Died { doing: "waiting for the model to be loaded", how });
            }
        }
        if begin.elapsed() >= within {
            return Err(ServerError::NotReady { engine, waited_s: within.as_secs(), state });
        }
        thread::sleep(pause);
        pause = longer(pause);
    }
}

/// The longest time that a server may take to be ready.
pub(crate) fn ready_within(server: &ServerOptions) -> Duration {
    server.ready_within_s.map_or(READY_WITHIN, Duration::from_secs)
}

/// Whether something that is waited for is there.
pub(crate) enum Readiness {
    /// It is.
    Ready,
    /// It is not, and this is what was found.
    NotYet(String),
}

/// A port of this machine that nobody listens on. Somebody may take it before it is used.
pub(crate) fn free_port() -> Result<u16, ServerError> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    free.map(|address| address.port())
        .map_err(|source| ServerError::System { doing: "looking for a free port", source })
}

/// The given program, or the first of the engine's names in PATH and the usual places.
pub fn find_program(engine: EngineKind, given: Option<&Path>) -> Result<PathBuf, ServerError> {
    if let Some(program) = given {
        return usable(engine, program);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    places.extend(
        USUAL_PLACES.map(PathBuf::from).into_iter().filter(|place| !places.contains(place)).collect::<Vec<_>>(),
    );
    let names = engine.profile().programs;
    let found =
        names.iter().flat_map(|name| places.iter().map(move |place| place.join(name))).find(|file| is_program(file));
    found.ok_or_else(|| ServerError::NoProgram {
        engine,
        names: names.iter().map(|&name| name.to_owned()).collect(),
        places: places.iter().map(|place| place.display().to_string()).collect(),
    })
}

/// The given program, if it is one.
pub(crate) fn usable(engine: EngineKind, program: &Path) -> Result<PathBuf, ServerError> {
    // A name alone is looked for in PATH by the system.
    let is_name = !program.as_os_str().as_encoded_bytes().contains(&b'/');
    if is_name || is_program(program) {
        return Ok(program.to_owned());
    }
    let found = match std::fs::metadata(program) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => "nothing is there".to_owned(),
        Err(error) => error.to_string(),
        Ok(metadata) if metadata.is_dir() => "it is a folder".to_owned(),
        Ok(_) => "it may not be executed".to_owned(),
    };
    Err(ServerError::NotAProgram { engine, found, program: program.to_owned() })
}

/// The program of this name that the system would find.
pub(crate) fn program_in_path(name: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|place| place.join(name)).find(|file| is_program(file))
}

/// What keeps a script from being started: an interpreter that is not there. The kernel only says that nothing is there, which
/// a reader would take for the script.
pub(crate) fn missing_interpreter(program: &Path) -> Option<String> {
    let mut head = Vec::new();
    File::open(program).ok()?.take(256).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let interpreter = line.trim_ascii().split(|byte| byte.is_ascii_whitespace()).next()?;
    let interpreter = Path::new(OsStr::from_bytes(interpreter));
    (!is_program(interpreter)).then(|| format!("its interpreter {interpreter:?} is no program"))
}

fn is_program(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn a_script_without_its_interpreter_is_told_from_one_that_can_start() {
        let dir = tempfile::tempdir().unwrap();
        let script = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            missing_interpreter(&path)
        };
        assert_eq!(script("good", "#!/bin/sh -e\nexit 0\n"), None);
        assert_eq!(script("plain", "exit 0\n"), None);
        assert_eq!(
            script("bad", "#! /nonexistent/interpreter -x\n"),
            Some("its interpreter \"/nonexistent/interpreter\" is no program".to_owned())
        );
        assert!(script("cut", "#!").is_some());
    }

    #[test]
    fn an_assertion_is_shown_and_not_the_backtrace_after_it() {
        let backtrace: String =
            (0..30).map(|frame| format!("#{frame}  0x00007f21 in ?? () from libc.so.6\n")).collect();
        let said =
            |line: &str| format!("0.00.1 I srv  load_model: loading model 'm'\n{line}\n[New LWP 7]\n{backtrace}");
        for line in [
            "/src/llama.cpp/ggml/src/ggml.c:3177: GGML_ASSERT(a->ne[2] % b->ne[2] == 0) failed",
            "/src/ggml-backend.cpp:2010: pre-allocated tensor (cache_k_l0) in a buffer that cannot run the operation",
            "llama-server: batch.cpp:5: int f(): Assertion `n > 0' failed.",
        ] {
            assert_eq!(last_words(&said(line)), format!("; it said: {line}"));
        }
        let without = last_words(&said("0.00.2 I srv  ready"));
        assert!(without.contains("#29") && !without.contains("ready"), "{without}");
    }

    #[test]
    fn the_first_exception_is_shown_and_not_a_warning_before_it() {
        let traceback = "  File \"core.py\", line 1, in f\n".repeat(9);
        let log = format!(
            "WARNING 11-16 Found ulimit of 20000 and failed with error current limit exceeds maximum limit\n\
             (Worker) ERROR 11-16 Traceback (most recent call last):\n\
             (Worker) ERROR 11-16 ValueError: No common block size for 16\n{traceback}\
             RuntimeError: Engine core initialization failed. See root cause above.\n"
        );
        let said = last_words(&log);
        assert!(
            said.starts_with("; it said: (Worker) ERROR 11-16 ValueError: No common block size for 16 / "),
            "{said}"
        );
        assert!(!said.contains("ulimit"), "{said}");
    }

    #[test]
    fn what_a_program_started_ends_with_it_by_force() {
        let dir = tempfile::tempdir().unwrap();
        let place = ServerPlace {
            log_dir: dir.path().to_owned(),
            ring_dir: None,
            preload_library: None,
            allocation_library: None,
            observer_pid: std::process::id(),
            cache_dir: std::path::PathBuf::new(),
            page_sample_interval_ms: 100,
            guard: Vec::new(),
            environment: Vec::new(),
        };
        let command = ProgramCommand {
            engine: EngineKind::Ollama,
            program: "sh".into(),
            arguments: ["-c", "sleep 600 & echo started; wait"].map(OsString::from).to_vec(),
            environment: Vec::new(),
        };
        let mut program = Program::start(&command, &place).unwrap();
        let is_asleep = |pid: u32| {
            process_tree(pid).first().is_some_and(|line| line.command_line.first().is_some_and(|word| word == "sleep"))
        };
        let child = loop {
            match process_tree(program.pid()).get(1) {
                Some(child) if is_asleep(child.pid) => break child.pid,
                _ => thread::sleep(PAUSES.0),
            }
        };
        program.kill_all();
        assert_eq!(program.end().and_then(|end| end.signal()), Some(Signal::KILL.as_raw()));
        // One that ended and that nobody has waited for yet has no command line.
        let killed = Instant::now();
        while is_asleep(child) && killed.elapsed() < END_GRACE {
            thread::sleep(PAUSES.0);
        }
        assert!(!is_asleep(child));
    }
}
