//! `metadata.json` is written and read by one type, whatever version wrote the file.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dwell_analysis::energy::EnergyReport;
use dwell_events::engine::{Action, EngineKind, EngineOptions, Job, KvType, StopReason, TimeResolution, WorkTotals};
use dwell_events::host::{Baseline, Host, Sensor, Topology};
use dwell_events::kv_accesses::KvAccesses;
use dwell_events::server::{Api, ServerOptions, StartKind};
use dwell_events::{ClockAnchor, Hint, Phase, PhaseSpan, RequestSpan, RunKind};
use dwell_metadata::{
    Agreement, BuildOptions, CollectorAbout, CollectorUse, Collectors, ExperimentRun, Fallback, Generation,
    ImportOrigin, ImportedFile, KvEventsImport, MetadataError, Refusal, RefusedAt, Relabelling, RunMetadata,
    RunRequest, Stop, TableOrigin, Telemetry, Timestamps,
};
use serde_json::{Value, json};

/// Files that version 0.1.0 wrote: of a run with a server, of a run of an experiment, of an import.
const EARLIER: [(&str, &str); 3] = [
    ("server-1.2.json", include_str!("files/server-1.2.json")),
    ("experiment-1.2.json", include_str!("files/experiment-1.2.json")),
    ("import-1.1.json", include_str!("files/import-1.1.json")),
];

fn parse(text: &str) -> Result<RunMetadata, MetadataError> {
    RunMetadata::parse(text.as_bytes(), Path::new("/r/metadata.json"))
}

fn request() -> RunRequest {
    let options = EngineOptions { temperature: 0.7, kv_type_v: KvType::Q8_0, ..EngineOptions::new("m.gguf".into()) };
    let prompt = Action::Prompt { text: "a".to_owned(), sequences: vec![0], fill_to_tokens: None };
    let generate = |max_tokens| Action::Generate { max_tokens, sequences: vec![0] };
    RunRequest {
        job: Job::embedded(options, vec![prompt, generate(16), generate(8)]),
        model_id: "tiny".to_owned(),
        collectors: Collectors::default(),
        baseline_ms: 0,
        sensor_interval_ms: 0,
        command_line: vec!["dwell".to_owned(), "run".to_owned()],
        build: BuildOptions::default(),
        experiment: Some(ExperimentRun { id: "e1".to_owned(), run_kind: RunKind::Warmup, ..ExperimentRun::default() }),
        fallbacks: Vec::new(),
        refusals: Vec::new(),
        substitutes: Vec::new(),
        untraced: None,
    }
}

