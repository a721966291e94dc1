//! Runs of servers: one that does as it is asked, ones that do not, and llama-server.

use std::fs;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use dwell_store::{RunState, runs_under};

use crate::finding::{Fault, Findings};
use crate::hostile_server::{Behaviour, start_server};
use crate::lab::{Lab, Place, succeeds};
use crate::results::{self, RESULTS};
use crate::scenario::Scenario;
use crate::shape::RunShape;

pub(super) const TOKENS: u32 = 200;
pub(super) const PAUSE: Duration = Duration::from_millis(4);
/// The engine of any server with that API.
const OPENAI: &str = "openai";
/// A hostile server is left in peace for so long at most.
const PATIENCE: Duration = Duration::from_secs(3);
/// Where the cache has llama-server.
const LLAMA_SERVER: &str = ".cache/dwell/llama-tools/bin/llama-server";

/// A run of a server that is there, with the API of OpenAI.
pub(super) fn joined(lab: &Lab, place: &Place, behind: &[String], (engine, url): (&str, &str), tokens: u32) -> Command {
    let mut command = lab.dwell_behind(behind, place);
    command.args(["run", "--engine", engine, "--url", url, "--prompt", "a", "--max-tokens", &tokens.to_string()]);
    command.args(["--api", "completion", "--baseline-secs", "0", "--run-id", "run", "-o", RESULTS]);
    command
}

/// One of so many, by the number of the trial.
pub(super) fn pick(place: &Place, choices: usize) -> usize {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(place.number());
    (hash % choices as u64) as usize
}

/// A server that does as it is asked.
pub(crate) struct StandIn {
    url: String,
    whole: RunShape,
    took: Duration,
}

impl StandIn {
    pub(crate) fn measured(lab: &Lab) -> anyhow::Result<Self> {
        let url = start_server(Behaviour::Good { tokens: TOKENS, pause: PAUSE })?;
        let place = Place::make(lab.path().join("reference-server"), "reference".to_owned())?;
        let took = succeeds(joined(lab, &place, &[], (OPENAI, &url), TOKENS))?;
        Ok(Self { whole: RunShape::read(&place.path().join(RESULTS).join("openai/run"))?, took, url })
    }
}

impl Scenario for StandIn {
    fn name(&self) -> &'static str {
        "joined server"
    }

    fn command(&self, lab: &Lab, place: &Place, behind: &[String], _attempt: u32) -> Command {
        joined(lab, place, behind, (OPENAI, &self.url), TOKENS)
    }

    fn duration(&self) -> Duration {
        self.took
    }

    fn flushed(&self) -> Option<&Path> {
        Some(Path::new(RESULTS))
    }

    fn repair(&self, lab: &Lab, place: &Place) -> Option<Command> {
        results::recovery(lab, place)
    }

    fn check(&self, lab: &Lab, place: &Place, flushed: Option<&Path>, findings: &mut Findings) {
        results::check(lab, place, &|_| self.whole.clone(), findings);
        if let Some(flushed) = flushed {
            results::check_flushed(lab, place, "the run", flushed, findings);
        }
    }
}

/// Servers that do not do as they are asked; which of them, the number of the trial says.
pub(crate) struct Hostile {
    urls: Vec<String>,
}

impl Hostile {
    pub(crate) fn serving() -> anyhow::Result<Self> {
        let urls = Behaviour::HOSTILE.into_iter().map(start_server).collect::<Result<_, _>>()?;
        Ok(Self { urls })
    }

    fn number(place: &Place) -> usize {
        pick(place, Behaviour::HOSTILE.len())
    }

    fn behaviour(place: &Place) -> Behaviour {
        Behaviour::HOSTILE[Self::number(place)]
    }
}

impl Scenario for Hostile {
    fn name(&self) -> &'static str {
        "hostile server"
    }

    fn command(&self, lab: &Lab, place: &Place, behind: &[String], _attempt: u32) -> Command {
        joined(lab, place, behind, (OPENAI, &self.urls[Self::number(place)]), 8)
    }

    fn duration(&self) -> Duration {
        PATIENCE
    }

    fn interrupted_once_in(&self) -> u64 {
        2
    }

    fn repair(&self, lab: &Lab, place: &Place) -> Option<Command> {
        results::recovery(lab, place)
    }

    fn check(&self, _lab: &Lab, place: &Place, _flushed: Option<&Path>, findings: &mut Findings) {
        findings.outcome = "refused";
        for found in runs_under(&place.path().join(RESULTS)).unwrap_or_default() {
            let Some(marker) = found.run.ok().and_then(|run| run.marker().ok().flatten()) else { continue };
            findings.outcome = marker.state.name();
            // What it sent until dwell ended the answer is whole, if the run says so.
            let metadata = fs::read_to_string(found.path.join("metadata.json")).unwrap_or_default();
            let is_said = marker.state != RunState::Complete || metadata.contains("\"limit_ignored\"");
            findings
                .need(is_said, Fault::FalselyComplete, || format!("{:?} of {:?}", found.path, Self::behaviour(place)));
        }
    }
}

/// llama-server, started by dwell and recorded.
pub(crate) struct LlamaServer {
    program: PathBuf,
    whole: RunShape,
    took: Duration,
}

impl LlamaServer {
    /// `None` if its program is not there.
    pub(crate) fn measured(lab: &Lab) -> anyhow::Result<Option<Self>> {
        let program = std::env::home_dir().unwrap_or_default().join(LLAMA_SERVER);
        if !program.exists() {
            return Ok(None);
        }
        let place = Place::make(lab.path().join("reference-llama-server"), "reference".to_owned())?;
        let took = succeeds(started(lab, &place, &[], &program))?;
        let whole = RunShape::read(&place.path().join(RESULTS).join("tiny/run"))?;
        Ok(Some(Self { program, whole, took }))
    }
}

fn started(lab: &Lab, place: &Place, behind: &[String], program: &Path) -> Command {
    let mut command = lab.dwell_behind(behind, place);
    command.args([
        "run",
        "--engine",
        "llama_server",
        "--prompt",
        "a",
        "--max-tokens",
        "100",
        "--context-length",
        "256",
    ]);
    command.args(["--threads", "1", "--baseline-secs", "0", "--ignore-end", "--run-id", "run", "-o", RESULTS]);
    command.arg("--program").arg(program).arg("--model").arg(lab.model());
    command
}

impl Scenario for LlamaServer {
    fn name(&self) -> &'static str {
        "llama-server"
    }

    fn command(&self, lab: &Lab, place: &Place, behind: &[String], _attempt: u32) -> Command {
        started(lab, place, behind, &self.program)
    }

    fn duration(&self) -> Duration {
        self.took
    }

    fn flushed(&self) -> Option<&Path> {
        Some(Path::new(RESULTS))
    }

    fn repair(&self, lab: &Lab, place: &Place) -> Option<Command> {
        results::recovery(lab, place)
    }

    /// What the program records before its model is there differs from run to run; the tokens do not.
    fn check(&self, lab: &Lab, place: &Place, flushed: Option<&Path>, findings: &mut Findings) {
        let whole = |run: &dwell_store::RunDir| {
            let accesses = RunShape::read(run.path()).map(|found| found.accesses).unwrap_or_default();
            RunShape { accesses, tokens: self.whole.tokens.clone() }
        };
        results::check(lab, place, &whole, findings);
        if let Some(flushed) = flushed {
            results::check_flushed(lab, place, "the run", flushed, findings);
        }
    }
}
