//! Runs that were imported, looked at with the other commands.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Workplace, dwell, send, text_of, wait_for};

/// What lackey printed: three instructions, four accesses.
fn text_of_lackey(place: &Workplace, name: &str) -> PathBuf {
    let text = place.path().join(name);
    fs::write(&text, "I  0400,3\n S 1ffe0,8\nI  0403,3\n M 1ffe0,4\nI  0406,3\n L 1ffe0,8\n").unwrap();
    text
}

/// Imports a recording into `results`.
fn import(place: &Workplace, format: &str, file: &Path, more: &[&str]) -> PathBuf {
    let results = place.path().join("results");
    let output = dwell().args(["import", format]).args(more).arg("-o").arg(&results).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    results
}

/// A run of what lackey printed, which has no times.
fn run_of_lackey(place: &Workplace) -> PathBuf {
    import(place, "lackey", &text_of_lackey(place, "lackey.txt"), &["--model-id", "m", "--run-id", "r"]).join("m/r")
}

/// Runs of each group that `dwell analyse` makes of a folder, and the reasons for which runs do not count.
fn groups_of(results: &Path) -> (Vec<usize>, Vec<String>) {
    let output = dwell().args(["analyse", "--json"]).arg(results).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = |group: &Value| group["run_ids"].as_array().unwrap().len();
    let reason = |excluded: &Value| excluded["reason"].as_str().unwrap().to_owned();
    (
        found["groups"].as_array().unwrap().iter().map(runs).collect(),
        found["excluded"].as_array().unwrap().iter().map(reason).collect(),
    )
}

#[test]
fn recordings_that_nobody_named_are_no_repetitions_of_each_other() {
    let place = Workplace::new();
    let [one, other] = ["one.txt", "other.txt"].map(|name| text_of_lackey(&place, name));
    import(&place, "lackey", &one, &[]);
    let results = import(&place, "lackey", &other, &[]);
    assert_eq!(groups_of(&results), (vec![1, 1], vec![]));
    let results = import(&place, "lackey", &other, &[]);
    assert_eq!(groups_of(&results).0.iter().sum::<usize>(), 3);
    assert_eq!(groups_of(&results).0.len(), 2, "the same file twice is the same recording");
    let named = Workplace::new();
    import(&named, "lackey", &one, &["--model-id", "m"]);
    assert_eq!(groups_of(&import(&named, "lackey", &other, &["--model-id", "m"])), (vec![2], vec![]));
}

#[test]
fn a_run_of_allocations_in_a_folder_does_not_count_and_breaks_no_page() {
    let place = Workplace::new();
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/memray/compressed");
    import(&place, "memray", &capture, &["--run-id", "allocations"]);
    let results = import(&place, "lackey", &text_of_lackey(&place, "lackey.txt"), &["--run-id", "accesses"]);
    assert_eq!(groups_of(&results), (vec![1], vec!["no_figures".to_owned()]));
    for (name, path) in [("folder", results.clone()), ("run", results.join("imported/allocations"))] {
        let file = place.path().join(format!("{name}.html"));
        let output = dwell().arg("report").arg(path).arg("-o").arg(&file).output().unwrap();
        assert!(output.status.success(), "{name}: {}", text_of(&output));
        let page = crate::report::page_in(&file);
        let runs = page["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 1, "{name}");
        assert_eq!(runs[0]["run_id"], if name == "folder" { "accesses" } else { "allocations" });
    }
}

#[test]
fn an_import_that_is_interrupted_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM] {
        let place = Workplace::new();
        let results = place.path().join("results");
        let mut command = dwell();
        command.args(["import", "perf-script", "-", "-o"]).arg(&results);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut importing = piped.spawn().unwrap();
        let line = "x 1 1.000000: cpu/mem-loads/P:     7f0000000040\n";
        importing.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
        wait_for("the run to be made", || results.join("imported").exists().then_some(()));
        send(importing.id(), signal);
        // Its input is never ended.
        let input = importing.stdin.take();
        let output = importing.wait_with_output().unwrap();
        drop(input);
        assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
        assert!(text_of(&output).contains("left nothing"), "{}", text_of(&output));
        assert!(!results.exists(), "{:?}", fs::read_dir(&results).unwrap().collect::<Vec<_>>());
    }
}

