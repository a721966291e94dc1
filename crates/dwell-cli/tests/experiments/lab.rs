//! A folder with experiment files and their models.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use dwell_gguf::{MakePlan, MakeSpec, Overwrite, make};
use dwell_store::{ManifestRow, ResultsManifest};
use serde_json::Value;

use crate::common::{Run, dwell, text_of};

/// One model, one run: what the tests change a key of.
pub const SMALLEST: &str = "\
experiment: {name: small}
models:
  - {id: tiny-a, path: tiny-a.gguf}
sweep: {context_lengths: [256], output_tokens: [2], threads: [1]}
prompts: {source: tiny_prompts.yaml, categories: [short]}
telemetry: {baseline_secs: 0.1}
";

pub struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    /// A folder with the shipped experiment files and the models that the tiny one names.
    pub fn new() -> Self {
        let lab = Self { dir: tempfile::tempdir().unwrap() };
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config");
        for entry in fs::read_dir(shipped).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), lab.path().join(entry.file_name())).unwrap();
        }
        lab.make_model("tiny-a.gguf", MakeSpec { layers: 2, ..small() });
        lab.make_model("tiny-b.gguf", MakeSpec { layers: 3, seed: 1, ..small() });
        lab
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn results(&self) -> PathBuf {
        self.path().join("results")
    }

    pub fn make_model(&self, name: &str, spec: MakeSpec) {
        make(&MakePlan::new(spec).unwrap(), &self.path().join(name), Overwrite::Allow, &mut |_| {}).unwrap();
    }

    /// Writes an experiment file.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// A command in the folder.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = dwell();
        command.current_dir(self.path()).args(arguments);
        command
    }

    pub fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs an experiment; every run must be done. Returns its summary.
    pub fn run(&self, config: &str) -> Value {
        let output = self.output(&["run", "--config", config, "--json"]);
        assert_done(&output);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Runs an experiment given by its text, in results of its own.
    pub fn run_text(&self, name: &str, text: &str) -> Outcome {
        self.write(&format!("{name}.yaml"), text);
        let results = format!("results-{name}");
        let output = self.output(&["run", "--config", &format!("{name}.yaml"), "--json", "-o", &results]);
        assert_done(&output);
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        Outcome::in_results(self.path().join(results), summary)
    }

    /// The rows of `manifest.csv`.
    pub fn rows(&self) -> Vec<ManifestRow> {
        ResultsManifest::open(&self.results()).rows().unwrap()
    }

    /// The planned names of the runs, as `dwell plan` lists them.
    pub fn planned(&self, config: &str) -> BTreeSet<(String, String)> {
        let output = self.output(&["plan", "--config", config, "--json"]);
        assert!(output.status.success(), "{}", text_of(&output));
        let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
        let run = |run: &Value| (text(&run["model_id"]), text(&run["name"]));
        plan["runs"].as_array().unwrap().iter().map(run).collect()
    }

    /// Asserts that there is exactly one finished, verified run for each planned one, and one row in `manifest.csv`.
    pub fn assert_exactly(&self, planned: &BTreeSet<(String, String)>) {
        let folders = run_folders(&self.results());
        let names = |run_id: &str| run_id.split_once('_').unwrap().1.to_owned();
        let found: BTreeSet<(String, String)> =
            folders.iter().map(|(model, run)| (model.clone(), names(run))).collect();
        assert_eq!(&found, planned);
        assert_eq!(folders.len(), planned.len());
        let rows: BTreeSet<(String, String)> = self.rows().into_iter().map(|row| (row.model_id, row.run_id)).collect();
        assert_eq!(rows, folders);
        assert_eq!(self.rows().len(), planned.len());
        let verified = self.output(&["verify", "results"]);
        assert!(verified.status.success(), "{}", text_of(&verified));
    }
}

/// Asserts that every run of an experiment was done. A tiny model is smaller than its observer, so that none of its runs
/// may count, which is told by the exit code.
pub fn assert_done(output: &Output) {
    let said = text_of(output);
    let is_done = output.status.success() || said.contains("no run of the experiment counts");
    assert!(is_done && !said.contains("failed  "), "{said}");
}

/// What an experiment left.
pub struct Outcome {
    pub results: PathBuf,
    pub summary: Value,
}

impl Outcome {
    fn in_results(results: PathBuf, summary: Value) -> Self {
        Self { results, summary }
    }

    /// Every run, by the part of its name that tells what it is.
    pub fn runs(&self) -> BTreeMap<String, Run> {
        let run = |(model, run): &(String, String)| {
            let name = run.split_once('_').unwrap().1;
            (format!("{model} {name}"), Run { dir: self.results.join(model).join(run) })
        };
        run_folders(&self.results).iter().map(run).collect()
    }

    /// The first run.
    pub fn run(&self) -> Run {
        self.runs().into_values().next().unwrap()
    }

    pub fn rows(&self) -> Vec<ManifestRow> {
        ResultsManifest::open(&self.results).rows().unwrap()
    }

    /// The folder of the experiment.
    pub fn experiment_dir(&self) -> PathBuf {
        self.results.join("experiments").join(text(&self.summary["id"]))
    }
}

/// Folders of runs: model and run.
fn run_folders(results: &Path) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for model in folders_in(results).into_iter().filter(|name| name != "experiments") {
        for run in folders_in(&results.join(&model)) {
            found.insert((model.clone(), run));
        }
    }
    found
}

fn folders_in(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap().map(Result::unwrap);
    let folders = entries.filter(|entry| entry.file_type().unwrap().is_dir());
    folders.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// The shape of the models.
pub fn small() -> MakeSpec {
    MakeSpec { embedding: 64, heads: 2, kv_heads: 1, feed_forward: 128, vocabulary: 320, ..MakeSpec::default() }
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a text")).to_owned()
}
