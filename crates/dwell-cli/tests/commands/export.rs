//! `dwell export` and `dwell analyse` on a tree, with real runs of a tiny model.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::{Workplace, cached, dwell, pid_of, skip, text_of, wait_for};
use dwell_gguf::MakeSpec;
use dwell_store::{open_table, text_at};
use rustix::process::{Signal, kill_process};

/// Two runs of a tiny model; gives back the results directory.
fn results(place: &Workplace) -> PathBuf {
    let model = place.model(MakeSpec::default());
    for run_id in ["one", "two"] {
        let mut command = dwell();
        command.arg("run").arg("--model").arg(&model).arg("--output").arg(place.path().join("results"));
        command.args(["--run-id", run_id, "--threads", "1", "--context-length", "256", "--max-tokens", "4"]);
        let output = command.args(["--ignore-end", "--prompt", "a b c"]).output().unwrap();
        assert!(output.status.success(), "{}", text_of(&output));
    }
    place.path().join("results")
}

/// The machine of a test is busy, so its runs may be contaminated: all are exported.
fn export(source: &Path, target: &Path, arguments: &[&str]) -> Output {
    dwell().arg("export").arg(source).arg("--output").arg(target).arg("--all").args(arguments).output().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Starts a command and ends it with a signal as soon as `unfinished` finds something; false if it was faster.
fn is_interrupted(command: &mut Command, unfinished: impl Fn() -> bool) -> bool {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut has_begun = false;
    while !has_begun && child.try_wait().unwrap().is_none() {
        has_begun = unfinished();
    }
    // It may have ended just now.
    let _ = kill_process(pid_of(child.id()), Signal::INT);
    child.wait().unwrap().code() == Some(2) && has_begun
}

#[test]
fn an_interrupted_command_takes_away_what_it_had_not_finished() {
    let place = Workplace::new();
    let source = results(&place);
    let made = place.path().join("made");
    let is_begun = || made.is_dir() && fs::read_dir(&made).unwrap().count() > 0;
    let export = || {
        let mut command = dwell();
        command.arg("export").arg(&source).args(["--all", "--licence", "MIT", "--format", "hf"]);
        command.arg("--output").arg(made.join("dataset"));
        command
    };
    let relabel = || {
        let mut command = dwell();
        command.arg("relabel").arg(source.join("model/one")).arg("--output").arg(made.join("run"));
        command
    };
    let make = || {
        let mut command = dwell();
        command.args(["model", "make", "--layers", "32", "--embedding", "1024"]).arg(made.join("m.gguf"));
        command
    };
    for command in [&export as &dyn Fn() -> Command, &relabel, &make] {
        wait_for("an interruption before the end", || {
            let _ = fs::remove_dir_all(&made);
            fs::create_dir(&made).unwrap();
            is_interrupted(&mut command(), is_begun).then_some(())
        });
        assert_eq!(names(&made), [""; 0], "{:?}", command());
    }
}

#[test]
fn an_export_for_hugging_face_is_whole_and_its_globs_find_every_table() {
    let place = Workplace::new();
    let source = results(&place);
    let target = place.path().join("dataset");
    let output = export(&source, &target, &["--format", "hf", "--licence", "CC-BY-4.0", "--title", "Two: \"runs\""]);
    assert!(output.status.success(), "{}", text_of(&output));
    let sums =
        Command::new("sha256sum").args(["--check", "--strict", "checksums.sha256"]).current_dir(&target).output();
    assert!(sums.unwrap().status.success());
    let listed = fs::read_to_string(target.join("checksums.sha256")).unwrap().lines().count();
    assert_eq!(listed + 1, files_below(&target), "every file but the checksums themselves has one");
    let card = fs::read_to_string(target.join("README.md")).unwrap();
    assert!(
        card.contains("license: cc-by-4.0") && card.contains("`data/model/one`") && card.contains("## Known limits")
    );
    assert_eq!(fs::read_to_string(target.join("manifest.csv")).unwrap().lines().count(), 3);
    assert!(!target.join("data/model/one/raw").exists(), "raw streams go along only if asked for");
    let metadata = fs::read_to_string(target.join("data/model/one/metadata.json")).unwrap();
    assert!(!metadata.contains(place.path().to_str().unwrap()), "{metadata}");
    assert!(metadata.contains("\"model.gguf\""), "{metadata}");
    let again = dwell().arg("verify").arg(target.join("data/model/one")).output().unwrap();
    assert!(again.status.success(), "{}", text_of(&again));
    assert_eq!(names(place.path()), ["dataset", "model.gguf", "results"], "nothing is left beside it");
    every_row_names_its_run(&target);
    pyarrow_reads(&target);
}

/// The two runs are repetitions, so that they have one configuration, which the list of runs has too.
fn every_row_names_its_run(target: &Path) {
    let manifest = fs::read_to_string(target.join("manifest.csv")).unwrap();
    let configuration = manifest.lines().nth(1).unwrap().rsplit(',').next().unwrap();
    assert_eq!(configuration.len(), 8, "{manifest}");
    let summary = fs::read_to_string(target.join("summary.csv")).unwrap();
    assert!(summary.lines().skip(1).all(|line| line.contains(&format!(",{configuration},"))), "{summary}");
    for run_id in ["one", "two"] {
        let run = target.join("data/model").join(run_id);
        let expected = [("run_id", run_id), ("model_id", "model"), ("configuration", configuration)];
        let files = names(&run);
        let tables: Vec<_> =
            dwell_collectors::tables().into_iter().filter(|table| files.contains(&table.file_name())).collect();
        assert_eq!(tables.len(), files.iter().filter(|name| name.ends_with(".parquet")).count());
        for table in tables {
            for batch in open_table(&run, table).unwrap() {
                let batch = batch.unwrap();
                for (column, value) in expected {
                    let is_named = |row| text_at(&batch, column, row) == Some(value);
                    assert!((0..batch.num_rows()).all(is_named), "{column} of {} of {run_id}", table.name());
                }
            }
        }
        for name in files.iter().filter(|name| name.ends_with(".csv")) {
            let text = fs::read_to_string(run.join(name)).unwrap();
            assert!(text.lines().next().unwrap().ends_with(",run_id,model_id,configuration"), "{name}: {text}");
            let ending = format!(",{run_id},model,{configuration}");
            // The text of a token may hold a line break.
            let is_named = |line: &str| line.ends_with(&ending) || name == "tokens_memory.csv";
            assert!(text.lines().skip(1).all(is_named) && text.trim_end().ends_with(&ending), "{name}: {text}");
        }
    }
    let output = dwell().arg("analyse").arg(target.join("data")).args(["--include", "contaminated", "--json"]).output();
    let report: serde_json::Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!(report["groups"][0]["configuration"], configuration, "the published metadata gives the same");
    assert!(report["groups"][0]["regions"][0]["figures"]["run_id"].is_null());
}

fn files_below(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { files_below(&path) } else { 1 }).sum()
}

