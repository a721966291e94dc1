//! Experiments with an engine that computes nothing: what is planned, done, left out when resumed, and tried again.
//!
//! An experiment starts its own binary as the observer of each run, and that as the worker, so this program is all three.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../../tests/mock_engine.rs"]
mod mock_engine;
#[path = "../../../../tests/test_program.rs"]
mod test_program;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use dwell_config::parse;
use dwell_experiment::{
    Estimate, ExperimentDir, ExperimentListener, ExperimentSummary, Finding, Resumable, RunEnd, RunPlace, RunTask,
    Setup, SetupFiles, choose_collectors, execute, probe_collectors,
};
use dwell_gguf::{MakePlan, MakeSpec, Overwrite, make};
use dwell_records::TRACED_VARIABLE;
use dwell_report::Exclusion;
use dwell_ring::{OBSERVER_PID_VARIABLE, RING_DIR_VARIABLE};
use dwell_store::{ManifestRow, ResultsManifest};
use test_program::{run_tests, tests};

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("worker") => {
            let ring_dir = PathBuf::from(std::env::var_os(RING_DIR_VARIABLE).unwrap());
            let observer_pid = std::env::var(OBSERVER_PID_VARIABLE).unwrap().parse().unwrap();
            mock_engine::work(&ring_dir, observer_pid, std::env::var_os(TRACED_VARIABLE).is_some())
        }
        Some("planned-run") => {
            let task: RunTask = serde_json::from_reader(std::io::stdin().lock()).unwrap();
            println!("{}", serde_json::to_string(&task.run_here()).unwrap());
            ExitCode::SUCCESS
        }
        _ => run_tests(tests![
            every_planned_run_is_done_once_in_order,
            a_model_that_fails_is_recorded_and_the_others_go_on,
            what_was_done_before_is_left_alone_when_resumed,
            a_run_that_failed_is_tried_again_when_resumed,
            a_changed_experiment_is_not_resumed_as_another,
            a_run_that_was_deleted_from_a_finished_experiment_is_done_again,
            a_damaged_record_is_said_and_not_passed_over,
            a_licence_is_checked_and_written_as_spdx_does,
            a_model_named_like_a_file_of_the_results_is_refused,
            an_excluded_repetition_is_told_of_when_it_ends_and_counted,
        ]),
    }
}

/// A folder with an experiment file and its models.
struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    /// The names of the models say what becomes of the mock that runs them.
    fn new(models: &[&str]) -> Self {
        let lab = Self { dir: tempfile::tempdir().unwrap() };
        for model in models {
            let spec = MakeSpec {
                layers: 1,
                embedding: 64,
                heads: 2,
                kv_heads: 1,
                feed_forward: 64,
                vocabulary: 320,
                ..MakeSpec::default()
            };
            make(&MakePlan::new(spec).unwrap(), &lab.path(&format!("{model}.gguf")), Overwrite::Allow, &mut |_| {})
                .unwrap();
        }
        lab.write(models, "[256, 512]");
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn results(&self) -> PathBuf {
        self.path("results")
    }

    fn write(&self, models: &[&str], contexts: &str) {
        let model = |name: &&str| format!("  - {{id: {name}, path: {name}.gguf}}\n");
        let text = format!(
            "experiment: {{name: mock}}\nmodels:\n{}sweep: {{context_lengths: {contexts}, output_tokens: [3], threads: [1]}}\n\
             prompts: {{source: prompts.yaml}}\ntelemetry: {{baseline_secs: 0.1}}\ncollectors: {{use: [tensor_ops]}}\n",
            models.iter().map(model).collect::<String>()
        );
        fs::write(self.path("experiment.yaml"), text).unwrap();
        fs::write(self.path("prompts.yaml"), "- {id: greeting, category: short, text: Hello}\n").unwrap();
    }

    fn setup(&self) -> Setup {
        let (setup, findings) = self.load();
        setup.unwrap_or_else(|| panic!("{findings:?}"))
    }

    fn load(&self) -> (Option<Setup>, Vec<Finding>) {
        let config = self.path("experiment.yaml");
        let text = fs::read_to_string(&config).unwrap();
        let parsed = parse(&text, &config).unwrap();
        let no_model = |name: &str| panic!("no model is fetched: {name}");
        let files = SetupFiles { config: &config, config_text: &text, results: self.results(), model_named: &no_model };
        Setup::load(parsed.experiment, &files)
    }

    /// Puts one text of the experiment file in the place of another.
    fn edit(&self, from: &str, to: &str) {
        let config = self.path("experiment.yaml");
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, text.replace(from, to)).unwrap();
    }

    fn execute(&self, dir: &ExperimentDir, told: &mut Told<'_>) -> ExperimentSummary {
        let setup = self.setup();
        let config = &setup.experiment.collectors;
        let collectors = choose_collectors(config, &probe_collectors(config, &setup.results)).unwrap();
        let never = AtomicBool::new(false);
        let interrupted = told.interrupt_after.map_or(&never, |(_, flag)| flag);
        execute(&setup, dir, &collectors, &["mock".to_owned()], interrupted, told).unwrap()
    }

    fn begin(&self) -> ExperimentDir {
        ExperimentDir::create(&self.setup(), &["mock".to_owned()]).unwrap()
    }

    /// The execution that is not finished.
    fn unfinished(&self) -> ExperimentDir {
        match ExperimentDir::find(&self.setup()).unwrap() {
            Resumable::Unfinished(dir) => dir,
            Resumable::Finished { .. } | Resumable::Nothing => panic!("there is something to resume"),
        }
    }

    fn rows(&self) -> Vec<ManifestRow> {
        ResultsManifest::open(&self.results()).rows().unwrap()
    }

    /// Bytes of a run's trace, which say whether it was made anew.
    fn traces(&self) -> Vec<Vec<u8>> {
        let trace =
            |row: &ManifestRow| fs::read(self.results().join(Path::new(&row.path)).join("trace.parquet")).unwrap();
        self.rows().iter().filter(|row| !row.path.is_empty()).map(trace).collect()
    }
}

