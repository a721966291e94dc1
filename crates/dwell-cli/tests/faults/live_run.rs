//! A run that is caught while it goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt16Type, UInt64Type};
use dwell_events::engine::EngineEvent;
use dwell_records::Kind;
use dwell_store::RawReader;
use rustix::process::{Signal, kill_process_group};

use crate::common::{Run, Workplace, dwell, pid_of, send, wait_for, worker_of};
use crate::models::slow_model;

/// Holds the lock of `manifest.csv`: a process that builds a run in this results directory waits for it after writing the
/// tables, before the run is finished.
pub struct HeldManifest {
    _locked: File,
}

impl HeldManifest {
    pub fn of(run: &Run) -> Self {
        let results = run.dir.parent().and_then(Path::parent).unwrap();
        let file = File::options().create(true).append(true).open(results.join(".manifest.csv.lock")).unwrap();
        file.lock().unwrap();
        Self { _locked: file }
    }
}

/// `dwell run` on the slow model, in a process group of its own as a shell would start it. Killed when dropped.
pub struct LiveRun {
    child: Child,
    pub run: Run,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl LiveRun {
    /// Generates for longer than any test takes.
    pub fn start(work: &Workplace, arguments: &[&str]) -> Self {
        Self::start_in(&work.path().join("results"), work, 8000, arguments)
    }

    /// Generates this many tokens, with the results in a folder of the test's choice.
    pub fn start_in(results: &Path, work: &Workplace, max_tokens: u32, arguments: &[&str]) -> Self {
        let model = slow_model();
        let mut command = dwell();
        command.arg("run").arg("--model").arg(&model).arg("--output").arg(results);
        command.args(["--run-id", "run", "--prompt", "hello", "--ignore-end", "--threads", "1"]);
        command.args(["--context-length", "8192", "--max-tokens", &max_tokens.to_string()]).args(arguments);
        let run = Run { dir: results.join(model.file_stem().unwrap()).join("run") };
        Self::start_command(command, work.path(), run)
    }

    /// Starts a command that makes `run`; what it says goes to files in `dir`.
    pub fn start_command(mut command: Command, dir: &Path, run: Run) -> Self {
        let (stdout, stderr) = (dir.join("stdout"), dir.join("stderr"));
        command.stdout(File::create(&stdout).unwrap()).stderr(File::create(&stderr).unwrap());
        Self { child: command.process_group(0).spawn().unwrap(), run, stdout, stderr }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn worker_pid(&self) -> u32 {
        wait_for("the worker", || worker_of(self.pid()))
    }

    /// Waits until this many computations are in the raw stream; returns how many there are.
    pub fn wait_for_computations(&self, count: usize) -> usize {
        wait_for("computations", || {
            let found = computed_positions(&self.run).len();
            (found >= count).then_some(found)
        })
    }

    /// As the terminal does with Ctrl-C: to the observer and its worker.
    pub fn signal_group(&self, signal: Signal) {
        kill_process_group(pid_of(self.pid()), signal).unwrap();
    }

    pub fn signal_observer(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Waits for the end of the observer.
    pub fn wait(mut self) -> (Run, Output) {
        let status = wait_for("the end of the observer", || self.child.try_wait().unwrap());
        let output =
            Output { status, stdout: fs::read(&self.stdout).unwrap(), stderr: fs::read(&self.stderr).unwrap() };
        (Run { dir: self.run.dir.clone() }, output)
    }
}

impl Drop for LiveRun {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Positions in the KV cache that were computed, as far as the raw streams tell: the engine says which, and their
/// computation is recorded, if any is.
pub fn computed_positions(run: &Run) -> BTreeSet<i32> {
    let is_traced = run.dir.join("raw/tensor_ops.arrows").exists();
    let (mut computed, mut pending, mut has_step) = (BTreeSet::new(), Vec::new(), false);
    for record in raw_records(run).into_values() {
        match record {
            Record::Step => has_step = true,
            Record::Engine(EngineEvent::BatchBegins { tokens, .. }) => (pending, has_step) = (tokens, false),
            Record::Engine(EngineEvent::BatchEnds { .. }) if has_step || !is_traced => {
                computed.extend(pending.drain(..).map(|token| token.position));
            }
            Record::Engine(_) => {}
        }
    }
    computed
}

enum Record {
    Step,
    Engine(EngineEvent),
}

/// Events and steps of the worker by their numbers, which both streams share.
fn raw_records(run: &Run) -> BTreeMap<u64, Record> {
    let streams = ["engine", "tensor_ops"].map(|name| RawReader::open(&run.dir.join(format!("raw/{name}.arrows"))));
    streams.into_iter().flatten().flat_map(|reader| reader.flatten().flat_map(|batch| records_of(&batch))).collect()
}

fn records_of(batch: &RecordBatch) -> Vec<(u64, Record)> {
    let (sequences, kinds) =
        (batch.column(0).as_primitive::<UInt64Type>(), batch.column(1).as_primitive::<UInt16Type>());
    let payloads = batch.column(3).as_binary::<i32>();
    let record = |row: usize| match Kind::from_number(kinds.value(row)) {
        Some(Kind::Step) => Some(Record::Step),
        Some(Kind::Engine) => Some(Record::Engine(serde_json::from_slice(payloads.value(row)).unwrap())),
        _ => None,
    };
    (0..batch.num_rows()).filter_map(|row| Some((sequences.value(row), record(row)?))).collect()
}

/// Whether the tables have every position that was computed, in every layer, as key and as value, and every step.
pub fn assert_has_all_computed(run: &Run) {
    let computed = computed_positions(run);
    assert!(!computed.is_empty());
    for (layer, kind) in [(0, "k"), (0, "v"), (1, "k"), (1, "v")] {
        let has = |block: &&crate::common::Block| block.layer == layer && block.kind == kind;
        let found: BTreeSet<i32> = run.blocks().iter().filter(has).filter_map(|block| block.position).collect();
        let missing: Vec<_> = computed.difference(&found).collect();
        assert!(missing.is_empty(), "positions that were computed and have no block: {missing:?}");
    }
    let steps: BTreeSet<u32> = run.accesses().iter().filter_map(|access| access.step).collect();
    let last = *steps.last().unwrap();
    assert_eq!(steps.len() as u32, last + 1, "a step is missing");
}
