//! `dwell relabel` on traces of dwell and of mrm-trace.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Run, Workplace, cached, dwell, skip, text_of};
use dwell_gguf::MakeSpec;
use serde_json::Value;

fn tiny_run(place: &Workplace) -> Run {
    let model = place.model(MakeSpec { layers: 2, embedding: 64, feed_forward: 128, ..MakeSpec::default() });
    place.run(&model, &["--prompt", "abc", "--max-tokens", "4", "--ignore-end"])
}

fn relabel(input: &Path, output: &Path, more: &[&str]) -> Output {
    dwell().arg("relabel").arg(input).arg("-o").arg(output).args(more).output().unwrap()
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text_of(output)))
}

fn rules(place: &Workplace, lines: &str) -> String {
    let path = place.path().join("rules.yaml");
    fs::write(&path, format!("version: 1\nrules:\n{lines}")).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_run_that_knows_its_memory_keeps_its_labels() {
    let place = Workplace::new();
    let run = tiny_run(&place);
    let out = Run { dir: place.path().join("out") };
    let output = relabel(&run.dir, &out.dir, &["--unknown", "error", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let report = report(&output);
    assert_eq!(report["before"], report["after"]);
    let labels = |run: &Run| {
        run.accesses().into_iter().map(|row| (row.timestamp_ns, row.address, row.region_type)).collect::<Vec<_>>()
    };
    assert_eq!(labels(&run), labels(&out));
    assert_eq!(run.losses(), out.losses(), "what the run had lost is lost still");
    assert!(dwell().arg("verify").arg(&out.dir).status().unwrap().success());
    assert!(!place.path().join("out.partial").exists());
}

#[test]
fn rules_for_all_override_and_labelling_again_changes_nothing() {
    let place = Workplace::new();
    let run = tiny_run(&place);
    let lines = "- {symbol: ^MUL_MAT$, op: store, region: runtime, applies_to: all}\n\
                 - {op: store, phase: weight_load, region: unknown, applies_to: all}\n";
    let rules = rules(&place, lines);
    let arguments = ["--rules", &rules, "--unknown", "skip", "--json"];
    let (once, twice) = (Run { dir: place.path().join("once") }, Run { dir: place.path().join("twice") });
    let output = relabel(&run.dir, &once.dir, &arguments);
    assert_eq!(output.status.code(), Some(0), "they were dropped as asked for: {}", text_of(&output));
    let report = report(&output);
    let before = run.accesses();
    let dropped = before.iter().filter(|row| row.phase == "weight_load").count() as u64;
    assert!(dropped > 0);
    assert_eq!(report["dropped"], dropped);
    assert!(once.losses().contains(&("unlabelled_accesses".to_owned(), dropped)));
    let products = before.iter().filter(|row| row.op == "MUL_MAT" && row.is_store).count();
    let overridden: Vec<_> = once.accesses().into_iter().filter(|row| row.region_type == "runtime").collect();
    assert_eq!(overridden.len(), products);
    assert_eq!(once.accesses().len() as u64 + dropped, before.len() as u64);

    assert_eq!(relabel(&once.dir, &twice.dir, &arguments).status.code(), Some(0));
    for file in ["trace.parquet", "region_map.parquet", "loss.parquet", "metrics.csv"] {
        let bytes = |run: &Run| fs::read(run.dir.join(file)).unwrap();
        assert_eq!(bytes(&once), bytes(&twice), "{file}");
    }
}

#[test]
fn a_folder_that_is_there_is_left_alone() {
    let place = Workplace::new();
    let run = tiny_run(&place);
    let output = relabel(&run.dir, place.path(), &[]);
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("exists already") && said.contains("hint: choose another name with -o"), "{said}");
    assert!(!said.contains("run id"), "{said}");
}

#[test]
fn a_run_without_accesses_has_nothing_to_label() {
    let place = Workplace::new();
    let model = place.model(MakeSpec { layers: 2, embedding: 64, feed_forward: 128, ..MakeSpec::default() });
    let run = place.run(&model, &["--prompt", "abc", "--max-tokens", "2", "--collect", "process"]);
    let output = relabel(&run.dir, &place.path().join("out"), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("the run has no accesses, so there was nothing to label\n"), "{said}");
}

#[test]
fn a_relabelling_that_fails_leaves_nothing() {
    let place = Workplace::new();
    let run = tiny_run(&place);
    let out = place.path().join("out");
    let fails = |more: &[&str], message: &str| {
        let output = relabel(&run.dir, &out, more);
        assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
        assert!(text_of(&output).contains(message), "{}", text_of(&output));
    };
    let everything = rules(&place, "- {region: unknown, applies_to: all}\n");
    fails(&["--rules", &everything, "--unknown", "error"], "that no rule, range or page says anything about");
    let misspelt = rules(&place, "- {symbl: a, region: weight}\n");
    fails(&["--rules", &misspelt], "hint: did you mean `symbol`?");
    fails(&["--rules", "/nowhere/rules.yaml"], "found no such file");
    assert!(!out.exists() && !place.path().join("out.partial").exists());
    fs::create_dir(&out).unwrap();
    fails(&[], "found that it exists already");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "what is there is left alone");
    let nothing = relabel(place.path(), &place.path().join("other"), &[]);
    assert_eq!(nothing.status.code(), Some(2));
}

#[test]
fn a_trace_of_mrm_trace_is_labelled() {
    let name = "a_trace_of_mrm_trace_is_labelled";
    let Some(python) = cached("venv-peer/bin/python") else {
        return skip(name, "mrm-trace is not in the cache (scripts/setup.sh test gets it)");
    };
    let place = Workplace::new();
    let peer = place.path().join("peer");
    fs::create_dir(&peer).unwrap();
    let trace = peer.join("trace.parquet");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peer/mrm_trace_unlabelled.py");
    let written = Command::new(python).arg(script).arg(&trace).output().unwrap();
    assert!(written.status.success(), "{}", text_of(&written));
    let out = Run { dir: place.path().join("out") };
    let output = relabel(&trace, &out.dir, &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let found: Vec<_> =
        out.accesses().into_iter().map(|row| (row.region_type, row.region_id, row.size_bytes)).collect();
    // The product's load is on the page that the loader stored to.
    let expected = [("weight", 1, 1), ("weight", 1, 1), ("kv_cache", 2, 1), ("unknown", 0, 1)];
    assert_eq!(found, expected.map(|(region_type, id, bytes)| (region_type.to_owned(), id, bytes)));
    let metrics = fs::read_to_string(out.dir.join("metrics.csv")).unwrap();
    assert!(metrics.lines().skip(1).all(|line| line.contains(",sampled,")), "nobody stated a period: {metrics}");
}