/// What an experiment told: model, run, end. May interrupt after a number of runs.
#[derive(Default)]
struct Told<'a> {
    ends: Vec<(String, &'static str)>,
    /// How many runs had ended when each excluded run was told of, and why it is excluded.
    excluded: Vec<(usize, &'static str)>,
    /// Folder of the runs that the observer is said to have disturbed, as soon as they have ended.
    contaminated: Option<PathBuf>,
    interrupt_after: Option<(usize, &'a AtomicBool)>,
}

impl ExperimentListener for Told<'_> {
    fn experiment_begins(&mut self, _: &str, _: &Estimate) {}

    fn run_begins(&mut self, _: RunPlace<'_>) {}

    fn run_ends(&mut self, place: RunPlace<'_>, end: &RunEnd) {
        let end = match end {
            RunEnd::AlreadyFinished { .. } => "before",
            RunEnd::Complete { .. } => "complete",
            RunEnd::Partial => "partial",
            RunEnd::Failed { .. } => "failed",
        };
        self.ends.push((place.model_id.to_owned(), end));
        if let Some(runs) = &self.contaminated {
            contaminate(runs);
        }
        if let Some((_, flag)) = self.interrupt_after.filter(|(runs, _)| self.ends.len() >= *runs) {
            flag.store(true, Ordering::Relaxed);
        }
    }

    fn run_is_excluded(&mut self, _: RunPlace<'_>, exclusion: &Exclusion) {
        self.excluded.push((self.ends.len(), exclusion.reason.name()));
    }
}

/// Has every run of a folder say that the observer disturbed it.
fn contaminate(runs: &Path) {
    for run in fs::read_dir(runs).unwrap() {
        let path = run.unwrap().path().join("metadata.json");
        let mut metadata: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let reason =
            serde_json::json!({"what": "observer_cpu_pct", "found": 34.0, "limit": 20.0, "lowers_to": "contaminated"});
        metadata["validity"] = serde_json::json!({"class": "contaminated", "reasons": [reason]});
        fs::write(&path, metadata.to_string()).unwrap();
    }
}

fn ends<'a>(told: &'a Told<'_>) -> Vec<(&'a str, &'static str)> {
    told.ends.iter().map(|(model, end)| (model.as_str(), *end)).collect()
}

fn every_planned_run_is_done_once_in_order() {
    let lab = Lab::new(&["works", "also"]);
    let mut told = Told::default();
    let summary = lab.execute(&lab.begin(), &mut told);
    assert_eq!((summary.planned, summary.finished, summary.already_finished), (4, 4, 0));
    assert_eq!(ends(&told), [("works", "complete"), ("works", "complete"), ("also", "complete"), ("also", "complete")]);
    let rows = lab.rows();
    let found: Vec<_> =
        rows.iter().map(|row| (row.model_id.as_str(), row.context_length, row.total_output_tokens)).collect();
    let expected = [("works", 256), ("works", 512), ("also", 256), ("also", 512)];
    assert_eq!(found, expected.map(|(model, context)| (model, Some(context), Some(3))));
    assert!(matches!(ExperimentDir::find(&lab.setup()).unwrap(), Resumable::Finished { .. }));
}

fn a_model_that_fails_is_recorded_and_the_others_go_on() {
    let lab = Lab::new(&["fails-to-load", "works"]);
    let mut told = Told::default();
    let summary = lab.execute(&lab.begin(), &mut told);
    assert_eq!((summary.planned, summary.finished, summary.failed.len()), (4, 2, 2));
    assert!(summary.failed[0].message.contains("found nothing"), "{:?}", summary.failed[0]);
    let states: Vec<_> = lab.rows().into_iter().map(|row| (row.model_id, row.state)).collect();
    let expected =
        [("fails-to-load", "failed"), ("fails-to-load", "failed"), ("works", "complete"), ("works", "complete")];
    assert_eq!(states, expected.map(|(model, state)| (model.to_owned(), state.to_owned())));
}

fn what_was_done_before_is_left_alone_when_resumed() {
    let lab = Lab::new(&["works", "also"]);
    let flag = AtomicBool::new(false);
    let mut told = Told { interrupt_after: Some((3, &flag)), ..Told::default() };
    let first = lab.execute(&lab.begin(), &mut told);
    assert!(first.is_interrupted);
    assert_eq!((first.finished, lab.rows().len()), (3, 3));
    let before = lab.traces();
    let mut told = Told::default();
    let dir = lab.unfinished();
    assert_eq!(dir.id(), first.id);
    let second = lab.execute(&dir, &mut told);
    assert_eq!((second.finished, second.already_finished), (4, 3));
    assert_eq!(ends(&told), [("works", "before"), ("works", "before"), ("also", "before"), ("also", "complete")]);
    assert!(lab.traces()[..3] == before);
}

fn a_run_that_failed_is_tried_again_when_resumed() {
    // Its first computation fails; what the second try finds works.
    let lab = Lab::new(&["fails-after-1"]);
    let summary = lab.execute(&lab.begin(), &mut Told::default());
    assert_eq!((summary.finished, summary.failed.len()), (0, 2));
    let mut told = Told::default();
    let summary = lab.execute(&lab.unfinished(), &mut told);
    assert_eq!(ends(&told), [("fails-after-1", "failed"), ("fails-after-1", "failed")]);
    assert_eq!((lab.rows().len(), summary.failed.len()), (2, 2), "rows are replaced, not added");
    let set_aside = fs::read_dir(summary.dir.join("interrupted")).unwrap().count();
    assert_eq!(set_aside, 4, "what each attempt left is kept aside");
}

fn a_changed_experiment_is_not_resumed_as_another() {
    let lab = Lab::new(&["dies-after-0"]);
    lab.execute(&lab.begin(), &mut Told::default());
    lab.write(&["dies-after-0"], "[256, 1024]");
    let refused = ExperimentDir::find(&lab.setup()).err().unwrap();
    assert!(refused.to_string().contains("have changed since it began"), "{refused}");
}

fn a_run_that_was_deleted_from_a_finished_experiment_is_done_again() {
    let lab = Lab::new(&["works"]);
    let first = lab.execute(&lab.begin(), &mut Told::default());
    fs::remove_dir_all(lab.results().join(&lab.rows()[1].path)).unwrap();
    let mut told = Told::default();
    let second = lab.execute(&lab.unfinished(), &mut told);
    assert_eq!((second.id, second.finished), (first.id, 2));
    assert_eq!(ends(&told), [("works", "before"), ("works", "complete")]);
    assert!(matches!(ExperimentDir::find(&lab.setup()).unwrap(), Resumable::Finished { .. }));
}

fn a_damaged_record_is_said_and_not_passed_over() {
    let lab = Lab::new(&["works"]);
    let summary = lab.execute(&lab.begin(), &mut Told::default());
    fs::write(summary.dir.join("experiment.json"), "{").unwrap();
    let refused = ExperimentDir::find(&lab.setup()).err().unwrap();
    assert!(refused.to_string().contains("the record of an experiment that cannot be read"), "{refused}");
    // One of another experiment does not stand in the way.
    fs::write(summary.dir.join("experiment.yaml"), "experiment: {name: other}").unwrap();
    assert!(matches!(ExperimentDir::find(&lab.setup()).unwrap(), Resumable::Nothing));
}

fn a_licence_is_checked_and_written_as_spdx_does() {
    let lab = Lab::new(&["works"]);
    lab.edit("name: mock", "name: mock, licence: cc-by-4.0");
    assert_eq!(lab.setup().experiment.experiment.licence.as_deref(), Some("CC-BY-4.0"));
    lab.edit("cc-by-4.0", "cc-by-44");
    let (setup, findings) = lab.load();
    assert!(setup.is_none() && findings[0].hints[0].contains("`licence: "), "{findings:?}");
}

fn a_model_named_like_a_file_of_the_results_is_refused() {
    let lab = Lab::new(&["works"]);
    lab.edit("id: works", "id: manifest.csv");
    let (setup, findings) = lab.load();
    assert!(setup.is_none() && findings[0].message.contains("keep this name for themselves"), "{findings:?}");
}

fn an_excluded_repetition_is_told_of_when_it_ends_and_counted() {
    let lab = Lab::new(&["works"]);
    let mut told = Told { contaminated: Some(lab.results().join("works")), ..Told::default() };
    let summary = lab.execute(&lab.begin(), &mut told);
    assert_eq!(told.excluded, [(1, "contaminated"), (2, "contaminated")], "each at once, not at the end");
    assert_eq!((summary.finished, summary.counting), (2, Some(0)));
    assert_eq!(summary.excluded.get("contaminated"), Some(&2));
    assert!(summary.is_whole() && summary.is_without_counting_runs());
    assert_eq!(summary.exclusions, "2 runs excluded: 2 contaminated (observer CPU 34 % ≥ 20 %)");
    let Resumable::Finished { summary: kept } = ExperimentDir::find(&lab.setup()).unwrap() else {
        panic!("it is finished")
    };
    assert_eq!((kept.counting, &kept.excluded), (Some(0), &summary.excluded));
}
