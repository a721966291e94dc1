//! Runs side by side: groups, spreads, context lengths and figures of runs whose memory is known.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use dwell_analysis::Basis;
use dwell_analysis::memory::{KvTheory, MemoryInputs, MemoryKind, MemoryReport, MemorySeries, ModelStart, TokenTimes};
use dwell_events::schema::Table;
use dwell_events::schema::memory::MemoryRow;
use dwell_events::schema::tokens::{self, TokenRow};
use dwell_events::server::{BufferKind, ReportedBuffer};
use dwell_report::text::comparison_text;
use dwell_report::{
    CompareOptions, CompareSource, Comparison, ExclusionReason, ReportError, RunResults, Spread, compare,
    compare_chosen, comparison_figures,
};
use dwell_store::TableWriter;
use serde_json::{Value, json};

const MS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;
const PER_TOKEN: u64 = 24_576;

/// Memory of a run with a preallocated cache: a base, the cache and a compute buffer that grows with the context.
fn memory(context_length: u64, base_mib: u64) -> MemoryReport {
    let compute = 2_048 * context_length;
    let anon_bytes = base_mib * MIB + PER_TOKEN * context_length + compute;
    let mut series = MemorySeries::default();
    (0..200).for_each(|index| {
        let row = MemoryRow { timestamp_ns: index * 10 * MS, rss_bytes: anon_bytes, ..MemoryRow::default() };
        series.push(&MemoryRow { pss_bytes: Some(anon_bytes), anon_bytes: Some(anon_bytes), ..row });
    });
    let mut times = TokenTimes::default();
    token_rows().iter().for_each(|row| times.push(row));
    let buffers =
        [ReportedBuffer { kind: BufferKind::Compute, device: "CPU".into(), bytes: compute, is_mapped: false }];
    MemoryReport::of(&MemoryInputs {
        series: &series,
        tokens: &times,
        phases: &[],
        requests: &[],
        buffers: &buffers,
        weights: None,
        theory: Some(KvTheory {
            state_bytes: None,
            bytes_per_token: PER_TOKEN,
            cache_bytes: Some(PER_TOKEN * context_length),
            basis: Basis::Exact,
        }),
        start: ModelStart::default(),
        peak_rss_bytes: None,
        traced_kv: None,
    })
}

fn token_rows() -> Vec<TokenRow> {
    let row = |index: u32| TokenRow {
        token_index: index,
        step: index,
        sequence: 0,
        position: None,
        token_id: None,
        text: "a".to_owned(),
        is_generated: true,
        begin_ns: 0,
        end_ns: (500 + 10 * u64::from(index)) * MS,
        rss_bytes: Some(u64::from(index) * MIB),
        kv_bytes: None,
        pss_bytes: Some(u64::from(index) * MIB),
        anon_bytes: None,
        gpu_bytes: None,
    };
    (0..100).map(row).collect()
}

/// A run of this engine and context length.
fn run(run_id: &str, engine: &str, context_length: u64, speed: f64) -> CompareSource {
    let memory = serde_json::to_value(memory(context_length, 50)).unwrap();
    let metadata = json!({
        "run_id": run_id, "model_id": "tiny", "state": "complete", "engine": engine,
        "options": {"context_length": context_length, "kv_type_k": "f16", "kv_type_v": "f16"},
        "generation": {"decode_tokens_per_s": speed},
        "memory": memory,
    });
    source(metadata, false)
}

fn source(metadata: Value, is_named: bool) -> CompareSource {
    let facts = RunResults { metadata: serde_json::from_value(metadata).unwrap(), ..RunResults::default() };
    CompareSource { facts, is_named }
}

fn study() -> Comparison {
    let runs = [
        run("a", "llama_cpp", 1_024, 10.0),
        run("b", "llama_cpp", 1_024, 14.0),
        run("c", "llama_cpp", 1_024, 11.0),
        run("d", "llama_cpp", 4_096, 9.0),
        run("e", "ollama", 1_024, 8.0),
    ];
    compare(&runs).unwrap()
}

