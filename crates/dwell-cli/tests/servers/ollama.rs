//! Ollama, started for a run with a model that it makes of a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Run, Workplace, cached, skip, wait_for_end_of};
use crate::lab::{
    Moved, Sample, Theory, assert_exact, assert_kv_bytes_of_tokens, done, recorded_pids, samples, started, tiny, tokens,
};

/// Ollama in the cache, or a note that a test cannot run here.
pub fn program(test: &str) -> Option<PathBuf> {
    let found = cached("ollama/bin/ollama");
    if found.is_none() {
        skip(test, "Ollama is not in the cache (scripts/setup.sh test gets it)");
    }
    found
}

/// `dwell run` with an Ollama that keeps its models in the folder of the test.
pub fn command(place: &Workplace, model: &Path, program: &Path, arguments: &[&str]) -> Command {
    let mut command = started(place, model, "ollama", program, &[&["--prompt", "hello"], arguments].concat());
    command.env("HOME", place.path()).env("OLLAMA_NO_CLOUD", "1");
    command
}

/// Rows that were taken at once, by process, with their total. The first row of a process has none.
fn looks(samples: &[Sample]) -> Vec<(BTreeMap<u32, f64>, f64)> {
    let of_server = samples.iter().filter(|sample| sample.label.starts_with("server"));
    let (mut looks, mut open) = (Vec::new(), BTreeMap::new());
    for sample in of_server {
        if sample.label == "server:total" {
            looks.push((std::mem::take(&mut open), sample.rss_mb));
        } else {
            open.insert(sample.pid, sample.rss_mb);
        }
    }
    looks
}

/// The runner is sampled under the server's name, and a total is the sum of its processes.
fn assert_runner_is_sampled(run: &Run, runner: u32) {
    let samples = samples(run);
    let looks = looks(&samples);
    let of_runner = looks.iter().filter(|(rows, _)| rows.contains_key(&runner)).count();
    assert!(of_runner > 0, "the runner {runner} is in no sample");
    // A helper that ends before it is looked at a second time has a first row, which is in no total.
    let is_seen_once = |pid: &u32| samples.iter().filter(|sample| sample.pid == *pid).count() == 1;
    for (rows, total) in looks {
        let sums = [false, true].map(|leaves_out| -> f64 {
            rows.iter().filter(|(pid, _)| !(leaves_out && is_seen_once(pid))).map(|(_, rss_mb)| rss_mb).sum()
        });
        assert!(sums.iter().any(|sum| (sum - total).abs() < 0.01), "{rows:?} add up to {sums:?}, not to {total}");
    }
}

#[test]
fn ollama_is_traced_and_its_runner_sampled() {
    let Some(program) = program("ollama_is_traced_and_its_runner_sampled") else { return };
    let (place, model_place) = (Workplace::new(), Workplace::new());
    let model = model_place.model(tiny());
    let arguments = ["--max-tokens", "16", "--sample-interval-ms", "5", "--start", "cold"];
    let cold = done(&place, &model, command(&place, &model, &program, &arguments));
    let theory = Theory::of(&model, "f16");
    let metadata = cold.metadata();
    let (server, request) = (&metadata["server"], &metadata["requests"][0]);
    assert_eq!((&request["prompt_tokens"], &request["generated_tokens"]), (&6.into(), &16.into()));
    assert_exact(&cold, &theory, 6, 16);
    assert_kv_bytes_of_tokens(&cold, &theory, 6);

    // What /api/show and /api/ps say.
    assert_eq!(server["kv_bytes_per_token"], theory.kv_bytes);
    assert_eq!((&server["reported"]["details.family"], &server["context_length"]), (&"llama".into(), &256.into()));
    assert!(server["reported"]["ps.size"].is_string(), "{server}");
    assert_eq!(metadata["model"]["layers"], 3);

    let [runner] = recorded_pids(&cold).into_iter().collect::<Vec<_>>()[..] else { panic!("one runner computes") };
    assert_runner_is_sampled(&cold, runner);
    wait_for_end_of(runner);

    let start = |run: &Run| run.metadata()["memory"]["start_name"].clone();
    assert_eq!((start(&cold), &metadata["page_cache"]["was_dropped"]), ("cold".into(), &true.into()));
    assert_eq!(metadata["page_cache"]["resident_bytes"], 0);
    let place = Workplace::new();
    let warm = done(&place, &model, command(&place, &model, &program, &["--max-tokens", "4", "--start", "warm"]));
    assert_eq!((start(&warm), &warm.metadata()["page_cache"]["was_dropped"]), ("page_cache".into(), &false.into()));
    assert_eq!(warm.metadata()["memory"]["start"]["asked"], "warm");
    for run in [&cold, &warm] {
        let timings = run.metadata()["memory"]["timings"].clone();
        let times = ["load_ns", "generation_ns"].map(|name| timings[name].as_u64().unwrap());
        assert!(times.iter().all(|time_ns| *time_ns > 0), "loading is told from generating: {timings}");
    }
}

#[test]
fn prompts_that_are_sent_to_be_counted_are_no_work() {
    let Some(program) = program("prompts_that_are_sent_to_be_counted_are_no_work") else { return };
    let (place, model_place) = (Workplace::new(), Workplace::new());
    let model = model_place.model(tiny());
    let actions = place.path().join("actions.json");
    let list = serde_json::json!([
        {"do": "prompt", "text": "once upon a time ", "sequences": [0], "fill_to_tokens": 100},
        {"do": "generate", "max_tokens": 4, "sequences": [0]},
    ]);
    std::fs::write(&actions, list.to_string()).unwrap();
    let mut command = started(&place, &model, "ollama", &program, &["--actions", actions.to_str().unwrap()]);
    command.env("HOME", place.path()).env("OLLAMA_NO_CLOUD", "1");
    let run = done(&place, &model, command);

    let metadata = run.metadata();
    let phases: Vec<&str> =
        metadata["phases"].as_array().unwrap().iter().map(|span| span["phase"].as_str().unwrap()).collect();
    assert_eq!(phases, ["weight_load", "setup", "generation", "teardown"]);
    let set_up = run.accesses().into_iter().filter(|access| access.phase == "setup").collect::<Vec<_>>();
    assert!(!set_up.is_empty() && set_up.iter().all(|access| access.step.is_none()), "they have no step");
    let request = &metadata["requests"][0];
    assert_eq!(metadata["requests"].as_array().unwrap().len(), 1);
    let computed = request["prompt_tokens"].as_u64().unwrap() - request["reused_tokens"].as_u64().unwrap();
    assert!((90..=110).contains(&request["prompt_tokens"].as_u64().unwrap()), "{request}");
    let (moved, theory) = (Moved::in_all(&run), Theory::of(&model, "f16"));
    let of_warm_up = moved.stored("kv_cache", 0) - Moved::in_generation(&run).stored("kv_cache", 0);
    // The server warms up with a few tokens, once or twice; a prompt that is sent to be counted has ninety and more.
    assert!(of_warm_up <= 8 * theory.kv_bytes, "{of_warm_up}");
    assert_eq!(Moved::in_generation(&run).stored("kv_cache", 0), computed * theory.kv_bytes);
    let told = tokens(&run);
    assert_eq!(told.iter().map(|token| token.step).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let held = |index: u64| (request["prompt_tokens"].as_u64().unwrap() + index) * theory.kv_bytes;
    assert!((0..).zip(&told).all(|(index, token)| token.kv_bytes == Some(held(index))), "{told:?}");
}