/// Metadata in which every key says something.
fn full() -> RunMetadata {
    let server = parse(EARLIER[0].1).unwrap();
    let imported = parse(EARLIER[2].1).unwrap();
    let file = ImportedFile { path: "b.jsonl".into(), form: "json_lines".to_owned(), batches: 3 };
    let topology = Sensor::Available(Topology { sockets: 1, cores: 4, ..Topology::default() });
    RunMetadata {
        run_id: "one".to_owned(),
        state: "complete".to_owned(),
        imported_at_utc: Some("2026-01-02T03:04:05Z".to_owned()),
        clock: Some(ClockAnchor { monotonic_ns: 5, unix_ns: 1_700_000_000_000_000_000 }),
        host: Some(Host { cpus: 4, kernel: "6.1".to_owned(), topology, ..Host::default() }),
        server: server.server,
        requests: vec![RequestSpan { sequence: 1, begin_ns: 7, first_token_ns: Some(9), ..RequestSpan::default() }],
        page_cache: server.page_cache,
        kv_blocks: imported.kv_events.clone().map(|events| events.report),
        memory: server.memory,
        model: server.model,
        phases: vec![PhaseSpan { phase: Phase::WeightLoad, begin_ns: 1, end_ns: 3 }],
        generation: Some(Generation::of(
            WorkTotals {
                prompt_tokens: 5,
                cached_tokens: 1,
                prompt_ns: 1_000_000_000,
                generated_tokens: 16,
                decode_ns: 2_000_000_000,
            },
            15,
        )),
        stops: vec![Stop { sequence: 0, reason: StopReason::ContextFull }],
        tables: [(
            "trace".to_owned(),
            TableOrigin { rows: 7, basis: "exact".to_owned(), source: "tensor_ops".to_owned() },
        )]
        .into(),
        time_resolution: Some(TimeResolution::Layer),
        agreements: vec![Agreement { about: "written KV pages".to_owned(), both: 3, ..Agreement::default() }],
        energy: Some(EnergyReport { idle_s: Some(2.0), ..EnergyReport::default() }),
        collectors: CollectorUse {
            used: vec!["process".to_owned()],
            fallbacks: vec![Fallback {
                wanted: "tensor_ops".to_owned(),
                instead: "process".to_owned(),
                reason: "no ggml".to_owned(),
            }],
            refusals: vec![Refusal {
                collector: "tensor_ops".to_owned(),
                at: RefusedAt::Begin,
                reason: "no ggml".to_owned(),
            }],
            about: [(
                "process".to_owned(),
                CollectorAbout { basis: "sampled".to_owned(), cost: "a little".to_owned() },
            )]
            .into(),
        },
        telemetry: Telemetry {
            baseline: Some(Baseline {
                duration_s: 0.5,
                load_averages: Sensor::Available([0.25, 0.5, 1.0]),
                ..Baseline::default()
            }),
            sensors: server.telemetry.sensors,
        },
        observer_effect: server.observer_effect,
        validity: server.validity,
        quality: server.quality,
        graphs: 3,
        graph_computations: 40,
        kv_accesses: Some(KvAccesses { loaded_unoccupied_bytes: 4, ..KvAccesses::default() }),
        failure: Some("the worker was killed".to_owned()),
        failure_hints: vec!["look".to_owned()],
        kv_events: imported.kv_events.map(|events| KvEventsImport { files: vec![file], ..events }),
        import: Some(ImportOrigin { format: "lackey".to_owned(), ..ImportOrigin::default() }),
        timestamps: Some(Timestamps::ordinal("accesses")),
        relabelled: Some(Relabelling { input: "old/run".into(), ..Relabelling::default() }),
        ..RunMetadata::of_request(&request())
    }
}

/// Every value of the first is in the second, at the same place.
fn assert_kept(old: &Value, new: &Value, place: &str) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in old {
                let found = new.get(key).unwrap_or_else(|| panic!("{place}.{key} is gone"));
                assert_kept(value, found, &format!("{place}.{key}"));
            }
        }
        (old, new) => assert_eq!(old, new, "{place}"),
    }
}

#[test]
fn metadata_that_was_written_is_read_back_as_it_was() {
    let metadata = full();
    let text = serde_json::to_string_pretty(&metadata).unwrap();
    assert_eq!(parse(&text).unwrap(), metadata);
    let least = RunMetadata::default();
    assert_eq!(parse(&serde_json::to_string(&least).unwrap()).unwrap(), least);
}

#[test]
fn files_of_earlier_versions_keep_every_key_and_value() {
    for (name, text) in EARLIER {
        let old: Value = serde_json::from_str(text).unwrap();
        let new = serde_json::to_value(parse(text).unwrap()).unwrap();
        assert_kept(&old, &new, name);
    }
}

#[test]
fn files_of_earlier_versions_say_what_they_said() {
    let run = parse(EARLIER[1].1).unwrap();
    assert_eq!((run.metadata_schema_version.as_str(), run.engine.as_str()), ("1.2", "llama_cpp"));
    assert_eq!((run.option_number("context_length"), run.option_flag("flash_attention")), (Some(256), Some(true)));
    assert_eq!((run.kv_type().as_deref(), run.most_output_tokens()), (Some("f16"), Some(2)));
    assert_eq!((run.kind(), run.start), (RunKind::Repetition, Some(StartKind::AsFound)));
    assert_eq!(run.phases[0].phase, Phase::WeightLoad);
    let import = parse(EARLIER[2].1).unwrap();
    assert_eq!((import.host.as_ref(), import.validity.as_ref(), import.kind()), (None, None, RunKind::Single));
    let events = import.kv_events.unwrap();
    assert_eq!((events.files[0].form.as_str(), events.report.blocks.stored), ("json_lines", 3));
}

