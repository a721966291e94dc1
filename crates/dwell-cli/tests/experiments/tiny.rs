//! The tiny experiment, whole and killed.

use std::fs;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::common::text_of;
use crate::lab::{Lab, assert_done, text};

const TINY: &str = "tiny_experiment.yaml";
/// 2 models × 2 contexts × 2 cache types × (2 repetitions + 1 warm-up).
const TINY_RUNS: usize = 24;

#[test]
fn the_tiny_experiment_ends_with_exactly_the_planned_runs() {
    let lab = Lab::new();
    let planned = lab.planned(TINY);
    assert_eq!(planned.len(), TINY_RUNS);
    let summary = lab.run(TINY);
    assert_eq!(summary["planned"], TINY_RUNS);
    assert_eq!(summary["finished"], TINY_RUNS);
    lab.assert_exactly(&planned);
    let rows = lab.rows();
    assert_eq!(rows.iter().filter(|row| row.kind == "warmup").count(), 8);
    assert_eq!(rows.iter().filter(|row| row.kind == "repetition").count(), 16);
    assert!(rows.iter().all(|row| row.experiment == text(&summary["id"]) && row.state == "complete"));
    // A model of a few hundred KiB is smaller than its observer, which takes nothing from it on a machine of gigabytes.
    assert!(rows.iter().all(|row| row.observer_memory_share.is_some_and(|share| share > 0.15)), "{:?}", rows[0]);
    let exclusions = text(&summary["exclusions"]);
    assert!(!exclusions.contains("observer memory share") && exclusions.contains("8 warm-up"), "{exclusions}");
    the_configurations_are_compared(&lab, &text(&summary["id"]));
}

/// The runs of one experiment, and of no other in the same results; contaminated runs in one warning.
fn the_configurations_are_compared(lab: &Lab, id: &str) {
    lab.write("small.yaml", crate::lab::SMALLEST);
    lab.run("small.yaml");
    let folder = format!("results/experiments/{id}");
    let output = lab.output(&["compare", "--experiment", &folder, "--json"]);
    assert!(output.status.success(), "{}", text_of(&output));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let groups = found["groups"].as_array().unwrap();
    // 2 models × 2 contexts × 2 cache types.
    assert_eq!(groups.len(), 8, "{found:#}");
    let runs = groups.iter().flat_map(|group| group["run_ids"].as_array().unwrap());
    assert!(runs.clone().all(|run| run.as_str().unwrap().starts_with(id)));
    assert_eq!(runs.count(), 16);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let contaminated: Vec<&str> = said.lines().filter(|line| line.contains("contaminated")).collect();
    // On a busy machine.
    assert!(contaminated.len() <= 1, "one line for all of them: {said}");
    let by_id = lab.output(&["compare", "--experiment", id, "--json"]);
    assert_eq!(by_id.stdout, output.stdout, "{}", text_of(&by_id));
    let refused = lab.output(&["compare", "--experiment", "results"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text_of(&refused).contains("found none of this name"), "{}", text_of(&refused));
    let hint = text_of(&refused).lines().find(|line| line.starts_with("hint: known in results: ")).unwrap().to_owned();
    assert!(hint.contains(&format!("tiny ({id})")) && hint.contains("small ("), "{hint}");
    let reported = lab.output(&["report", &folder, "-o", "experiment.html"]);
    // The folder of an experiment is understood, and refused only if the machine was so busy that no run counts.
    assert!(reported.status.success() || text_of(&reported).contains("none that counts"), "{}", text_of(&reported));
}

#[test]
fn an_experiment_without_a_run_that_counts_warns_once_says_why_and_ends_with_1() {
    let lab = Lab::new();
    let _busy = BusyMachine::new();
    lab.write("small.yaml", &crate::lab::SMALLEST.replace("[2]", "[2], repetitions: 3"));
    let output = lab.output(&["run", "--config", "small.yaml"]);
    let said = text_of(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let (before, after) = said.split_once("warning: this run does not count: contaminated (").unwrap();
    assert_eq!(before.lines().filter(|line| line.starts_with('[')).count(), 1, "after the first run: {said}");
    assert!(!after.contains("warning: this run does not count"), "once for a reason: {said}");
    assert!(said.contains("error: no run of the experiment counts") && said.contains("3 contaminated ("), "{said}");
    assert_eq!(said.matches("3 runs excluded").count(), 1, "said once: {said}");
    let hint = said.lines().find_map(|line| line.strip_prefix("hint: include excluded runs: dwell ")).unwrap();
    let arguments: Vec<&str> = hint.split(' ').collect();
    let taken_in = lab.output(&arguments);
    assert!(taken_in.status.success(), "{}", text_of(&taken_in));
    assert!(text_of(&taken_in).contains("3 in 1 group"), "{}", text_of(&taken_in));
}

#[test]
fn killed_at_random_moments_and_resumed_it_ends_with_exactly_the_planned_runs() {
    let lab = Lab::new();
    let planned = lab.planned(TINY);
    // The same moments in every run of the test; what the experiment is doing then differs with the machine.
    let mut random = 1_u64;
    let mut kills = 0_u64;
    loop {
        let mut child = begin(&lab);
        // From before the first run is there to several runs later; on a slow machine it takes longer to get anywhere.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        thread::sleep(Duration::from_millis(200 + (random >> 33) % (1500 + 100 * kills)));
        if let Some(status) = child.try_wait().unwrap() {
            // 1 if the machine was so busy that no run counts.
            assert!(matches!(status.code(), Some(0 | 1)), "{status}");
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        assert!(kills < 150, "it does not come to its end");
    }
    assert!(kills >= 2, "it was never interrupted");
    lab.assert_exactly(&planned);
    let experiments = fs::read_dir(lab.results().join("experiments")).unwrap().count();
    let begun = fs::read_dir(lab.results().join("experiments")).unwrap().map(Result::unwrap);
    let whole = begun.filter(|entry| entry.path().join("finished.json").is_file()).count();
    // A kill before its record was written leaves an empty folder that is not an experiment.
    assert_eq!(whole, 1, "{experiments} folders");
}

/// Keeps every core busy while it lives: a run that begins meanwhile is contaminated.
struct BusyMachine {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyMachine {
    fn new() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let cores = thread::available_parallelism().unwrap().get();
        let spin = |is_over: Arc<AtomicBool>| move || while !is_over.load(Ordering::Relaxed) {};
        let threads = (0..cores).map(|_| thread::spawn(spin(is_over.clone()))).collect();
        Self { is_over, threads }
    }
}

impl Drop for BusyMachine {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

fn begin(lab: &Lab) -> Child {
    let mut command = lab.command(&["run", "--config", TINY, "--resume"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_finished_experiment_has_nothing_to_resume() {
    let lab = Lab::new();
    lab.write("small.yaml", crate::lab::SMALLEST);
    let summary = lab.run("small.yaml");
    let again = lab.output(&["run", "--config", "small.yaml", "--resume"]);
    assert_done(&again);
    assert!(text_of(&again).contains("nothing to resume"));
    assert!(text_of(&again).contains(&text(&summary["id"])));
    assert_eq!(lab.rows().len(), 1);
}
