//! Somebody dies during an answer: the server, the observer; or the user interrupts, or the disk is full.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use rustix::process::{Signal, kill_process_group};

use crate::common::{
    Run, SmallDisk, Workplace, dwell, llama_program, pid_of, send, skip, text_of, wait_for, wait_for_end_of,
};
use crate::lab::{Theory, assert_sealed, recorded_pids, slow, started, tokens};
use crate::ollama;

/// An answer that does not end by itself while a test goes on.
const LONG: [&str; 7] = ["--context-length", "8192", "--max-tokens", "8000", "--prompt", "hello", "--ignore-end"];

/// A run that is caught while it goes on, in a process group of its own as a shell would start it. Killed when dropped.
pub struct LiveRun {
    pub child: Child,
    run: Run,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl LiveRun {
    pub fn start(place: &Workplace, model: &Path, mut command: Command) -> Self {
        let (stdout, stderr) = (place.path().join("stdout"), place.path().join("stderr"));
        command.stdout(File::create(&stdout).unwrap()).stderr(File::create(&stderr).unwrap());
        let child = command.process_group(0).spawn().unwrap();
        Self { child, run: place.opened_run(model), stdout, stderr }
    }

    /// Whether some of the answer has come.
    pub fn has_words(&self) -> bool {
        self.bytes_told() > 300
    }

    /// How much was said on the terminal.
    pub fn bytes_told(&self) -> u64 {
        std::fs::metadata(&self.stderr).unwrap().len()
    }

    /// The process that computes, once some of the answer has come.
    fn computing_pid(&self) -> u32 {
        wait_for("some words of the answer", || self.has_words().then_some(()));
        let pids = recorded_pids(&self.run);
        *pids.first().unwrap()
    }

    pub fn wait(mut self) -> (Run, Output) {
        let status = wait_for("the end of the observer", || self.child.try_wait().unwrap());
        let read = |path: &Path| std::fs::read(path).unwrap();
        let output = Output { status, stdout: read(&self.stdout), stderr: read(&self.stderr) };
        (Run { dir: self.run.dir.clone() }, output)
    }
}

impl Drop for LiveRun {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn live_llama_server(place: &Workplace, program: &Path) -> (LiveRun, PathBuf) {
    let model = place.model(slow());
    (LiveRun::start(place, &model, started(place, &model, "llama_server", program, &LONG)), model)
}

/// The run has tokens, and the trace of every step of them.
fn assert_partial_with_trace(run: &Run, model: &Path, one_of: &[&str]) {
    assert_eq!(run.metadata()["state"], "partial");
    let losses = run.losses();
    assert!(losses.iter().any(|(kind, _)| one_of.contains(&kind.as_str())), "needed one of {one_of:?}: {losses:?}");
    assert_sealed(run);
    let told = tokens(run);
    assert!(told.len() > 10, "{} tokens", told.len());
    let theory = Theory::of(model, "f16");
    let held = told.last().unwrap().kv_bytes.unwrap();
    assert!(held >= told.len() as u64 * theory.kv_bytes, "{held} bytes are held for {} tokens", told.len());
    let steps: std::collections::BTreeSet<u32> = run.accesses().iter().filter_map(|access| access.step).collect();
    let last = told.last().unwrap().step;
    assert!((0..=last).all(|step| steps.contains(&step)), "a step is missing");
}

#[test]
fn a_server_that_is_killed_leaves_a_partial_run_that_says_how_it_died() {
    let name = "a_server_that_is_killed_leaves_a_partial_run_that_says_how_it_died";
    let Some(program) = llama_program(name, "llama-server") else { return };
    let place = Workplace::new();
    let (live, model) = live_llama_server(&place, &program);
    send(live.computing_pid(), Signal::KILL);
    let (run, output) = live.wait();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert_partial_with_trace(&run, &model, &["worker_died"]);
    let failure = run.metadata()["failure"].as_str().unwrap().to_owned();
    assert!(failure.contains("signal 9 (SIGKILL)"), "{failure}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("SIGKILL"), "{}", text_of(&output));
}

#[test]
fn an_interrupted_answer_is_a_partial_run_and_its_server_is_gone() {
    let name = "an_interrupted_answer_is_a_partial_run_and_its_server_is_gone";
    let Some(program) = llama_program(name, "llama-server") else { return };
    let place = Workplace::new();
    let (live, model) = live_llama_server(&place, &program);
    let server = live.computing_pid();
    kill_process_group(pid_of(live.child.id()), Signal::INT).unwrap();
    let (run, output) = live.wait();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    wait_for_end_of(server);
    assert_partial_with_trace(&run, &model, &["interrupted"]);
}

#[test]
fn a_killed_observer_takes_llama_server_along_and_its_run_is_recovered() {
    let name = "a_killed_observer_takes_llama_server_along_and_its_run_is_recovered";
    let Some(program) = llama_program(name, "llama-server") else { return };
    let place = Workplace::new();
    let (live, model) = live_llama_server(&place, &program);
    let server = live.computing_pid();
    send(live.child.id(), Signal::KILL);
    let (run, _) = live.wait();
    wait_for_end_of(server);
    let output = dwell().arg("recover").arg(&run.dir).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert_partial_with_trace(&run, &model, &["observer_died"]);
    let losses = run.losses();
    assert!(!losses.iter().any(|(kind, _)| kind == "undecodable_records"), "{losses:?}");
}

/// Processes that have a word in their environment.
pub fn processes_with(word: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == word.as_bytes())
    };
    pids.filter(has).collect()
}

#[test]
fn a_killed_observer_takes_ollama_and_its_runner_along() {
    let name = "a_killed_observer_takes_ollama_and_its_runner_along";
    if std::env::var_os("DWELL_QUICK").is_some() {
        return skip(name, "DWELL_QUICK leaves out slow tests");
    }
    let Some(program) = ollama::program(name) else { return };
    let (place, model_place) = (Workplace::new(), Workplace::new());
    let model = model_place.model(slow());
    let mark = format!("DWELL_TEST_MARK={}", place.path().display());
    let mut command = ollama::command(&place, &model, &program, &["--max-tokens", "8000", "--context-length", "8192"]);
    command.env("DWELL_TEST_MARK", place.path());
    let live = LiveRun::start(&place, &model, command);
    let runner = live.computing_pid();
    assert!(processes_with(&mark).contains(&runner), "the runner has inherited the mark");
    send(live.child.id(), Signal::KILL);
    let (run, _) = live.wait();
    wait_for("the end of everything that was started", || processes_with(&mark).is_empty().then_some(()));
    let output = dwell().arg("recover").arg(&run.dir).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert_partial_with_trace(&run, &model, &["observer_died"]);
}

#[test]
fn a_disk_that_fills_up_ends_the_server_and_the_run_is_recovered() {
    let name = "a_disk_that_fills_up_ends_the_server_and_the_run_is_recovered";
    let Some(program) = llama_program(name, "llama-server") else { return };
    let Some(disk) = SmallDisk::mount("12m") else { return skip(name, "mounting a tmpfs needs root") };
    let place = Workplace::new();
    let model = place.model(slow());
    let mark = format!("DWELL_TEST_MARK={}", disk.path().display());
    let mut command = dwell();
    command.args(["run", "--engine", "llama_server", "--run-id", "run", "--baseline-secs", "0"]);
    command.args(LONG).arg("--model").arg(&model).arg("--output").arg(disk.path()).arg("--program").arg(program);
    let output = command.env("DWELL_TEST_MARK", disk.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    let said = text_of(&output);
    assert!(said.contains("no space left") && said.contains("dwell recover"), "{said}");
    wait_for("the end of the server", || processes_with(&mark).is_empty().then_some(()));

    disk.remount("size=400m");
    let run = Run { dir: disk.path().join("model/run") };
    let output = dwell().arg("recover").arg(&run.dir).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    // How the worker ended is known if there was room left to write it down.
    assert_partial_with_trace(&run, &model, &["worker_died", "observer_died"]);
}