#[test]
fn repetitions_are_one_configuration_with_its_median_and_ends() {
    let found = study();
    let labels: Vec<String> = found.groups.iter().map(|group| found.label_of(group)).collect();
    let expected = ["llama_cpp · f16 · context 1024", "llama_cpp · f16 · context 4096", "ollama · f16 · context 1024"];
    assert_eq!(labels, expected);
    assert_eq!(found.groups[0].run_ids, ["a", "b", "c"]);
    let speed = found.groups[0].figures["decode_tokens_per_s"];
    assert_eq!(speed, Spread { n: 3, median: 11.0, min: 10.0, max: 14.0 });
    assert_eq!(found.groups[0].verdicts["preallocated"], 3);
    assert_eq!(found.groups[0].figures["kv_theory_bytes_per_token"].median, 24_576.0);
    let steady = found.groups[0].figures["steady_bytes"].median;
    assert_eq!(steady, (50 * MIB + (PER_TOKEN + 2_048) * 1_024) as f64);
    assert!(!found.groups[0].figures.contains_key("load_s"), "what no run says is missing, not 0");
}

#[test]
fn work_that_differs_is_a_row_and_a_note_and_equal_work_is_no_note() {
    let with_tokens = |run_id: &str, engine: &str, context_length, prompt: u64, generated: u64| {
        let mut source = run(run_id, engine, context_length, 10.0);
        let generation = source.facts.metadata.generation.as_mut().unwrap();
        (generation.prompt_tokens, generation.generated_tokens) = (prompt, generated);
        source
    };
    let runs = |prompt| {
        [
            with_tokens("a", "llama_cpp", 1_024, 22, 128),
            with_tokens("b", "llama_server", 1_024, prompt, 128),
            // Another context length is meant to have other prompts.
            with_tokens("c", "llama_cpp", 4_096, 3_000, 128),
        ]
    };
    assert!(compare(&runs(22)).unwrap().notes.is_empty());
    let found = compare(&runs(43)).unwrap();
    assert_eq!(found.notes.len(), 1);
    let expected = "prompts differ in length at context 1024: 22 tokens in llama_cpp · f16 · context 1024, 43 tokens in llama_server · f16 · \
         context 1024; times to first token";
    assert!(found.notes[0].starts_with(expected) && found.notes[0].contains("--api chat"), "{:?}", found.notes);
    let embedded = [with_tokens("a", "llama_cpp", 1_024, 22, 128), with_tokens("b", "llama_cpp", 1_024, 43, 128)];
    let mut embedded = embedded.to_vec();
    embedded[1].facts.metadata.options.insert("threads".to_owned(), json!(2));
    let notes = compare(&embedded).unwrap().notes;
    assert!(notes.len() == 1 && !notes[0].contains("--api chat"), "no server is asked: {notes:?}");
    let text = comparison_text(&found, None);
    assert!(text.contains("note: prompts differ in length at context 1024"), "{text}");
    let row = text.lines().find(|line| line.starts_with("prompt tokens  ")).unwrap();
    assert_eq!(row.split_whitespace().skip(2).collect::<Vec<_>>(), ["22", "3,000", "43"], "{text}");
    let row = text.lines().find(|line| line.starts_with("generated tokens")).unwrap();
    assert_eq!(row.split_whitespace().skip(2).collect::<Vec<_>>(), ["128", "128", "128"], "{text}");
}

