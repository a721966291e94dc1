//! A command of the user's choice: started with the recorder loaded, looked at while it runs, waited for.
//!
//! Its standard input, output and error are those of dwell, untouched. It is asked nothing and told nothing; signals are
//! passed on by the observer, which the user sends them to.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use dwell_events::Phase;
use dwell_events::engine::{EngineEvent, JOB_FILE_VARIABLE, Job};
use dwell_events::server::ServerDescription;
use dwell_events::without_secrets;

use crate::driver::Teller;
use crate::ggml_use::GgmlUse;
use crate::program::{PAUSES, longer, missing_interpreter, program_in_path, recorder_environment, usable};
use crate::{ServerError, ServerPlace};

/// Longest time between two looks at the command's processes: each reads the list of all processes of the machine.
const LONGEST_LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Runs the command of a job to its end, however that is.
pub(crate) fn run(job: &Job, place: &ServerPlace, teller: &Teller) -> Result<(), ServerError> {
    let program = find(job)?;
    let mut child = start(job, place, &program)?;
    let mut facts = ServerDescription {
        is_started_here: true,
        command_line: without_secrets(&words_of(job)),
        model_path: Some(job.options.model.clone()).filter(|path| !path.as_os_str().is_empty()),
        was_loaded: Some(false),
        ..ServerDescription::default()
    };
    // Now as well as at the end: what is recorded may have to be recovered without an end.
    teller.tell(EngineEvent::Serving { server: Box::new(facts.clone()) });
    teller.tell(EngineEvent::ProcessFound { pid: child.id(), role: "command".to_owned() });
    let (end, usage) = wait(&mut child, place)?;
    teller.tell(EngineEvent::PhaseBegins { phase: Phase::Teardown });
    facts.untraced_because = usage.untraced_because(place);
    teller.tell(EngineEvent::Serving { server: Box::new(facts) });
    teller.tell(EngineEvent::ProgramEnded { exit_code: end.code(), exit_signal: end.signal() });
    Ok(())
}

fn words_of(job: &Job) -> Vec<String> {
    let program = job.server.program.as_deref().unwrap_or(Path::new("")).display().to_string();
    [program].into_iter().chain(job.server.arguments.iter().cloned()).collect()
}

/// The program that the system would start. It is looked for here, because behind the guard its absence would look like a
/// failure of its own.
fn find(job: &Job) -> Result<PathBuf, ServerError> {
    let program = job.server.program.as_deref().unwrap_or(Path::new(""));
    let nowhere = || ServerError::NotAProgram {
        engine: job.engine,
        found: "no program of this name is in PATH".to_owned(),
        program: program.to_owned(),
    };
    let found = match program.components().count() {
        1 if !program.as_os_str().as_encoded_bytes().contains(&b'/') => program_in_path(program).ok_or_else(nowhere),
        _ => usable(job.engine, program),
    }?;
    match missing_interpreter(&found) {
        Some(missing) => Err(ServerError::NotAProgram { engine: job.engine, found: missing, program: found }),
        None => Ok(found),
    }
}

fn start(job: &Job, place: &ServerPlace, program: &Path) -> Result<Child, ServerError> {
    let words = place.guard.iter().cloned().chain([program.into()]);
    let words: Vec<OsString> = words.chain(job.server.arguments.iter().map(OsString::from)).collect();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).envs(recorder_environment(place)).env_remove(JOB_FILE_VARIABLE);
    command.spawn().map_err(|source| ServerError::Spawn { engine: job.engine, source, program: program.to_owned() })
}

/// Waits for the end of the command, and looks at its processes meanwhile.
fn wait(child: &mut Child, place: &ServerPlace) -> Result<(ExitStatus, GgmlUse), ServerError> {
    let (mut usage, mut pause) = (GgmlUse::default(), PAUSES.0);
    let (mut looked_at, mut look_interval) = (Instant::now(), Duration::ZERO);
    loop {
        if looked_at.elapsed() >= look_interval {
            usage.look(child.id(), place);
            looked_at = Instant::now();
            look_interval = (look_interval * 3 / 2).clamp(PAUSES.0, LONGEST_LOOK_INTERVAL);
        }
        let waited = child.try_wait();
        if let Some(end) = waited.map_err(|source| ServerError::System { doing: "waiting for the command", source })? {
            return Ok((end, usage));
        }
        thread::sleep(pause);
        pause = longer(pause);
    }
}
