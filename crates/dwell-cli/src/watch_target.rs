//! What `dwell watch` watches: processes that are there, or one that it starts.

use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use dwell_process::{FoundProcess, ProcessError, Sampler, find_processes, process_name};
use dwell_report::text::{counted, seconds};
use rustix::process::{Pid, Signal, kill_process, set_child_subreaper};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::WatchArgs;
use crate::messages::{Failure, hinted};
use crate::output::say;
use crate::shell::shell_word;

/// How often a name is looked for, and whether a program has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Longest part of a command line that is shown.
const COMMAND_LINE_CHARS: usize = 100;

/// The roots of what is watched.
pub(crate) struct Target {
    label: String,
    roots: Vec<FoundProcess>,
    command: Option<Child>,
    interrupts: u32,
    terminations: u32,
}

/// Whether to go on watching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    GoesOn,
    IsOver,
}

impl Target {
    /// Finds or starts it.
    pub(crate) fn find(args: &WatchArgs, signals: &mut Signals) -> anyhow::Result<Self> {
        let (roots, default_label, command) = match (&args.name, args.pid) {
            (Some(name), _) => (wait_for(name, args, signals)?, name.clone(), None),
            (None, Some(pid)) => {
                let name = process_name(pid).unwrap_or_else(|| pid.to_string());
                let root = FoundProcess { pid, name: name.clone(), command_line: String::new() };
                (vec![root], name, None)
            }
            (None, None) => {
                let command = start(args)?;
                let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
                let name = words[0].rsplit('/').next().unwrap_or_default().to_owned();
                let root = FoundProcess { pid: command.id(), name: name.clone(), command_line: words.join(" ") };
                (vec![root], name, Some(command))
            }
        };
        Ok(Self { label: args.label.clone().unwrap_or(default_label), roots, command, interrupts: 0, terminations: 0 })
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    pub(crate) fn roots(&self) -> &[FoundProcess] {
        &self.roots
    }

    /// Whether it was started here.
    pub(crate) fn is_command(&self) -> bool {
        self.command.is_some()
    }

    /// Says which processes were taken.
    pub(crate) fn text(&self) -> String {
        let describe = |root: &FoundProcess| {
            let words: String = root.command_line.chars().take(COMMAND_LINE_CHARS).collect();
            format!("{} {}", root.pid, if words.is_empty() { &root.name } else { &words })
        };
        let roots: Vec<String> = self.roots.iter().map(describe).collect();
        format!("watching {}: {}", counted(self.roots.len() as u64, "process"), roots.join("; "))
    }

    /// A sampler of all of it. Of several roots, those that ended meanwhile are left out.
    pub(crate) fn sampler(&self) -> Result<Sampler, ProcessError> {
        let mut sampler = Sampler::empty();
        if self.is_command() {
            // It may have ended already and have left others behind.
            sampler.watch_own_children(&self.label);
            return Ok(sampler);
        }
        let mut missing = None;
        for root in &self.roots {
            match sampler.watch_tree(&self.label, root.pid) {
                Err(error @ ProcessError::NoSuchProcess { .. }) => missing = Some(error),
                outcome => outcome?,
            }
        }
        match missing.filter(|_| self.roots.iter().all(|root| sampler.is_gone(root.pid))) {
            Some(error) => Err(error),
            None => Ok(sampler),
        }
    }

    /// What signals that came in mean for the watch.
    ///
    /// Ctrl-C ends the watch. A program that was started here gets it from the terminal too and is watched to its end;
    /// a second one does not wait for that. SIGTERM reaches dwell alone and is handed on, and so with a second one.
    pub(crate) fn on_signals(&mut self, signals: &mut Signals) -> Wait {
        for signal in signals.pending() {
            match signal == SIGTERM {
                true => self.terminations += 1,
                false => self.interrupts += 1,
            }
            match &self.command {
                None => return Wait::IsOver,
                Some(command) if signal == SIGTERM || self.interrupts > 1 => end(command),
                Some(_) => {}
            }
        }
        if self.interrupts.max(self.terminations) > 1 { Wait::IsOver } else { Wait::GoesOn }
    }

    /// Waits for the program that was started here, if one was, and says how it ended.
    pub(crate) fn wait_for_command(&mut self, signals: &mut Signals) -> Option<ExitStatus> {
        loop {
            match self.command.as_mut()?.try_wait() {
                Ok(None) => {}
                Ok(ended) => return ended,
                Err(_) => return None,
            }
            if self.on_signals(signals) == Wait::IsOver {
                return None;
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }
}

fn end(command: &Child) {
    if let Some(pid) = Pid::from_raw(command.id().cast_signed()) {
        // It may have ended already.
        let _ = kill_process(pid, Signal::TERM);
    }
}

fn wait_for(name: &str, args: &WatchArgs, signals: &mut Signals) -> anyhow::Result<Vec<FoundProcess>> {
    let (began_at, longest) = (Instant::now(), args.wait_secs);
    let mut is_told = args.json;
    loop {
        let found = find_processes(name).map_err(hinted)?;
        if !found.is_empty() {
            return Ok(found);
        }
        if !std::mem::replace(&mut is_told, true) && !longest.is_zero() {
            let longest = seconds(longest.as_secs_f64());
            say(format_args!("waiting up to {longest} for a process whose name or command line contains {name:?}\n"));
        }
        let is_interrupted = signals.pending().any(|signal| signal == SIGINT || signal == SIGTERM);
        if is_interrupted {
            return Err(Failure::new("ended by the user").into());
        }
        if began_at.elapsed() >= longest {
            let waited = format!("waited {} s", longest.as_secs_f64());
            let message = format!("watching found no process whose name or command line contains {name:?}; {waited}");
            let failure = Failure::new(message).hint("list the processes: ps -ef");
            return Err(failure.hint("or wait longer with --wait-secs").into());
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

fn start(args: &WatchArgs) -> anyhow::Result<Child> {
    // Daemons that let go of their parent become children of dwell, and can be followed. Without it they are lost.
    let _ = set_child_subreaper(Some(rustix::process::getpid()));
    let program = &args.command[0];
    Command::new(program).args(&args.command[1..]).spawn().map_err(|error| {
        let word = shell_word(&program.to_string_lossy());
        let failure = Failure::new(format!("starting the command failed with {error}: {program:?}"));
        match error.kind() {
            std::io::ErrorKind::NotFound => failure.hint(format!("see whether it is there with `command -v {word}`")),
            std::io::ErrorKind::PermissionDenied => {
                failure.hint(format!("see whether it can be run with `ls -l {word}`"))
            }
            _ => failure,
        }
        .into()
    })
}