#[test]
fn runs_with_and_without_pss_are_compared_in_rss() {
    // Half of the memory is shared by two processes.
    let with_pss = |run_id| {
        let mut metadata = run(run_id, "ollama", 1_024, 8.0).facts.metadata;
        let memory = metadata.memory.as_mut().unwrap();
        for split in memory.steady.iter_mut().chain(&mut memory.peak) {
            split.total_bytes /= 2;
        }
        source(serde_json::to_value(metadata).unwrap(), false)
    };
    let without_pss = |run_id| {
        let mut metadata = run(run_id, "vllm", 1_024, 8.0).facts.metadata;
        let memory = metadata.memory.as_mut().unwrap();
        for split in memory.steady.iter_mut().chain(&mut memory.peak) {
            split.total_kind = MemoryKind::Rss;
        }
        source(serde_json::to_value(metadata).unwrap(), false)
    };
    let rss = (50 * MIB + (PER_TOKEN + 2_048) * 1_024) as f64;
    let medians = |found: &Comparison, name: &str| -> Vec<f64> {
        found.groups.iter().map(|group| group.figures[name].median).collect()
    };
    let alone = compare(&[with_pss("a"), with_pss("b")]).unwrap();
    assert_eq!(alone.groups[0].total_kinds.iter().collect::<Vec<_>>(), ["pss"]);
    assert_eq!(medians(&alone, "peak_bytes"), [rss / 2.0]);
    let mixed = compare(&[with_pss("a"), without_pss("b")]).unwrap();
    assert_eq!((medians(&mixed, "peak_bytes"), medians(&mixed, "steady_bytes")), (vec![rss, rss], vec![rss, rss]));
    assert!(mixed.groups.iter().all(|group| group.total_kinds.iter().eq(["rss"])));
    let text = comparison_text(&mixed, None);
    assert!(text.contains("peak memory, sampled (RSS)") && !text.contains("PSS"), "{text}");
}

/// Memory of a run whose 60 MiB of mapped weights another process maps too, so that PSS has half of them.
fn memory_of_shared_weights(has_pss: bool) -> MemoryReport {
    let (anon_bytes, file_bytes) = (20 * MIB, 70 * MIB);
    let mut series = MemorySeries::default();
    (0..200).for_each(|index| {
        series.push(&MemoryRow {
            timestamp_ns: index * 10 * MS,
            rss_bytes: anon_bytes + file_bytes,
            pss_bytes: has_pss.then_some(anon_bytes + file_bytes - 30 * MIB),
            anon_bytes: Some(anon_bytes),
            file_bytes: Some(file_bytes),
            ..MemoryRow::default()
        });
    });
    let mut times = TokenTimes::default();
    token_rows().iter().for_each(|row| times.push(row));
    let weights =
        ReportedBuffer { kind: BufferKind::Weights, device: "CPU_Mapped".into(), bytes: 60 * MIB, is_mapped: true };
    // More than memory without a file can hold.
    let compute = ReportedBuffer { kind: BufferKind::Compute, device: "CPU".into(), bytes: 25 * MIB, is_mapped: false };
    MemoryReport::of(&MemoryInputs {
        series: &series,
        tokens: &times,
        phases: &[],
        requests: &[],
        buffers: &[weights, compute],
        weights: None,
        theory: None,
        start: ModelStart::default(),
        peak_rss_bytes: None,
        traced_kv: None,
    })
}

#[test]
fn parts_of_memory_are_told_in_the_kind_that_all_runs_have_and_the_kind_is_named() {
    let with = |run_id: &str, engine: &str, memory: MemoryReport| {
        let mut source = run(run_id, engine, 1_024, 8.0);
        source.facts.metadata.memory = Some(memory);
        source
    };
    let alone = memory_of_shared_weights(true);
    assert_eq!(alone.steady.as_ref().unwrap().total_kind, MemoryKind::Pss);
    let mixed = [with("a", "ollama", alone), with("b", "vllm", memory_of_shared_weights(false))];
    let found = compare(&mixed).unwrap();
    let medians = |name: &str| found.groups.iter().map(|group| group.figures[name].median).collect::<Vec<_>>();
    assert_eq!(medians("steady_weights_bytes"), [(60 * MIB) as f64; 2]);
    assert_eq!(medians("steady_not_resident_bytes"), [-((5 * MIB) as f64); 2]);
    assert_eq!(medians("steady_unaccounted_bytes"), [(10 * MIB) as f64; 2]);
    let text = comparison_text(&found, None);
    assert!(
        ["  weights (RSS)", "  not resident (RSS)", "  unaccounted (RSS)"].iter().all(|row| text.contains(row)),
        "{text}"
    );
    // Without what the weights are, the samples do not tell.
    let mut silent = mixed;
    silent[0].facts.metadata.memory.as_mut().unwrap().buffers.clear();
    let found = compare(&silent).unwrap();
    assert!(!found.groups[0].figures.contains_key("steady_weights_bytes"));
    let warning = "not every run has PSS, so memory is in RSS; the samples of these do not tell the parts in it: a";
    assert_eq!(found.warnings, [warning]);
}

