//! Runs that were imported, looked at with the other commands.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::common::{Workplace, dwell, text_of};

/// A run of what lackey printed, which has no times: three instructions, four accesses.
fn run_of_lackey(place: &Workplace) -> PathBuf {
    let text = place.path().join("lackey.txt");
    fs::write(&text, "I  0400,3\n S 1ffe0,8\nI  0403,3\n M 1ffe0,4\nI  0406,3\n L 1ffe0,8\n").unwrap();
    let results = place.path().join("results");
    let arguments = ["import", "lackey", "--model-id", "m", "--run-id", "r", "-o"];
    let output = dwell().args(arguments).arg(&results).arg(text).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    results.join("m/r")
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