#[test]
fn a_recording_without_a_clock_says_so_in_a_trace_for_perfetto() {
    let place = Workplace::new();
    let run = run_of_lackey(&place);
    let file = place.path().join("lackey.perfetto-trace");
    let mut command = dwell();
    let output = command.arg("export").arg(&run).args(["--format", "perfetto", "--json", "-o"]).arg(&file).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    assert!(
        text_of(&output).contains("each nanosecond in the file is one of its instructions"),
        "{}",
        text_of(&output)
    );
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["time_unit"], "instructions");
    let written = fs::read(&file).unwrap();
    let has = |text: &str| written.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    assert!(has("no clock: each ns is one of the instructions") && has("bytes per million instructions"));
    assert!(!has("bytes/s"));
}

fn said(arguments: &[&str], run: &PathBuf) -> String {
    let output = dwell().args(arguments).arg(run).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text_of(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Numbers with a unit of time behind them.
fn times_in(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split(|letter: char| letter.is_whitespace() || ",;()".contains(letter)).collect();
    let is_time = |pair: &&[&str]| {
        let is_number = pair[0].starts_with(|digit: char| digit.is_ascii_digit());
        is_number && ["ns", "µs", "ms", "s", "min", "h"].contains(&pair[1])
    };
    words.windows(2).filter(is_time).map(|pair| pair.join(" ")).collect()
}

/// Values of keys that name a time.
fn times_of(value: &Value, name: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| times_of(value, name, found)),
        Value::Array(values) => values.iter().for_each(|value| times_of(value, name, found)),
        Value::Null => {}
        value if name.ends_with("_s") || name.ends_with("_ns") => found.push(format!("{name}: {value}")),
        _ => {}
    }
}

#[test]
fn nothing_that_is_said_of_a_recording_without_a_clock_is_a_time() {
    let place = Workplace::new();
    let run = run_of_lackey(&place);
    let relabelled = place.path().join("relabelled");
    let output = dwell().arg("relabel").arg(&run).arg("-o").arg(&relabelled).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    for run in [run, relabelled] {
        let shown = said(&["show"], &run);
        assert!(shown.contains("4 accesses over 2 instructions"), "{shown}");
        let analysed = said(&["analyse"], &run);
        let by_peer = said(&["analyse", "--definitions", "mrm-trace"], &run);
        let retention = said(&["analyse", "--metrics", "retention"], &run);
        for text in [shown, analysed, by_peer, retention] {
            assert_eq!(times_in(&text), [""; 0], "{text}");
        }
        for arguments in [&["analyse", "--json"][..], &["show", "--json"]] {
            let mut json: Value = serde_json::from_str(&said(arguments, &run)).unwrap();
            // What a class asks for is a setting, and what watching cost was nothing.
            for setting in ["thresholds", "observer_effect"] {
                json[setting].take();
            }
            let mut times = Vec::new();
            times_of(&json, "", &mut times);
            assert_eq!(times, [""; 0], "{arguments:?}");
        }
    }
}

#[test]
fn the_page_of_a_recording_without_a_clock_says_what_its_axes_count() {
    let place = Workplace::new();
    let run = run_of_lackey(&place);
    let file = place.path().join("report.html");
    said(&["report", "-o", file.to_str().unwrap()], &run);
    let page = crate::report::page_in(&file);
    let run = &page["runs"][0];
    assert_eq!(run["time_unit"], "instructions");
    let trust: Vec<&Value> = run["trust"].as_array().unwrap().iter().collect();
    let clock = trust.iter().find(|statement| statement["topic"] == "clock").unwrap();
    assert!(clock["text"].as_str().unwrap().contains("count instructions"), "{clock}");
    for text in trust.iter().map(|statement| &statement["text"]).chain([&run["answer"], &run["headline"]]) {
        assert_eq!(times_in(text.as_str().unwrap()), [""; 0]);
    }
    for region in run["regions"].as_array().unwrap() {
        assert_eq!(times_in(&region.to_string().replace('"', " ")), [""; 0], "{region}");
    }
}