#[test]
fn columns_have_the_names_of_runs_that_were_named() {
    let named = |run_id: &str, engine: &str| {
        let mut source = CompareSource { is_named: true, ..run(run_id, engine, 1_024, 8.0) };
        source.facts.path = run_id.into();
        source
    };
    let found = compare(&[named("one", "llama_cpp"), named("two", "llama_cpp"), named("third", "vllm")]).unwrap();
    let text = comparison_text(&found, None);
    let row: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(row, ["run", "one", "two", "third"], "{text}");
    assert!(!comparison_text(&study(), None).contains("\nrun "), "runs of a folder have no names to tell them by");
}

#[test]
fn a_preallocated_cache_is_measured_over_context_lengths_without_compute_buffers() {
    let found = study();
    let [line] = found.context_lines.as_slice() else { panic!("{:?}", found.context_lines) };
    assert_eq!((line.engine.as_str(), line.context_lengths, line.points.len()), ("llama_cpp", 2, 4));
    assert!(line.is_without_compute);
    assert_eq!((line.bytes_per_token, line.measured_by_theory), (24_576.0, Some(1.0)));
    assert_eq!((line.base_bytes, line.low_bytes_per_token), ((50 * MIB) as f64, None));
}

#[test]
fn three_context_lengths_have_an_interval() {
    let runs: Vec<CompareSource> =
        [512, 1_024, 2_048, 4_096].map(|length| run(&length.to_string(), "vllm", length, 1.0)).into();
    let line = &compare(&runs).unwrap().context_lines[0];
    assert_eq!((line.low_bytes_per_token, line.high_bytes_per_token), (Some(24_576.0), Some(24_576.0)));
}

#[test]
fn the_csv_has_a_line_per_configuration_and_empty_fields_for_what_is_missing() {
    let csv = study().compare_csv();
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 4);
    let field = |line: usize, name: &str| lines[line][lines[0].iter().position(|column| *column == name).unwrap()];
    assert_eq!((field(1, "engine"), field(1, "context_length"), field(1, "n")), ("llama_cpp", "1024", "3"));
    assert_eq!((field(1, "run_ids"), field(1, "verdict")), ("a b c", "preallocated"));
    assert_eq!((field(1, "decode_tokens_per_s_median"), field(1, "decode_tokens_per_s_max")), ("11", "14"));
    assert_eq!((field(1, "load_s_median"), field(1, "memory_kind")), ("", "pss"));
    let context = study().context_csv();
    assert!(
        context.lines().any(|line| line.starts_with("llama_cpp,tiny,f16,own,true,2,4,24576,,,24576,1")),
        "{context}"
    );
}

#[test]
fn runs_of_older_versions_have_missing_figures_and_are_named() {
    let old = source(
        json!({"run_id": "old", "model_id": "tiny", "state": "complete", "engine": "llama_cpp",
        "options": {"context_length": 256, "kv_type_k": "f16"}, "generation": {"decode_tokens_per_s": 5.0}}),
        true,
    );
    let found = compare(&[old]).unwrap();
    assert_eq!(found.groups[0].figures.keys().collect::<Vec<_>>(), [&"decode_tokens_per_s"]);
    assert_eq!(found.warnings, ["1 run says nothing about memory per token: old"]);
    assert!(found.groups[0].verdicts.is_empty() && found.context_lines.is_empty());
    let text = comparison_text(&found, None);
    assert!(text.contains("5.0") && !text.contains("peak memory"), "{text}");
}

