//! What every command shares: how much it says, which version it is, what it replaces; and the commands that list.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::common::{Run, Workplace, dwell, text_of};
use dwell_gguf::MakeSpec;
use serde_json::Value;

fn tiny_model(place: &Workplace) -> PathBuf {
    place.model(MakeSpec { layers: 2, embedding: 64, feed_forward: 128, ..MakeSpec::default() })
}

fn tiny_run(place: &Workplace, more: &[&str]) -> (Run, Output) {
    let model = tiny_model(place);
    let arguments = [&["--prompt", "abc", "--max-tokens", "4", "--ignore-end"], more].concat();
    let output = place.run_command(&model, &arguments).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    (place.opened_run(&model), output)
}

fn done(arguments: &[&str], paths: &[&Path]) -> Output {
    let output = dwell().args(arguments).args(paths).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text_of(&output));
    output
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text_of(output)))
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn show_says_what_run_said() {
    let place = Workplace::new();
    let (run, said) = tiny_run(&place, &[]);
    let shown = done(&["show"], &[&run.dir]);
    assert_eq!(stdout(&shown), stdout(&said));
    assert_eq!(stderr(&shown), "");
    let title = stdout(&shown).lines().next().unwrap().to_owned();
    assert!(title.starts_with("model     ") && title.ends_with(" parameters, F16"), "{title}");
    let summary = json(&done(&["show", "--json"], &[&run.dir]));
    assert_eq!(summary["accesses"], run.accesses().len());
    assert_eq!(summary["model"], run.metadata()["model"]["description"]);
    assert!(summary["observer_peak_rss_bytes"].as_u64().unwrap() > 1 << 20);
    // By its id, where the results are.
    let by_id = dwell().args(["show", "run"]).current_dir(place.path()).output().unwrap();
    assert_eq!(stdout(&by_id).lines().next(), stdout(&shown).lines().next(), "{}", text_of(&by_id));
    let nothing = dwell().args(["view", "nowhere"]).current_dir(place.path()).output().unwrap();
    assert!(stderr(&nothing).contains("hint: ") && !stderr(&nothing).contains("-o"), "{}", text_of(&nothing));
    let tree = dwell().arg("show").arg(place.path().join("results")).output().unwrap();
    assert_eq!(tree.status.code(), Some(2), "{}", text_of(&tree));
    assert!(stderr(&tree).contains("hint: list the runs: dwell ls "), "{}", text_of(&tree));
}

#[test]
fn ls_lists_runs_whatever_became_of_them() {
    let place = Workplace::new();
    let (run, _) = tiny_run(&place, &[]);
    let results = place.path().join("results");
    let model = run.dir.parent().unwrap().to_owned();
    let copy = |name: &str| {
        let target = model.join(name);
        fs::create_dir_all(target.join("raw")).unwrap();
        fs::copy(run.dir.join("raw/STATE"), target.join("raw/STATE")).unwrap();
        target
    };
    fs::write(copy("damaged").join("metadata.json"), "{ no json").unwrap();
    let killed = copy("killed");
    let marker = fs::read_to_string(killed.join("raw/STATE")).unwrap().replace("complete", "recording");
    fs::write(killed.join("raw/STATE"), marker).unwrap();
    fs::create_dir_all(results.join("holiday/pictures")).unwrap();
    fs::write(results.join("notes.txt"), "mine").unwrap();

    let list = json(&done(&["ls", "--json"], &[&results]));
    let runs = list["runs"].as_array().unwrap();
    let state = |name: &str| {
        let found = runs.iter().find(|run| run["path"].as_str().unwrap().ends_with(name));
        found.unwrap_or_else(|| panic!("{name} is not listed: {list:#}"))["state"].clone()
    };
    assert_eq!(runs.len(), 3, "{list:#}");
    assert_eq!([state("/run"), state("/damaged"), state("/killed")], ["complete", "damaged", "killed"]);
    let whole = runs.iter().find(|run| run["state"] == "complete").unwrap();
    assert_eq!((&whole["rows"], &whole["engine"]), (&run.accesses().len().into(), &"llama_cpp".into()));
    assert_eq!((&whole["generated_tokens"], &whole["quality"]), (&4.into(), &run.metadata()["quality"]["status"]));
    assert!(whole["size_bytes"].as_u64().unwrap() > 10_000);

    let text = done(&["ls"], &[&results]);
    assert!(stdout(&text).lines().next().unwrap().starts_with("run "), "{}", text_of(&text));
    assert!(stdout(&text).lines().last().unwrap().starts_with("3 runs, "), "{}", text_of(&text));
    assert!(stderr(&text).contains("hint: finish runs that were killed with `dwell recover "), "{}", text_of(&text));
    let empty = done(&["ls"], &[&results.join("holiday")]);
    assert_eq!(stdout(&empty), "0 runs, 0 B\n");
    let absent = dwell().arg("ls").arg(place.path().join("absent")).output().unwrap();
    assert_eq!(absent.status.code(), Some(2), "{}", text_of(&absent));
}