#[test]
fn the_recording_of_perf_that_an_older_file_has_a_key_for_is_read_as_its_import() {
    let old = r#"{ "metadata_schema_version": "1.7",
        "import": { "format": "perf-data", "files": ["perf.data"], "events": { "loads": 3 } },
        "perf": { "file": "perf.data", "form": "perf.data", "events": { "loads": 2 }, "clock": "scheduler", "cpu": null } }"#;
    let import = parse(old).unwrap().import.unwrap();
    assert_eq!((import.format.as_str(), import.files), ("perf-data", vec!["perf.data".into()]));
    let found = json!({ "events": { "loads": 3 }, "form": "perf.data", "clock": "scheduler" });
    assert_eq!(Value::Object(import.found), found);
}

#[test]
fn options_are_written_with_the_digits_that_were_given() {
    let metadata = RunMetadata::of_request(&request());
    assert_eq!(metadata.options["temperature"].to_string(), "0.7");
    assert_eq!((metadata.kv_type().as_deref(), metadata.most_output_tokens()), (Some("f16/q8_0"), Some(16)));
    assert_eq!(metadata.kind(), RunKind::Warmup);
}

/// Names of the options that a run of an engine states.
fn stated_options(engine: EngineKind, url: Option<&str>, api: Api) -> Vec<String> {
    let mut request = request();
    request.job.engine = engine;
    request.job.server = ServerOptions { url: url.map(str::to_owned), api, ..ServerOptions::default() };
    RunMetadata::of_request(&request).options.into_keys().collect()
}

#[test]
fn only_options_that_reach_the_engine_are_stated() {
    let url = Some("http://127.0.0.1:1");
    let stated = |engine, url| stated_options(engine, url, Api::Chat);
    assert_eq!(stated(EngineKind::Command, None), ["model", "time_resolution"]);
    let asked = ["chat_template", "model", "parallel", "seed", "temperature", "template_by"];
    assert_eq!(stated(EngineKind::OpenAi, url), asked);
    let asked = ["chat_template", "ignore_end", "model", "parallel", "seed", "temperature", "template_by"];
    for engine in [EngineKind::Vllm, EngineKind::Sglang, EngineKind::LlamaServer] {
        assert_eq!(stated(engine, url), asked, "{}", engine.name());
    }
    let mut all: Vec<String> = RunMetadata::of_request(&request()).options.into_keys().collect();
    all.push("template_by".to_owned());
    all.sort();
    let without = |left_out: &[&str]| -> Vec<String> {
        all.iter().filter(|name| !left_out.contains(&name.as_str())).cloned().collect()
    };
    assert_eq!(stated(EngineKind::LlamaServer, None), without(&["all_positions"]));
    assert_eq!(stated(EngineKind::LlamaCli, None), without(&["all_positions", "kv_unified"]));
    let unknown = ["all_positions", "full_window_cache", "ignore_end", "kv_unified", "micro_batch_size", "repack"];
    assert_eq!(stated(EngineKind::Ollama, None), without(&unknown));
    let unset = ["flash_attention", "kv_type_k", "kv_type_v", "time_resolution"];
    assert_eq!(stated(EngineKind::Ollama, url), without(&[&unknown[..], &unset].concat()));
}

