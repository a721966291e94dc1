//! How Chromium is started.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::BrowserError;
use crate::connection::IsInterrupted;

/// Argument without which Chromium does not start as root, or in containers without user namespaces.
pub const NO_SANDBOX: &str = "--no-sandbox";

/// Nothing but the page of this machine is reached, nothing is asked, and nothing is kept.
const ARGUMENTS: &[&str] = &[
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-quic",
    "--disable-sync",
    "--disable-breakpad",
    "--mute-audio",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    // A page that nobody sees is slowed down otherwise.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    // Containers give /dev/shm 64 MB, which the transfer of a model fills.
    "--disable-dev-shm-usage",
    // `performance.memory` is otherwise a rounded value that stands still.
    "--enable-precise-memory-info",
    // `measureUserAgentSpecificMemory` otherwise waits for the next garbage collection, up to a minute.
    "--enable-blink-features=ForceEagerMeasureMemory",
    // WebGPU, also on a machine without a GPU.
    "--enable-unsafe-webgpu",
    "--enable-unsafe-swiftshader",
];

/// Chromium reads commands from descriptor 3 and answers on 4. They come as standard input and output of a shell, which becomes
/// Chromium: no code of ours runs between fork and exec.
const SHELL: [&str; 3] = ["sh", "-c", "exec \"$@\" 3<&0 4>&1 </dev/null >&2"];

/// A browser that is to be started.
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Arguments besides those that every browser gets here.
    pub arguments: Vec<OsString>,
    /// Folder of its profile: made for it, and removed when it has ended.
    pub profile: PathBuf,
    /// What it prints.
    pub log: File,
    /// Put before the command, so that the program ends when this process does.
    pub guard: Vec<OsString>,
    /// Says whether waiting for it is to end.
    pub is_interrupted: IsInterrupted,
    /// How long it may take until [`Browser::became_ready`](crate::Browser::became_ready) is called.
    pub ready_within: Duration,
}

impl Launch {
    /// The program and its arguments, without what is put before it.
    pub fn command_line(&self) -> Vec<OsString> {
        let mut profile = OsString::from("--user-data-dir=");
        profile.push(&self.profile);
        let sandbox = rustix::process::geteuid().is_root().then(|| NO_SANDBOX.into());
        let own = ARGUMENTS.iter().map(OsString::from).chain([profile]).chain(sandbox);
        let words = [self.program.clone().into_os_string()].into_iter().chain(own);
        words.chain(self.arguments.iter().cloned()).chain(["about:blank".into()]).collect()
    }

    pub(crate) fn spawn(&self) -> Result<Child, BrowserError> {
        let shell = SHELL.iter().map(OsString::from).chain(["sh".into()]);
        let words: Vec<OsString> = self.guard.iter().cloned().chain(shell).chain(self.command_line()).collect();
        let stderr = self.log.try_clone().map(Stdio::from);
        let child = stderr.and_then(|stderr| {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
            command.env_remove(OsStr::new("LD_PRELOAD")).spawn()
        });
        child.map_err(|source| BrowserError::Spawn { source, program: self.program.clone() })
    }
}
