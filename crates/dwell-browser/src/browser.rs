//! A running browser.

use std::fs;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use dwell_process::process_tree;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::json;

use crate::connection::Connection;
use crate::{BrowserError, Launch, Page};

/// How long a browser may take to end after it was asked to.
const END_GRACE: Duration = Duration::from_secs(5);
/// How long the end of a browser is waited for whose pipe broke.
const DEATH_GRACE: Duration = Duration::from_secs(2);
/// How long its other processes may take to end after it.
const REST_GRACE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);
/// Lines of the log that a message shows.
const LOG_LINES_SHOWN: usize = 4;
/// What Chromium prints on machines without a desktop, and what is no cause of anything.
const NOISE: [&str; 4] = ["dbus", "unexpected operator", "DevTools listening", "gcm"];

/// A browser that was started here; it does not outlive this value, nor does its profile.
pub struct Browser {
    child: Child,
    connection: Arc<Connection>,
    product: String,
    profile: PathBuf,
    log: File,
    log_begin: u64,
    status: Option<ExitStatus>,
}

/// A process of a browser.
#[derive(Clone, Debug, PartialEq)]
pub struct BrowserProcess {
    /// Process id.
    pub pid: u32,
    /// What Chromium calls it: `browser`, `renderer`, `GPU`, `network.mojom.NetworkService`.
    pub kind: String,
    /// CPU time so far, in seconds.
    pub cpu_s: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProcessList {
    process_info: Vec<ProcessEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProcessEntry {
    r#type: String,
    id: u32,
    cpu_time: f64,
}

#[derive(Deserialize)]
struct Version {
    product: String,
}

impl Browser {
    /// Starts a browser with a fresh profile and waits until it answers.
    pub fn start(launch: &Launch) -> Result<Self, BrowserError> {
        let failed = |doing, source| BrowserError::File { doing, source, path: launch.profile.clone() };
        fs::create_dir_all(&launch.profile).map_err(|source| failed("making the profile of the browser", source))?;
        let log = launch.log.try_clone().map_err(|source| failed("opening the log of the browser", source))?;
        let log_begin = log.metadata().map_or(0, |metadata| metadata.len());
        let mut child = launch.spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (commands, answers) = pipes.ok_or_else(|| BrowserError::Spawn {
            source: io::Error::other("it has no pipes"),
            program: launch.program.clone(),
        })?;
        let is_interrupted = launch.is_interrupted.clone();
        let connection = Arc::new(Connection::begin(commands, answers, is_interrupted, launch.ready_within));
        let profile = launch.profile.clone();
        let mut browser = Self { child, connection, product: String::new(), profile, log, log_begin, status: None };
        browser.product = browser.asked_version().map_err(|error| browser.explained("starting Chromium", error))?;
        Ok(browser)
    }

    fn asked_version(&self) -> Result<String, BrowserError> {
        let version: Version = self.ask("Browser.getVersion")?;
        self.connection.call(None, "Target.setDiscoverTargets", json!({"discover": true}))?;
        Ok(version.product)
    }

    fn ask<T: for<'de> Deserialize<'de>>(&self, method: &str) -> Result<T, BrowserError> {
        let answer = self.connection.call(None, method, json!({}))?;
        let found = answer.to_string();
        serde_json::from_value(answer).map_err(|error| BrowserError::Answer {
            doing: format!("calling {method}: {error}"),
            found,
            needed: "an answer of protocol 1.3",
        })
    }

    /// It has been prepared for its work: from now on each answer has a time of its own.
    pub fn became_ready(&self) {
        self.connection.became_ready();
    }

    /// What is left of the time to get ready; none once it is.
    pub fn time_to_get_ready(&self) -> Option<Duration> {
        self.connection.time_to_get_ready()
    }

    /// Product and version, such as `Chrome/156.0.8078.79`.
    pub fn product(&self) -> &str {
        &self.product
    }

    /// Its first process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// All its processes.
    pub fn processes(&self) -> Result<Vec<BrowserProcess>, BrowserError> {
        let list: ProcessList = self.ask("SystemInfo.getProcessInfo")?;
        let process = |entry: ProcessEntry| BrowserProcess { pid: entry.id, kind: entry.r#type, cpu_s: entry.cpu_time };
        Ok(list.process_info.into_iter().map(process).collect())
    }

    /// Opens an empty page.
    pub fn open_page(&self) -> Result<Page, BrowserError> {
        Page::open(self.connection.clone())
    }

    /// An error with the end of the browser in it, if that is the cause.
    pub fn explained(&mut self, doing: &str, error: BrowserError) -> BrowserError {
        if !matches!(error, BrowserError::Ended { .. }) {
            return error;
        }
        let begin = Instant::now();
        while self.end().is_none() && begin.elapsed() < DEATH_GRACE {
            thread::sleep(PAUSE);
        }
        match self.death() {
            Some(how) => BrowserError::Ended { doing: doing.to_owned(), how },
            None => error,
        }
    }

    /// How it ended, if it has, with its last words.
    pub fn death(&mut self) -> Option<String> {
        let status = self.end()?;
        let how = match (status.code(), status.signal()) {
            (_, Some(signal)) => format!("Chromium was ended by signal {signal}"),
            (Some(code), _) => format!("Chromium ended with exit code {code}"),
            _ => "Chromium ended for an unknown reason".to_owned(),
        };
        Some(format!("{how}{}", last_words(&self.printed())))
    }

    fn end(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    fn printed(&self) -> String {
        let mut bytes = Vec::new();
        let mut log = &self.log;
        // What cannot be read is not there to be shown.
        let _ = log.seek(SeekFrom::Start(self.log_begin)).and_then(|_| log.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Ends it with all its processes, and removes its profile.
    pub fn stop(&mut self) {
        let tree: Vec<u32> = process_tree(self.pid()).into_iter().map(|line| line.pid).collect();
        if self.end().is_none() {
            // It may have gone deaf, and is then ended by force.
            let _ = self.connection.send(None, "Browser.close", json!({}));
            self.wait_for_end(END_GRACE);
        }
        if self.end().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait().map(|status| self.status = Some(status));
        }
        end_rest(&tree[1.min(tree.len())..]);
        // What is still being written to it is tried again by whoever builds the run.
        let _ = fs::remove_dir_all(&self.profile);
    }

    fn wait_for_end(&mut self, grace: Duration) {
        let begin = Instant::now();
        while self.end().is_none() && begin.elapsed() < grace {
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Chromium's processes end when their pipe to the first one breaks; those that do not are ended by force.
fn end_rest(pids: &[u32]) {
    let is_there = |pid: &&u32| dwell_process::process_line(**pid).is_some_and(|line| !line.command_line.is_empty());
    let begin = Instant::now();
    while begin.elapsed() < REST_GRACE && pids.iter().any(|pid| is_there(&pid)) {
        thread::sleep(PAUSE);
    }
    for pid in pids.iter().filter(is_there).filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// The end of a log, as the tail of a sentence.
fn last_words(log: &str) -> String {
    let is_told = |line: &&str| !line.is_empty() && !NOISE.iter().any(|noise| line.contains(noise));
    let lines: Vec<&str> = log.lines().map(str::trim).filter(is_told).collect();
    match &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..] {
        [] => String::new(),
        tail => format!("; it said: {}", tail.join(" / ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_those_about_the_cause() {
        let log = "[1:2:ERROR:dbus/bus.cc:405] Failed to connect to the bus\n\
                   [1:1:FATAL:zygote.cc:127] No usable sandbox!\n/usr/bin/chromium: 9: [: 25: unexpected operator\n";
        assert_eq!(last_words(log), "; it said: [1:1:FATAL:zygote.cc:127] No usable sandbox!");
        assert_eq!(last_words("\n\n"), "");
    }
}