#[test]
fn who_fills_the_template_of_a_server_is_stated() {
    let stated = |engine, api, template: Option<&str>| {
        let mut request = request();
        request.job.engine = engine;
        request.job.server = ServerOptions { api, template: template.map(str::to_owned), ..ServerOptions::default() };
        let options = RunMetadata::of_request(&request).options;
        (options["chat_template"].as_bool(), options.get("template_by").cloned())
    };
    let server = EngineKind::LlamaServer;
    assert_eq!(stated(server, Api::Chat, None), (Some(true), Some("server".into())));
    assert_eq!(stated(server, Api::Completion, Some("x")), (Some(true), Some("dwell".into())));
    assert_eq!(stated(server, Api::Completion, None), (Some(false), None));
    assert_eq!(stated(EngineKind::LlamaCpp, Api::Completion, None).1, None, "it has but one way");
}

#[test]
fn a_server_applies_the_template_where_it_is_asked_for_a_chat() {
    for api in Api::ALL {
        let mut request = request();
        request.job.engine = EngineKind::Vllm;
        request.job.options.model = PathBuf::new();
        request.job.server.api = api;
        let options = RunMetadata::of_request(&request).options;
        assert_eq!(options["chat_template"], Value::from(api == Api::Chat));
        assert!(!options.contains_key("model"), "there is no file");
    }
}

#[test]
fn another_major_version_is_refused_with_both_versions_and_the_path() {
    for version in ["2.0", "0.9", "new"] {
        let error = parse(&json!({"metadata_schema_version": version, "host": "other"}).to_string()).unwrap_err();
        let wanted =
            format!("reading the metadata of a run found version {version}, and 1.10 is needed: \"/r/metadata.json\"");
        assert_eq!(error.to_string(), wanted);
        assert!(error.hints()[0].contains("dwell --version"), "{:?}", error.hints());
    }
    let error = parse(r#"{"metadata_schema_version": 2}"#).unwrap_err();
    assert!(error.to_string().contains("found version 2,"), "{error}");
}

#[test]
fn values_that_only_a_later_version_knows_are_left_out() {
    let text = json!({
        "metadata_schema_version": "1.99", "run_id": "r", "start": "lukewarm", "dreams": {"count": 3},
        "stops": [{"sequence": 0, "reason": "max_tokens"}],
    });
    let metadata = parse(&text.to_string()).unwrap();
    assert_eq!((metadata.run_id.as_str(), metadata.start, metadata.stops.len()), ("r", None, 1));
}

#[test]
fn a_file_of_another_program_gives_what_fits() {
    let text = json!({"run_id": "r", "host": "lab-3", "telemetry": [1, 2], "options": {"context_length": 512}});
    let metadata = parse(&text.to_string()).unwrap();
    assert_eq!((metadata.run_id.as_str(), metadata.option_number("context_length")), ("r", Some(512)));
    assert_eq!((metadata.host, metadata.telemetry), (None, Telemetry::default()));
}

#[test]
fn a_value_that_does_not_fit_is_damage_in_a_file_of_this_version() {
    for text in [r#"{"metadata_schema_version": "1.3", "graphs": "many"}"#, "[1, 2]", "{", ""] {
        let error = parse(text).unwrap_err();
        assert!(matches!(error, MetadataError::Unfit { .. }), "{text}: {error}");
        assert!(error.to_string().ends_with("\"/r/metadata.json\""), "{error}");
        assert_eq!(error.hints(), ["see whether the file was changed with `dwell verify '/r'`"]);
    }
}

#[test]
fn every_key_is_documented_and_every_documented_key_exists() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/metadata.md");
    let page = std::fs::read_to_string(page).unwrap();
    let table = page.split("\n\n").find(|block| block.starts_with("| key | holds |")).unwrap();
    let cells = table.lines().skip(2).filter_map(|line| line.split('|').nth(1));
    let documented: BTreeSet<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let value = serde_json::to_value(full()).unwrap();
    let written: BTreeSet<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(documented, written);
    let silent: Vec<&str> = written.into_iter().filter(|key| value[key].is_null()).collect();
    assert!(silent.is_empty(), "the test must fill in {silent:?}");
}