#[test]
fn two_configurations_stand_beside_each_other_in_eighty_columns_with_what_they_need() {
    let sources: Vec<CompareSource> = [("f16", 1.5), ("f16", 1.75), ("q8_0", 2.5)]
        .into_iter()
        .enumerate()
        .map(|(place, (kv_type, needed_s))| {
            let mut found = source(
                json!({"run_id": place.to_string(), "model_id": "a-model-with-a-name-of-many-letters.q4_1",
                    "state": "complete", "engine": "llama_cpp",
                    "options": {"context_length": 2048, "kv_type_k": kv_type, "kv_type_v": kv_type},
                    "generation": {"decode_tokens_per_s": 739.0 + place as f64}}),
                true,
            );
            let number = |column, value| (column, dwell_analysis::Value::Number(value));
            found.facts.set_metrics(vec![
                ("activation".into(), vec![number("needed_p99_s", 0.0)]),
                ("kv_cache".into(), vec![number("needed_p99_s", needed_s)]),
                ("weight".into(), vec![number("needed_p99_low_s", 12.5)]),
            ]);
            found
        })
        .collect();
    let text = comparison_text(&compare(&sources).unwrap(), Some(80));
    let is_narrow = |line: &str| line.chars().count() <= 80;
    assert!(text.lines().take_while(|line| !line.is_empty()).all(is_narrow), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("engine")).count(), 1, "{text}");
    let cells = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
        line[name.len()..].split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("|")
    };
    assert_eq!(cells("needed p99, KV cache"), "1.62 s (1.50–1.75)|2.50 s");
    assert_eq!(cells("needed p99, activations"), "< 1 step|< 1 step");
    assert_eq!(cells("needed p99, weights ≥"), "12.5 s|12.5 s");
}

#[test]
fn different_models_and_machines_are_warned_of() {
    let other = |model: &str, cpu: &str| {
        source(json!({"run_id": model, "model_id": model, "state": "complete", "host": {"cpu_model": cpu}}), true)
    };
    let warnings = compare(&[other("m", "x"), other("n", "y")]).unwrap().warnings;
    assert!(warnings.contains(&"runs are of different models: m, n".to_owned()), "{warnings:?}");
    assert!(warnings.contains(&"runs are of different machines: x, y".to_owned()), "{warnings:?}");
}

#[test]
fn a_server_that_was_joined_is_believed_and_not_the_options() {
    let server = |facts: Value| {
        let metadata = json!({"run_id": "s", "model_id": "tiny", "state": "complete", "engine": "llama_server",
            "options": {"context_length": 2048, "kv_type_k": "f16", "kv_type_v": "f16"}, "server": facts});
        compare(&[source(metadata, true)]).unwrap().groups[0].key.clone()
    };
    let told = |shares_context: Value| {
        server(json!({"context_length": 1024, "slots": 4, "shares_context": shares_context,
            "kv_type_k": "q8_0", "kv_type_v": "q4_0"}))
    };
    let own = told(json!(false));
    assert_eq!((own.context_length, own.kv_type.as_deref()), (Some(4_096), Some("q8_0/q4_0")));
    assert_eq!(told(json!(true)).context_length, Some(1_024));
    assert_eq!(told(json!(null)).context_length, Some(1_024), "how slots divide the cache is not said");
    let silent = server(json!({"is_started_here": false}));
    assert_eq!((silent.context_length, silent.kv_type), (None, None));
    let started = server(json!({"is_started_here": true}));
    assert_eq!((started.context_length, started.kv_type.as_deref()), (Some(2_048), Some("f16")));
}

#[test]
fn models_of_joined_servers_are_told_apart_by_the_name_that_the_server_has_for_them() {
    let joined = |model_name: &str| {
        let metadata = json!({"run_id": model_name, "model_id": "openai", "state": "complete", "engine": "openai",
            "server": {"model_name": model_name}});
        source(metadata, true)
    };
    let comparison = compare(&[joined("a"), joined("b")]).unwrap();
    let models: Vec<&str> = comparison.groups.iter().map(|group| group.key.model_id.as_str()).collect();
    assert_eq!(models, ["a", "b"]);
}

