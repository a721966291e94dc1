//! mrm-trace as a witness: its `classify_run` and its quality gate judge as ours do with its rules.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../../../tests/cached.rs"]
mod cached;
#[path = "../../../tests/skip.rs"]
mod skip;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use cached::cached;
use dwell_analysis::quality::{Quality, QualityInput};
use dwell_analysis::validity::{ValidityInput, classify_as_mrm_trace};
use serde_json::{Value, json};
use skip::skip;

/// On both sides of two edges, on them, and far away.
fn around(edges: [f64; 2]) -> [f64; 8] {
    let [low, high] = edges;
    [0.0, low.next_down(), low, low.next_up(), high.next_down(), high, high.next_up(), 2.0 * high]
}

fn runs() -> Vec<ValidityInput> {
    let mut runs = Vec::new();
    for observer_cpu_pct in around([10.0, 20.0]) {
        for observer_memory_share in around([0.05, 0.15]) {
            for throttle_events in 0..4 {
                for baseline_cpu_pct in around([15.0, 30.0]) {
                    for package_temp_peak_c in around([85.0, 90.0]) {
                        for io_contention in [false, true] {
                            runs.push(ValidityInput {
                                observer_cpu_pct: Some(observer_cpu_pct),
                                observer_memory_share: Some(observer_memory_share),
                                observer_machine_memory_share: None,
                                throttle_events: Some(throttle_events),
                                baseline_cpu_pct: Some(baseline_cpu_pct),
                                package_temp_peak_c: Some(package_temp_peak_c),
                                io_contention: Some(io_contention),
                            });
                        }
                    }
                }
            }
        }
    }
    runs
}

fn traces() -> Vec<QualityInput> {
    let mut traces = Vec::new();
    for collector in ["perf_mem", "perf_mem_labelled", "memray", "anything else"] {
        for latency_rows in [0, 99, 100, 499, 500, 949, 950, 1000] {
            for cache_level_rows in [0, 99, 100, 499, 500, 849, 850, 1000] {
                for unknown_rows in [0, 950, 951, 999, 1000] {
                    let collector = collector.to_owned();
                    let known = QualityInput { collector, rows: 1000, unknown_rows, ..QualityInput::default() };
                    traces.push(QualityInput { latency_rows, cache_level_rows, ..known });
                }
            }
        }
        traces.push(QualityInput { collector: collector.to_owned(), ..QualityInput::default() });
    }
    traces
}

/// What the peer says to each.
fn ask(python: &Path, question: &Value) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peer/mrm_trace_judgements.py");
    let mut command = Command::new(python);
    command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut peer = command.spawn().unwrap();
    // It reads everything before it answers, so the pipes cannot fill each other up.
    peer.stdin.take().unwrap().write_all(question.to_string().as_bytes()).unwrap();
    let output = peer.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_peer_judges_runs_and_traces_as_its_rules_do_here() {
    let name = "the_peer_judges_runs_and_traces_as_its_rules_do_here";
    let Some(python) = cached("venv-peer/bin/python") else {
        return skip(name, "mrm-trace is not in the cache (scripts/setup.sh test gets it)");
    };
    let (runs, traces) = (runs(), traces());
    let arguments = |run: &ValidityInput| {
        let ValidityInput { observer_cpu_pct, observer_memory_share, throttle_events, .. } = run;
        let ValidityInput { baseline_cpu_pct, io_contention, package_temp_peak_c, .. } = run;
        json!([
            observer_cpu_pct,
            observer_memory_share,
            throttle_events,
            baseline_cpu_pct,
            io_contention,
            package_temp_peak_c
        ])
    };
    let question = json!({"runs": runs.iter().map(arguments).collect::<Vec<_>>(), "traces": traces});
    let answer = ask(&python, &question);
    let (classes, statuses) = (answer["runs"].as_array().unwrap(), answer["traces"].as_array().unwrap());
    assert_eq!((classes.len(), statuses.len()), (runs.len(), traces.len()));
    for (run, theirs) in runs.iter().zip(classes) {
        assert_eq!(classify_as_mrm_trace(run).name(), theirs, "{run:?}");
    }
    for (trace, theirs) in traces.iter().zip(statuses) {
        assert_eq!(Quality::of(trace).status.name(), theirs, "{trace:?}");
    }
}
