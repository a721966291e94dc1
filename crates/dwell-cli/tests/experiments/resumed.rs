//! What stops an experiment, and going on after it.

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{dwell, skip, text_of};
use crate::lab::{Lab, SMALLEST, assert_done};

#[test]
fn an_interruption_ends_it_and_the_rest_is_done_later() {
    let lab = Lab::new();
    let planned = lab.planned("tiny_experiment.yaml");
    let mut command = lab.command(&["run", "--config", "tiny_experiment.yaml"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(|| lab.results().join("manifest.csv").is_file());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert!(text_of(&output).contains("interrupted"), "{}", text_of(&output));
    assert!(text_of(&output).contains("--resume"), "{}", text_of(&output));
    let done = lab.rows().len();
    assert!((1..planned.len()).contains(&done), "{done}");
    let output = lab.output(&["run", "--config", "tiny_experiment.yaml", "--resume"]);
    assert_done(&output);
    assert!(text_of(&output).contains(&format!("{done} of them before")), "{}", text_of(&output));
    lab.assert_exactly(&planned);
}

#[test]
fn an_experiment_that_was_changed_is_not_resumed_as_another() {
    let lab = Lab::new();
    // The second model is missing its file once the experiment has begun, so it cannot come to its end.
    let text = SMALLEST.replace("  - {id: tiny-a", "  - {id: tiny-b, path: tiny-b.gguf}\n  - {id: tiny-a");
    lab.write("two.yaml", &text.replace("output_tokens: [2]", "output_tokens: [2], repetitions: 3"));
    let mut child =
        lab.command(&["run", "--config", "two.yaml"]).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    wait_until(|| lab.results().join("manifest.csv").is_file());
    child.kill().unwrap();
    child.wait().unwrap();
    lab.write("two.yaml", &text.replace("output_tokens: [2]", "output_tokens: [3], repetitions: 3"));
    let output = lab.output(&["run", "--config", "two.yaml", "--resume"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text_of(&output).contains("have changed since it began"), "{}", text_of(&output));
    assert!(text_of(&output).contains("omit --resume"), "{}", text_of(&output));
}

#[test]
fn a_run_that_fails_is_recorded_and_the_rest_go_on() {
    let lab = Lab::new();
    // A prompt that fits into one of the two contexts.
    let words = "word ".repeat(90);
    lab.write("long_prompts.yaml", &format!("- {{id: long, category: short, text: \"{words}\"}}\n"));
    let text = SMALLEST.replace("[256]", "[256, 1024]").replace("tiny_prompts.yaml", "long_prompts.yaml");
    lab.write("fails.yaml", &text);
    let output = lab.output(&["run", "--config", "fails.yaml"]);
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    let rows = lab.rows();
    let states: Vec<(&str, Option<u32>)> = rows.iter().map(|row| (row.state.as_str(), row.context_length)).collect();
    assert_eq!(states, [("failed", Some(256)), ("complete", Some(1024))]);
    assert!(rows[0].failure.contains("positions are needed, 256 of 256 are free"), "{}", rows[0].failure);
    assert!(rows[0].path.is_empty());
    let said = text_of(&output);
    assert!(said.contains("1 of 2 runs are done") && said.contains("failed"), "{said}");
    // With the cause gone, what failed is done, and its row is replaced.
    lab.write("long_prompts.yaml", "- {id: long, category: short, text: word}\n");
    let output = lab.output(&["run", "--config", "fails.yaml"]);
    assert_done(&output);
}

#[test]
fn a_failed_run_is_tried_again_by_resuming_and_its_row_replaced() {
    let lab = Lab::new();
    lab.write("small.yaml", &SMALLEST.replace("[256]", "[256, 512]"));
    // The file is there while the experiment is checked and gone when the worker opens it: the first run fails.
    let model = lab.path().join("tiny-a.gguf");
    let away = lab.path().join("away.gguf");
    let child = lab.command(&["run", "--config", "small.yaml"]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
    let child = child.unwrap();
    wait_until(|| lab.results().join("tiny-a").is_dir());
    fs::rename(&model, &away).unwrap();
    let output = child.wait_with_output().unwrap();
    fs::rename(&away, &model).unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert!(lab.rows().iter().any(|row| row.state == "failed"), "{:?}", lab.rows());
    let output = lab.output(&["run", "--config", "small.yaml", "--resume"]);
    assert_done(&output);
    lab.assert_exactly(&lab.planned("small.yaml"));
    assert!(lab.rows().iter().all(|row| row.state == "complete"));
}

#[test]
fn a_full_disk_stops_it_with_all_earlier_runs_intact() {
    let name = "a_full_disk_stops_it_with_all_earlier_runs_intact";
    let lab = Lab::new();
    let disk = tempfile::tempdir().unwrap();
    let mounted =
        std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=40m", "tmpfs"]).arg(disk.path()).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return skip(name, "mounting is not permitted");
    }
    let results = disk.path().join("results");
    let text = SMALLEST.replace("output_tokens: [2]", "output_tokens: [2], repetitions: 40");
    lab.write("many.yaml", &text);
    let mut child = lab
        .command(&["run", "--config", "many.yaml", "-o"])
        .arg(&results)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until(|| fs::read_to_string(results.join("manifest.csv")).is_ok_and(|text| text.lines().count() >= 3));
    // Nothing is left for the next run.
    let free = dwell_files::available_bytes(disk.path()).unwrap();
    let filled = fs::write(disk.path().join("ballast"), vec![7; free as usize + (1 << 20)]);
    assert!(filled.is_err());
    child.stdout.take();
    let output = child.wait_with_output().unwrap();
    let said = text_of(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("the experiment stopped at run"), "{said}");
    assert!(said.contains("--resume") && said.contains("df -h"), "{said}");
    fs::remove_file(disk.path().join("ballast")).unwrap();
    let rows = dwell_store::ResultsManifest::open(&results).rows().unwrap();
    assert!(rows.len() >= 2, "{}", rows.len());
    for row in &rows {
        let verified = dwell().arg("verify").arg(results.join(&row.path)).output().unwrap();
        assert!(verified.status.success(), "{}", text_of(&verified));
    }
    let output =
        lab.command(&["run", "--config", "many.yaml", "--resume", "--json", "-o"]).arg(&results).output().unwrap();
    assert_done(&output);
    let rows = dwell_store::ResultsManifest::open(&results).rows().unwrap();
    assert_eq!(rows.len(), 40);
    let _ = std::process::Command::new("umount").arg("--lazy").arg(disk.path()).status();
}

pub fn wait_until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it did not come to that");
        thread::sleep(Duration::from_millis(5));
    }
}