#[test]
fn quiet_leaves_the_result_and_verbose_adds_times() {
    let place = Workplace::new();
    let (run, _) = tiny_run(&place, &[]);
    fs::remove_dir_all(&run.dir).unwrap();
    let (_, quiet) = tiny_run(&place, &["--quiet"]);
    assert_eq!(stderr(&quiet), "");
    assert!(stdout(&quiet).starts_with("model "), "{}", text_of(&quiet));
    fs::remove_dir_all(&run.dir).unwrap();
    let (_, verbose) = tiny_run(&place, &["-v"]);
    for step in ["choosing the model: ", "recording: ", "making tables and metrics: ", "total: "] {
        assert!(stderr(&verbose).lines().any(|line| line.starts_with(step)), "{step}: {}", text_of(&verbose));
    }
    let refused = dwell().args(["-q", "show", "/nowhere"]).output().unwrap();
    assert!(stderr(&refused).starts_with("error: "), "{}", text_of(&refused));
    let both = dwell().args(["-q", "-v", "ls"]).output().unwrap();
    assert_eq!(both.status.code(), Some(2), "{}", text_of(&both));
}

#[test]
fn every_command_says_the_version_of_dwell() {
    let version = stdout(&done(&["--version"], &[]));
    assert!(version.starts_with(&format!("dwell {} (", env!("CARGO_PKG_VERSION"))), "{version}");
    assert!(version.contains("llama.cpp ") && version.contains("ggml "), "{version}");
    for command in
        [&["run", "--version"][..], &["tensors", "stats", "--version"], &["import", "kv-events", "--version"]]
    {
        assert_eq!(stdout(&done(command, &[])), version, "{command:?}");
    }
    assert_eq!(stdout(&done(&["-V"], &[])), format!("dwell {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn shells_complete_and_man_pages_describe_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&done(&["completions", shell], &[]));
        assert!(script.contains("context-length") && script.contains("analyse"), "{shell}");
        assert!(!script.contains("worker") && !script.contains("guard"), "{shell} offers what is hidden");
    }
    let place = Workplace::new();
    let pages = place.path().join("man1");
    let written = done(&["man", "--output"], &[&pages]);
    let names: BTreeSet<String> =
        fs::read_dir(&pages).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    for name in ["dwell.1", "dwell-run.1", "dwell-tensors-stats.1", "dwell-import-kv-events.1", "dwell-ls.1"] {
        assert!(names.contains(name), "{name}: {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("worker") || name.contains("guard")), "{names:?}");
    assert_eq!(stdout(&written), format!("{} pages\n{}\n", names.len(), pages.display()));
    let page = fs::read_to_string(pages.join("dwell-run.1")).unwrap();
    assert!(page.contains(r"\-\-prompt\-tokens") && page.contains("Positions in the KV cache"), "{page}");
    let again = dwell().args(["man", "--output"]).arg(&pages).output().unwrap();
    assert_eq!(again.status.code(), Some(2), "{}", text_of(&again));
    done(&["man", "--force", "--output"], &[&pages]);
}

#[test]
fn a_prompt_has_as_many_tokens_as_are_asked_for() {
    let place = Workplace::new();
    let (run, _) = tiny_run(&place, &["--prompt-tokens", "57"]);
    assert_eq!(run.metadata()["generation"]["prompt_tokens"], 57);
}

#[test]
fn the_files_of_an_analysis_are_those_of_the_run() {
    let place = Workplace::new();
    let (run, _) = tiny_run(&place, &[]);
    let output = place.path().join("analysed");
    let printed = dwell().arg("analyse").arg(&run.dir).args(["--json", "-o"]).arg(&output).output().unwrap();
    assert_eq!(printed.status.code(), Some(0), "{}", text_of(&printed));
    for file in ["metrics.csv", "metrics_by_region.csv", "retention_histogram.csv"] {
        assert_eq!(fs::read(output.join(file)).unwrap(), fs::read(run.dir.join(file)).unwrap(), "{file}");
    }
    assert_eq!(fs::read(output.join("report.json")).unwrap(), printed.stdout);
}

/// Every command that writes files of a name that is given to it.
#[test]
fn no_output_is_replaced_unless_force_says_so() {
    let place = Workplace::new();
    let (run, _) = tiny_run(&place, &[]);
    let results = place.path().join("results");
    let tensors = place.path().join("gen.tensors");
    let model = tiny_model(&place);
    let capture = ["capture", "--prompt", "abc", "--max-tokens", "2", "--threads", "1", "--context-length", "256"];
    let capture: Vec<&str> = capture.into_iter().chain(["--model", model.to_str().unwrap(), "-o"]).collect();
    done(&capture, &[&tensors]);
    let (stream, tree) = (tensors.to_str().unwrap(), results.to_str().unwrap());
    let one = run.dir.to_str().unwrap();
    let cases: [(&[&str], &str, &str); 8] = [
        (&["compare", tree, "-o"], "compared", "compare.csv"),
        (&["analyse", one, "-o"], "analysed-one", "metrics.csv"),
        (&["analyse", tree, "--include", "contaminated", "-o"], "analysed", "summary.csv"),
        (&["tensors", "convert", stream, "--to", "packets"], "gen.packets", ""),
        (&["tensors", "export", stream, "-o"], "gen.safetensors", ""),
        (&["model", "make"], "made.gguf", ""),
        (&["man", "-o"], "man", "dwell.1"),
        (&["watch", "--json", "--max-samples", "1", "--pid", "1", "-o"], "samples.csv", ""),
    ];
    for (arguments, output, file) in cases {
        let output = place.path().join(output);
        let file = if file.is_empty() { output.clone() } else { output.join(file) };
        let run = |more: &[&str]| {
            let (first, last) = arguments.split_at(arguments.len() - usize::from(arguments.last() == Some(&"-o")));
            dwell().args(first).args(more).args(last).arg(&output).output().unwrap()
        };
        let first = run(&[]);
        assert!(file.is_file(), "{arguments:?}: {}", text_of(&first));
        fs::write(&file, "dear to somebody").unwrap();
        let again = run(&[]);
        assert_eq!(again.status.code(), Some(2), "{arguments:?}: {}", text_of(&again));
        let error = format!("error: writing the output found that it exists already: {file:?}");
        assert!(stderr(&again).lines().any(|line| line == error), "{arguments:?}: {}", text_of(&again));
        assert!(stderr(&again).contains("hint: replace it with --force, or choose another name"), "{arguments:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "dear to somebody", "{arguments:?}");
        let forced = run(&["--force"]);
        assert!(fs::read(&file).unwrap() != b"dear to somebody", "{arguments:?}: {}", text_of(&forced));
    }
    let folder = place.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let relabel: Vec<&str> = vec!["relabel", run.dir.to_str().unwrap(), "-o"];
    let export = vec!["export", tree, "--format", "zenodo", "--license", "CC-BY-4.0", "--all", "-o"];
    for arguments in [relabel, export] {
        let output = dwell().args(&arguments).arg(&folder).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text_of(&output));
        assert!(stderr(&output).contains("folders are never replaced"), "{arguments:?}: {}", text_of(&output));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "{arguments:?}");
    }
}
