//! What `dwell observe` observes: everything, some processes, or a command that it starts.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use anyhow::Context;
use dwell_kernel::Chosen;
use dwell_process::process_tree;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::args::ObserveArgs;
use crate::messages::Failure;

/// The processes, and whether they are still there.
pub(crate) struct ObserveTarget {
    chosen: Chosen,
    /// A process with the descendants that it had when they were last looked for.
    tree: Vec<u32>,
    command: Option<Child>,
}

impl ObserveTarget {
    /// Finds the processes. A command is started and stopped before its first instruction, so that nothing goes unseen.
    pub(crate) fn find(args: &ObserveArgs) -> anyhow::Result<Self> {
        let command = if args.run.is_empty() { None } else { Some(start_stopped(&args.run)?) };
        let root = command.as_ref().map(Child::id).or(args.pid);
        let chosen = match (root, &args.cgroup, &args.comm) {
            (Some(pid), ..) => Chosen::Process(pid),
            (None, Some(path), _) => Chosen::Cgroup(path.clone()),
            (None, None, Some(name)) => Chosen::Name(name.clone()),
            (None, None, None) => Chosen::All,
        };
        Ok(Self { chosen, tree: root.into_iter().collect(), command })
    }

    pub(crate) fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    /// Lets the command go on.
    pub(crate) fn begin(&self) {
        self.signal(Signal::CONT);
    }

    /// Ends a command that could not be observed.
    pub(crate) fn discard(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.command.as_ref().and_then(|command| Pid::from_raw(command.id().cast_signed())) {
            // It may have ended already.
            let _ = kill_process(pid, signal);
        }
    }

    /// Looks for the descendants of the process.
    pub(crate) fn refresh(&mut self) {
        if let Chosen::Process(pid) = self.chosen {
            let tree = process_tree(pid);
            if !tree.is_empty() {
                self.tree = tree.iter().map(|line| line.pid).collect();
            }
        }
    }

    /// Whether there is nothing to observe any more.
    pub(crate) fn has_ended(&mut self) -> bool {
        match &mut self.command {
            Some(command) => !matches!(command.try_wait(), Ok(None)),
            None => !self.tree.is_empty() && !self.tree.iter().any(|pid| is_there(*pid)),
        }
    }

    /// Waits for the command; how it ended, if one was started.
    pub(crate) fn wait(&mut self) -> Option<ExitStatus> {
        self.command.as_mut()?.wait().ok()
    }
}

fn is_there(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// A shell that stops itself and then becomes the command.
fn start_stopped(command: &[OsString]) -> anyhow::Result<Child> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "kill -STOP $$; exec \"$@\"", "sh"]).args(command);
    let mut child = shell.spawn().context("starting a shell for the command")?;
    let pid = Pid::from_raw(child.id().cast_signed()).context("a process has an id")?;
    let stopped = waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    match stopped.context("waiting for the shell")? {
        Some(status) if status.stopped() => Ok(child),
        _ => {
            let _ = child.wait();
            Err(Failure::new("starting the command found that its shell ended").into())
        }
    }
}