#[test]
fn runs_without_figures_are_refused_if_named_and_left_out_of_folders() {
    let unfinished = |is_named| source(json!({"run_id": "u", "model_id": "tiny", "state": "unfinished"}), is_named);
    let error = compare(&[unfinished(true)]).unwrap_err();
    assert!(matches!(&error, ReportError::NotComparable { state, .. } if state == "unfinished"), "{error}");
    let error = compare(&[unfinished(false)]).unwrap_err();
    assert!(error.to_string().contains("1 run excluded: 1 unfinished"), "{error}");
    assert!(matches!(compare(&[]).unwrap_err(), ReportError::NothingToCompare { found_runs: 0, .. }));
    let found = compare(&[unfinished(false), run("a", "ollama", 256, 1.0)]).unwrap();
    assert_eq!((found.groups.len(), found.excluded.len()), (1, 1));
    let partial = source(json!({"run_id": "p", "model_id": "tiny", "state": "partial"}), true);
    assert!(compare(&[partial]).unwrap().warnings[0].contains("run p is in, though it is partial"));
}

#[test]
fn setups_are_told_apart_only_where_the_rest_is_equal() {
    let with_threads = |run_id: &str, threads: u32| {
        source(
            json!({"run_id": run_id, "model_id": "tiny", "state": "complete", "engine": "llama_cpp",
            "options": {"context_length": 256, "threads": threads}}),
            true,
        )
    };
    let found = compare(&[with_threads("a", 1), with_threads("b", 2)]).unwrap();
    let setups: Vec<String> = found.groups.iter().map(|group| found.setup_of(group)).collect();
    assert_eq!(setups, ["threads 1", "threads 2"]);
    // What tells two of them apart is said of the third too, which another context length tells apart.
    let mut third = with_threads("c", 4);
    third.facts.metadata.options.insert("context_length".to_owned(), json!(512));
    let found = compare(&[with_threads("a", 1), with_threads("b", 2), third]).unwrap();
    let setups: Vec<String> = found.groups.iter().map(|group| found.setup_of(group)).collect();
    assert_eq!(setups, ["threads 1", "threads 2", "threads 4"]);
    assert!(study().groups.iter().all(|group| study().setup_of(group).is_empty()));
}

#[test]
fn figures_show_the_numbers_and_are_the_same_bytes_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut table = TableWriter::create_with(dir.path(), Table::Tokens, Default::default()).unwrap();
    table.write(&tokens::batch(&token_rows())).unwrap();
    table.finish().unwrap();
    let mut runs = vec![run("a", "llama_cpp", 1_024, 10.0), run("d", "llama_cpp", 4_096, 9.0)];
    runs[0].facts.path = dir.path().to_owned();
    let found = compare(&runs).unwrap();
    let figures = comparison_figures(&found).unwrap();
    let names: Vec<&str> = figures.iter().map(|figure| figure.name()).collect();
    assert_eq!(names, ["compare", "curve", "growth", "speed"]);
    let [memory, curve, growth, speed] = [0, 1, 2, 3].map(|place| (figures[place].svg(), figures[place].csv()));
    let total = found.groups[0].figures["steady_bytes"].median;
    assert!(memory.1.contains(&format!("context 1024,PSS,total,1,{total},{total},{total}\n")), "{}", memory.1);
    assert!(curve.0.contains(">f16 · 24.0 KiB/position<"), "{}", curve.0);
    assert!(curve.0.contains(">Steady memory, own without compute buffers (MiB)<"), "{}", curve.0);
    let theory = curve.1.lines().find(|line| line.contains(",theory,4096,")).unwrap();
    assert!(theory.ends_with(&format!(",{}", 50 * MIB + PER_TOKEN * 4_096)), "{theory}");
    assert!(growth.0.contains(">context 1024<") && growth.1.contains("\ncontext 1024,PSS,1,"), "{}", growth.1);
    assert!(!growth.1.contains("context 4096"), "a run without tokens has no line");
    assert!(speed.1.contains("context 4096,decode_tokens_per_s,1,9,9,9\n"), "{}", speed.1);
    assert_eq!(figures, comparison_figures(&found).unwrap());
}