/// Reads the card as Hugging Face would: the front matter as YAML, the globs that it names as Parquet.
fn pyarrow_reads(target: &Path) {
    const SCRIPT: &str = "\
import glob, sys, yaml, pyarrow.parquet as parquet
root = sys.argv[1]
card = yaml.safe_load(open(root + '/README.md').read().split('---')[1])
assert card['pretty_name'] == 'Two: \"runs\"', card
for config in card['configs']:
    files = glob.glob(root + '/' + config['data_files'])
    print(config['config_name'], len(files), sum(parquet.read_table(file).num_rows for file in files))
";
    let Some(python) = cached("venv-peer/bin/python") else {
        return skip("export", "no Python with pyarrow and PyYAML in the cache");
    };
    let output = Command::new(python).args(["-c", SCRIPT]).arg(target).output().unwrap();
    if text_of(&output).contains("ModuleNotFoundError") {
        return skip("export", "the Python in the cache lacks pyarrow or PyYAML");
    }
    assert!(output.status.success(), "{}", text_of(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let tables = ["trace", "region_map", "kv_block_lifecycle", "tokens", "memory", "loss", "pressure"];
    assert_eq!(text.lines().map(|line| line.split(' ').next().unwrap()).collect::<Vec<_>>(), tables);
    assert!(text.lines().all(|line| line.split(' ').nth(1) == Some("2")), "two runs of every table: {text}");
    let rows = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    assert!(rows(text.lines().next().unwrap()) > 100, "{text}");
}

#[test]
fn an_export_for_zenodo_has_the_fields_of_a_deposit() {
    let place = Workplace::new();
    let source = results(&place);
    let target = place.path().join("deposit");
    let output = export(&source, &target, &["--format", "zenodo", "--licence", "CC0-1.0", "--with-raw", "--json"]);
    assert!(output.status.success(), "{}", text_of(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["runs"], 2);
    let read =
        |name: &str| -> serde_json::Value { serde_json::from_slice(&fs::read(target.join(name)).unwrap()).unwrap() };
    let metadata = read(".zenodo.json");
    assert_eq!(read("metadata.json")["metadata"], metadata);
    assert_eq!(metadata["upload_type"], "dataset");
    assert_eq!(metadata["access_right"], "open");
    assert_eq!(metadata["license"], "cc0-1.0");
    for field in ["title", "description", "version"] {
        assert!(metadata[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {metadata}");
    }
    assert!(metadata["creators"][0]["name"].is_string());
    assert!(target.join("data/model/one/raw/tensor_ops.arrows").is_file());
    let raw = fs::read_to_string(target.join("data/model/one/raw/run.json")).unwrap();
    assert!(!raw.contains(place.path().to_str().unwrap()), "{raw}");
}

#[test]
fn what_cannot_be_published_is_refused_and_leaves_nothing() {
    let place = Workplace::new();
    let source = results(&place);
    let target = place.path().join("dataset");
    let refused = |arguments: &[&str], expected: &str| {
        let output = export(&source, &target, arguments);
        assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
        assert!(text_of(&output).contains(expected), "no {expected:?} in {}", text_of(&output));
        assert_eq!(names(place.path()), ["model.gguf", "results"]);
    };
    refused(&["--format", "hf"], "--licence");
    refused(&["--format", "hf", "--licence", "free for all"], "SPDX");
    refused(&["--format", "hf", "--licence", "CC-BY-4"], "`--licence CC-BY-4.0`");
    let table = source.join("model/two/tokens.parquet");
    let whole = fs::read(&table).unwrap();
    fs::write(&table, &whole[..whole.len() - 1]).unwrap();
    refused(&["--format", "hf", "--licence", "MIT"], "tokens.parquet has changed");
    fs::write(&table, &whole).unwrap();
    fs::create_dir(&target).unwrap();
    let output = export(&source, &target, &["--format", "hf", "--licence", "MIT"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text_of(&output).contains("exists already"), "{}", text_of(&output));
    assert!(names(&target).is_empty(), "an existing folder is left as it is");
}

#[test]
fn a_tree_is_aggregated_and_other_definitions_are_computed_from_the_tables() {
    let place = Workplace::new();
    let source = results(&place);
    let analyse = |arguments: &[&str]| {
        let mut command = dwell();
        let output = command.arg("analyse").arg(&source).args(["--include", "contaminated"]).args(arguments).output();
        output.unwrap()
    };
    let output = analyse(&["--json", "--output", place.path().join("aggregate").to_str().unwrap()]);
    assert!(output.status.success(), "{}", text_of(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["runs"], &report["definitions"][0]), (&2.into(), &"dwell".into()));
    assert_eq!(report["groups"].as_array().unwrap().len(), 1, "the two runs are repetitions: {report}");
    assert_eq!(report["groups"][0]["regions"][2]["figures"]["write_once_ratio_mean"]["mean"], 1.0);
    assert_eq!(names(&place.path().join("aggregate")), ["figures", "summary.csv", "summary.json"]);
    let output = analyse(&["--json", "--definitions", "mrm-trace", "--metrics", "retention"]);
    assert!(output.status.success(), "{}", text_of(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["definitions"][0], "mrm-trace");
    let figures = report["groups"][0]["regions"][0]["figures"].as_object().unwrap();
    assert!(
        figures.keys().all(|name| name.contains("retention")
            || name.contains("life")
            || name.ends_with("_share")
            || name.ends_with("_bytes")),
        "{figures:?}"
    );
    let output = analyse(&["--experiment", "none"]);
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
}
