//! Collectors in the place of those that do not work: `--fallback`.

use std::process::{Command, Output};

use serde_json::json;

use crate::common::{Workplace, dwell, text_of};
use crate::{done, trace, traced_run};

/// The same command where no file may grow beyond 8 MiB: the rings of `alloc` and `tensor_ops` cannot be made, all else can.
fn with_small_files(command: &Command) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 16384; exec \"$0\" \"$@\""]);
    limited.arg(command.get_program()).args(command.get_args());
    limited
}

fn refused(command: &mut Command) -> String {
    let output: Output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_first_fallback_that_works_watches_and_every_refusal_is_told() {
    let place = Workplace::new();
    let options = ["--collect", "alloc", "--fallback", "tensor_ops,process"];
    let (run, output) = done(&place, with_small_files(&trace(&place, &options, &["true"])));
    let said = text_of(&output);
    assert!(said.contains("warning: the collector alloc cannot watch this run, process takes its place: "), "{said}");
    let metadata = run.metadata();
    let collectors = &metadata["collectors"];
    assert_eq!(collectors["used"], json!(["process"]));
    let refusals = collectors["refusals"].as_array().unwrap();
    let told: Vec<(&str, &str)> = refusals
        .iter()
        .map(|refusal| (refusal["collector"].as_str().unwrap(), refusal["at"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [("alloc", "check"), ("tensor_ops", "check")]);
    assert!(refusals.iter().all(|refusal| refusal["reason"].as_str().is_some_and(|reason| reason.len() > 10)));
    assert_eq!(collectors["fallbacks"][0]["wanted"], "alloc");
    assert_eq!(collectors["fallbacks"][0]["instead"], "process");
    assert!(metadata["tables"]["memory"]["rows"].as_u64().unwrap() > 0);
    let shown = text_of(&dwell().arg("show").arg(&run.dir).output().unwrap());
    assert!(shown.contains("\nrefused   alloc does not work here, process takes its place: "), "{shown}");
    assert!(shown.contains("\nbasis     ") && shown.contains("sampled: memory (process)"), "{shown}");
    let page = std::fs::read_to_string(run.dir.join("report.html")).unwrap();
    assert!(page.contains("alloc does not work here, process takes its place"));
}

#[test]
fn without_a_fallback_that_works_nothing_runs() {
    let place = Workplace::new();
    let options = ["--collect", "process,alloc", "--fallback", "tensor_ops"];
    let said = refused(&mut with_small_files(&trace(&place, &options, &["true"])));
    assert!(said.contains("alloc does not work here, and no fallback takes its place"), "{said}");
    assert!(said.contains("hint: dwell doctor --collect alloc"), "{said}");
    assert!(!traced_run(&place).dir.exists());
}

#[test]
fn a_collector_that_cannot_watch_the_engine_falls_back_or_is_refused() {
    let place = Workplace::new();
    let model = place.model(dwell_gguf::MakeSpec::default());
    let wanted = ["--prompt", "a", "--max-tokens", "1", "--baseline-secs", "0", "--collect", "browser"];
    let said = refused(&mut place.run_command(&model, &wanted));
    assert!(said.contains("browser cannot watch the engine: "), "{said}");
    assert!(said.contains("--fallback process"), "{said}");
    let run = place.run(&model, &[&wanted[..], &["--fallback", "kv_events,process"]].concat());
    let collectors = &run.metadata()["collectors"];
    assert_eq!(collectors["used"], json!(["process"]));
    let told: Vec<&str> =
        collectors["refusals"].as_array().unwrap().iter().map(|refusal| refusal["at"].as_str().unwrap()).collect();
    assert_eq!(told, ["engine", "engine"]);
}