/// The curve of a comparison as SVG and CSV.
fn curve_of(runs: &[CompareSource]) -> Option<(String, String)> {
    let figures = comparison_figures(&compare(runs).unwrap()).unwrap();
    figures.iter().find(|figure| figure.name() == "curve").map(|figure| (figure.svg(), figure.csv()))
}

#[test]
fn a_curve_has_one_kind_of_memory_and_no_line_beyond_its_runs() {
    let without_own = |run_id: &str, length: u64| {
        let mut source = run(run_id, "vllm", length, 8.0);
        let memory = source.facts.metadata.memory.as_mut().unwrap();
        memory.steady_own_bytes = None;
        memory.steady.iter_mut().chain(&mut memory.peak).for_each(|split| split.total_kind = MemoryKind::Rss);
        source
    };
    let mut runs = vec![run("a", "llama_cpp", 1_024, 10.0), run("b", "llama_cpp", 2_048, 10.0)];
    runs.extend([1_024, 4_096].map(|length| without_own(&length.to_string(), length)));
    let found = compare(&runs).unwrap();
    let kinds: Vec<MemoryKind> = found.context_lines.iter().map(|line| line.memory).collect();
    assert_eq!(kinds, [MemoryKind::Own, MemoryKind::Rss], "each line is printed on its best basis");
    let (svg, csv) = curve_of(&runs).unwrap();
    assert!(svg.contains(">Steady memory, RSS without compute buffers (MiB)<"), "{svg}");
    assert!(csv.lines().skip(1).all(|line| line.contains(",RSS without compute buffers,")), "{csv}");
    let end = |engine: &str, series: &str| {
        let is_of = |line: &&str| line.starts_with(engine) && line.contains(&format!(",{series},"));
        csv.lines().rfind(is_of).unwrap().split(',').nth(5).unwrap().to_owned()
    };
    assert_eq!([end("llama_cpp", "fit"), end("llama_cpp", "theory"), end("vllm", "fit")], ["2048", "2048", "4096"]);
    for own in &mut runs[..2] {
        let memory = own.facts.metadata.memory.as_mut().unwrap();
        (memory.steady, memory.rss.steady_bytes) = (None, None);
    }
    assert!(curve_of(&runs).is_none(), "own memory and RSS have no axis in common");
    assert!(curve_of(&runs[..2]).unwrap().0.contains(">Steady memory, own (MiB)<"), "one basis alone is drawn");
}

#[test]
fn runs_of_an_experiment_are_chosen_and_reasons_are_taken_in() {
    let of = |run_id: &str, name: &str, kind: &str| {
        let mut metadata = serde_json::to_value(run(run_id, "llama_cpp", 1_024, 8.0).facts.metadata).unwrap();
        metadata["experiment"] = json!({"id": format!("id-{name}"), "name": name, "run_kind": kind});
        source(metadata, false)
    };
    let runs = [of("a", "sweep", "repetition"), of("b", "other", "repetition"), of("c", "sweep", "warmup")];
    let ids = |experiment: Option<&str>, include: &[ExclusionReason]| {
        let options = CompareOptions { experiment: experiment.map(str::to_owned), include: include.to_vec() };
        compare_chosen(&runs, &options).map(|found| found.groups[0].run_ids.join(" "))
    };
    assert_eq!(ids(None, &[]).unwrap(), "a b");
    assert_eq!(ids(Some("sweep"), &[]).unwrap(), "a");
    assert_eq!(ids(Some("id-other"), &[]).unwrap(), "b");
    assert_eq!(ids(Some("sweep"), &[ExclusionReason::Warmup]).unwrap(), "a c");
    assert!(matches!(ids(Some("none"), &[]), Err(ReportError::UnknownExperiment { .. })));
}
