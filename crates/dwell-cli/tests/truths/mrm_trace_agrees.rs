//! mrm-trace as a client: its own library reads our tables, and its figures are ours with `--definitions mrm-trace`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Run, Workplace, cached, dwell, skip, text_of};
use crate::tiny;
use dwell_gguf::{MakeSpec, WeightType};
use serde_json::Value;

/// The environment that `scripts/setup.sh` makes, with mrm-trace 0.1.23 in it.
fn peer_python() -> Option<PathBuf> {
    cached("venv-peer/bin/python")
}

fn json_of(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Largest relative difference that counts as none.
const TOLERANCE: f64 = 1e-9;

fn assert_same(path: &str, ours: &Value, theirs: &Value) {
    match (ours, theirs) {
        (Value::Array(ours), Value::Array(theirs)) => {
            assert_eq!(ours.len(), theirs.len(), "{path}");
            for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                assert_same(&format!("{path}[{index}]"), ours, theirs);
            }
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            let names = |object: &serde_json::Map<String, Value>| object.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(ours), names(theirs), "{path}");
            for (name, theirs) in theirs {
                assert_same(&format!("{path}.{name}"), &ours[name], theirs);
            }
        }
        (Value::Number(ours), Value::Number(theirs)) => {
            let (ours, theirs) = (ours.as_f64().unwrap(), theirs.as_f64().unwrap());
            assert!((ours - theirs).abs() <= TOLERANCE * theirs.abs().max(1.0), "{path}: {ours} is not {theirs}");
        }
        _ => assert_eq!(ours, theirs, "{path}"),
    }
}

fn compare(python: &Path, run: &Run) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peer/mrm_trace_report.py");
    let theirs = json_of(Command::new(python).arg(script).arg(&run.dir));
    let ours = json_of(dwell().arg("analyse").arg(&run.dir).args(["--definitions", "mrm-trace", "--json"]));
    for (table, version) in theirs["versions"].as_object().unwrap() {
        assert_eq!(version, dwell_events::SCHEMA_VERSION, "the peer sees the version of {table}");
    }
    let frames = theirs["frames"].as_object().unwrap();
    assert_eq!(frames.len(), 10, "every table of compute_all");
    for (name, theirs) in frames {
        assert_same(name, &ours["mrm_trace"][name], theirs);
    }
    assert!(!frames["iai"].as_array().unwrap().is_empty(), "memory was touched more than once");
}

#[test]
fn the_peers_library_reads_our_tables_and_computes_our_figures() {
    let name = "the_peers_library_reads_our_tables_and_computes_our_figures";
    let Some(python) = peer_python() else {
        return skip(name, "mrm-trace is not in the cache (scripts/setup.sh test gets it)");
    };
    let dense = MakeSpec { layers: 2, embedding: 64, feed_forward: 128, ..MakeSpec::default() };
    let experts = MakeSpec { experts: 4, experts_used: 2, weight_type: WeightType::Q8_0, ..dense.clone() };
    let arguments = ["--prompt", "abc", "--max-tokens", "8", "--ignore-end"];
    for (spec, more) in [
        (dense.clone(), &[][..]),
        (dense, &["--flash-attention", "off"][..]),
        (experts, &["--time-resolution", "step"]),
    ] {
        let place = Workplace::new();
        let model = place.model(spec);
        let run = place.run(&model, &[&arguments[..], more].concat());
        compare(&python, &run);
    }
    // Attention in one layer and a scan in the other: a region type that the peer has no name for.
    let place = Workplace::new();
    let jamba = tiny::ALL.iter().find(|tiny| tiny.architecture == "jamba").unwrap();
    let run = place.run(&jamba.make(place.path()).unwrap(), &arguments);
    let types: BTreeSet<String> = run.accesses().into_iter().map(|access| access.region_type).collect();
    assert!(types.contains("kv_cache") && types.contains("recurrent_state"), "{types:?}");
    compare(&python, &run);
}
