//! What is wrong with a file is told with its place, its key, what was found, what was needed, and what was meant.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{LEAST, experiment, problem, refused};
use dwell_config::Figures;
use dwell_events::CollectorName;
use dwell_events::Hint;
use dwell_events::server::PageDevice;
use dwell_events::{Compression, Definitions, Metric, UnknownPolicy};

/// A text after the least one.
fn with(text: &str) -> String {
    format!("{LEAST}{text}")
}

#[test]
fn defaults_are_those_of_the_documentation() {
    let all = experiment(LEAST);
    assert_eq!(all.sweep.context_lengths, [2048]);
    assert_eq!((all.sweep.threads, all.sweep.repetitions, all.sweep.warmup_runs), (None, 1, 0));
    assert_eq!((all.experiment.version.as_str(), all.experiment.licence), ("1.0.0", None));
    assert_eq!(all.collectors.used, [CollectorName::TENSOR_OPS, CollectorName::PROCESS]);
    assert_eq!(all.collectors.fallback, [CollectorName::PROCESS]);
    assert_eq!(all.collectors.process.sample_interval_ms, 100);
    assert_eq!(all.telemetry.baseline_secs, 2.0);
    assert_eq!(all.labeller.unknown_policy, UnknownPolicy::Keep);
    assert_eq!(all.analyser.metrics, Metric::STANDARD);
    assert_eq!(all.analyser.definitions, Definitions::Dwell);
    assert_eq!((all.output.compression, all.output.figures), (Compression::Zstd, Figures::Svg));
}

#[test]
fn a_line_says_all() {
    let text = with("sweep:\n  kv_cache_types: [f16, q8_O]\n");
    assert_eq!(
        refused(&text).to_string(),
        "checking the file found 1 problem, needed none:\n\
         x.yaml:4:25: sweep.kv_cache_types[1]: found the text \"q8_O\", needed one of `f16`, `q8_0`, `q4_0`; \
         did you mean `q8_0`?"
    );
}

#[test]
fn all_problems_are_told_at_once_in_the_order_of_the_file() {
    let text = "\
experiment: {name: a b, versoin: 2}
models:
  - {id: m, path: a.gguf, name: smollm2}
  - {id: m, path: b.gguf, dtype: f16, quantisation: q4_0}
sweep: {context_lengths: 256, batch_sizes: [0], repetitions: -1}
telemetry: {baseline_secs: .nan}
output: [results]
";
    let problems = refused(text).problems;
    let told: Vec<(u64, &str)> = problems.iter().map(|problem| (problem.line, problem.key.as_str())).collect();
    let wanted = [
        (1, "experiment.name"),
        (1, "experiment.versoin"),
        (3, "models[0]"),
        (4, "models[1].id"),
        (4, "models[1].dtype"),
        (5, "sweep.context_lengths"),
        (5, "sweep.batch_sizes[0]"),
        (5, "sweep.repetitions"),
        (6, "telemetry.baseline_secs"),
        (7, "output"),
    ];
    assert_eq!(told, wanted, "{problems:#?}");
    assert_eq!(problems[1].nearest.as_deref(), Some("version"));
}

#[test]
fn an_unknown_key_names_the_nearest_or_where_it_belongs() {
    for (text, key, nearest) in [
        ("sweeps: {repetitions: 2}", "sweeps", Some("sweep")),
        ("sweep: {contexts: [1]}", "sweep.contexts", Some("context_lengths")),
        ("sweep: {Context_Lengths: [512]}", "sweep.Context_Lengths", Some("context_lengths")),
        ("kv_cache_types: [f16]", "kv_cache_types", Some("sweep.kv_cache_types")),
        (
            "collectors: {tensor_ops: {sample_interval_ms: 5}}",
            "collectors.tensor_ops.sample_interval_ms",
            Some("collectors.process.sample_interval_ms"),
        ),
        ("zzz: 1", "zzz", None),
        ("collector: {use: [process]}", "collector", Some("collectors")),
        ("collector: {fallback: [process]}", "collector", Some("collectors")),
    ] {
        let problem = problem(&with(text));
        assert_eq!((problem.key.as_str(), problem.line, problem.column), (key, 3, column(text, key)), "{problem}");
        assert_eq!(problem.nearest.as_deref(), nearest, "{problem}");
        assert_eq!(problem.found, "an unknown key");
    }
}

/// Column at which the last part of a key stands in a line.
fn column(line: &str, key: &str) -> u64 {
    let name = key.rsplit('.').next().unwrap();
    1 + line.find(name).unwrap() as u64
}

#[test]
fn impossible_values_are_told_with_what_is_possible() {
    for (text, key, needed) in [
        ("sweep: {context_lengths: []}", "sweep.context_lengths", "at least one value"),
        ("sweep: {context_lengths: [0]}", "sweep.context_lengths[0]", "whole number, 1 to 1073741824"),
        ("sweep: {context_lengths: [1.5]}", "sweep.context_lengths[0]", "whole number, 1 to 1073741824"),
        ("sweep: {batch_sizes: [65]}", "sweep.batch_sizes[0]", "whole number, 1 to 64"),
        ("sweep: {batch_sizes: [1, 2, 1]}", "sweep.batch_sizes[2]", "distinct values"),
        ("sweep: {threads: [513]}", "sweep.threads[0]", "whole number, 1 to 512"),
        ("sweep: {output_tokens: [99999999999999999999]}", "sweep.output_tokens[0]", "whole number, 1 to 1073741824"),
        ("sweep: {output_tokens: [2048]}", "sweep.output_tokens[0]", "room for a prompt before them"),
        ("sweep: {flash_attention: [on]}", "sweep.flash_attention[0]", "`true` or `false`"),
        (
            "sweep: {context_lengths: [8], batch_sizes: [16], output_tokens: [4]}",
            "sweep.batch_sizes[0]",
            "at least one position per sequence",
        ),
        ("telemetry: {baseline_secs: 0.05}", "telemetry.baseline_secs", "number, 0.1 to 600"),
        ("telemetry: {sensor_interval_ms: 9}", "telemetry.sensor_interval_ms", "whole number, 10 to 604800000"),
        ("analyser: {bins: 1}", "analyser.bins", "whole number, 2 to 1000"),
        ("analyser: {thresholds: {high_write_once: 1.1}}", "analyser.thresholds.high_write_once", "number, 0 to 1"),
        (
            "analyser: {thresholds: {medium_retention_s: 11}}",
            "analyser.thresholds.medium_retention_s",
            "at most that of the class above",
        ),
        (
            "analyser: {thresholds: {high_retention_s: 0.5}}",
            "analyser.thresholds.medium_retention_s",
            "at most that of the class above",
        ),
        ("collectors: {use: []}", "collectors.use", "at least one value"),
        ("labeller: {rules_file: ''}", "labeller.rules_file", "text, not empty"),
        ("output: {base_dir: null}", "output.base_dir", "text, not empty"),
        ("prompts: {categories: [sort]}", "prompts.categories[0]", "one of short, long, follow_up, generation"),
    ] {
        let problem = problem(&with(text));
        assert_eq!((problem.key.as_str(), problem.needed.as_str(), problem.line), (key, needed, 3), "{problem}");
    }
}

#[test]
fn a_quantised_cache_needs_flash_attention() {
    let found = problem(&with("sweep: {kv_cache_types: [f16, q4_0], flash_attention: [true, false]}"));
    assert_eq!(found.key, "sweep.kv_cache_types[1]");
    assert_eq!(found.needed, "flash attention for a quantised cache");
    let possible = experiment(&with("sweep: {kv_cache_types: [f16], flash_attention: [true, false]}"));
    assert_eq!(possible.sweep.flash_attention, [true, false]);
}

#[test]
fn short_contexts_are_rounded_up_by_the_engine_and_so_hold_more_than_they_say() {
    let possible = experiment(&with("sweep: {context_lengths: [100], output_tokens: [128]}"));
    assert_eq!(possible.sweep.output_tokens, [128]);
}

#[test]
fn models_are_told_apart() {
    let model =
        |keys: &str| problem(&format!("experiment: {{name: x}}\nmodels:\n  - {{id: a, path: a.gguf}}\n  - {keys}\n"));
    for (keys, key, found) in [
        ("{id: a, path: b.gguf}", "models[1].id", "the id \"a\" a second time"),
        ("{id: A, path: b.gguf}", "models[1].id", "the id \"A\" a second time"),
        ("{id: experiments, path: b.gguf}", "models[1].id", "\"experiments\""),
        ("{id: ../b, path: b.gguf}", "models[1].id", "the text \"../b\""),
        ("{id: .hidden, path: b.gguf}", "models[1].id", "the text \".hidden\""),
        ("{id: b}", "models[1]", "neither path nor name"),
        ("{id: b, path: b.gguf, name: smollm2}", "models[1]", "both path and name"),
        ("{path: b.gguf}", "models[1].id", "no such key"),
        ("{id: b, path: b.gguf, params: 1.5X}", "models[1].params", "the text \"1.5X\""),
        ("{id: b, path: b.gguf, params: 0}", "models[1].params", "the number 0"),
        ("{id: b, path: b.gguf, quantisation: f16}", "models[1].quantisation", "the text \"f16\""),
        ("b.gguf", "models[1]", "the text \"b.gguf\""),
    ] {
        let problem = model(keys);
        assert_eq!((problem.key.as_str(), problem.found.as_str(), problem.line), (key, found, 4), "{problem}");
    }
}

/// The problem of a file with one model of these keys.
fn model_problem(keys: &str) -> dwell_config::Problem {
    problem(&format!("experiment: {{name: x}}\nmodels:\n  - {{id: a, {keys}}}\n"))
}

#[test]
fn an_engine_and_its_server_must_fit() {
    for (keys, key, found) in [
        ("path: a, server: {url: localhost}", "models[0].server", "a server for llama_cpp, which dwell runs itself"),
        ("path: a, engine: llama_serve", "models[0].engine", "the text \"llama_serve\""),
        ("path: a, engine: ollama, server: {url: x, program: y}", "models[0].server.program", "both url and program"),
        (
            "engine: llama_server, server: {url: x, arguments: [-v]}",
            "models[0].server.arguments",
            "arguments for a server that runs already",
        ),
        (
            "path: a, engine: llama_server, server: {arguments: [--api-key, hush]}",
            "models[0].server.arguments",
            "a key, token or password",
        ),
        ("path: a, engine: ollama, server: {pid: 1}", "models[0].server.pid", "a process without an address"),
        ("engine: llama_server, server: {url: 'ftp://x'}", "models[0].server.url", "the scheme \"ftp\""),
        (
            "path: a, engine: llama_cli, server: {url: x}",
            "models[0].server.url",
            "an address for llama_cli, a program that ends",
        ),
        ("engine: sglang", "models[0].server.url", "no such key"),
        ("engine: vllm", "models[0]", "neither path nor name"),
        ("engine: openai, server: {url: x, program: y}", "models[0].server.program", "a program for openai"),
        ("engine: ollama", "models[0]", "neither path nor name"),
        ("engine: llama_server", "models[0]", "neither path nor name"),
        ("engine: llama_cli", "models[0]", "neither path nor name"),
        ("engine: ollama, path: a, name: b", "models[0]", "both path and name"),
        (
            "path: a, engine: llama_server, server: {device: webgpu}",
            "models[0].server.device",
            "a device of a browser for llama_server",
        ),
        (
            "engine: openai, server: {url: x, kv_events: {endpoint: 'tcp://x'}}",
            "models[0].server.kv_events",
            "KV events of openai",
        ),
        (
            "engine: vllm, server: {url: x, kv_events: {topic: kv}}",
            "models[0].server.kv_events.topic",
            "KV events without an endpoint",
        ),
    ] {
        let problem = model_problem(keys);
        assert_eq!((problem.key.as_str(), problem.found.as_str(), problem.line), (key, found, 3), "{problem}");
    }
    assert_eq!(model_problem("path: a, engine: llama-server").nearest.as_deref(), Some("llama_server"));
    let unknown = model_problem("path: a, engine: ollama, server: {model: tiny}");
    assert_eq!((unknown.found.as_str(), unknown.nearest.as_deref()), ("an unknown key", Some("model_name")));
}

#[test]
fn a_server_may_have_the_model() {
    let model = |keys: &str| {
        let all = experiment(&format!("experiment: {{name: x}}\nmodels: [{{id: a, {keys}}}]\n"));
        all.models[0].clone()
    };
    let joined = model("engine: llama_server, server: {url: localhost, pid: 7}");
    assert_eq!((joined.path, joined.server.options().pid), (None, Some(7)));
    let named = model("engine: ollama, server: {program: ollama, model_name: tiny, api: chat}");
    assert_eq!(named.server.options().model_name.as_deref(), Some("tiny"));
    assert_eq!(named.server.kv_events.options(), None);
    let page = model("engine: transformers_js, server: {model_name: /models/onnx, device: webgpu}");
    assert_eq!(page.server.options().device, Some(PageDevice::WebGpu));
    let folder = model("engine: vllm, server: {model_name: /models/tiny}");
    assert_eq!((folder.path, folder.server.options().model_name.as_deref()), (None, Some("/models/tiny")));
    let vllm = model("engine: vllm, server: {url: x, program: , kv_events: {endpoint: 'tcp://x', topic: kv}}");
    let events = vllm.server.kv_events.options().unwrap();
    assert_eq!((events.endpoint.as_str(), events.topic.as_str(), events.keeps_token_ids), ("tcp://x", "kv", false));
    assert_eq!(vllm.server.options().kv_events, Some(events), "one that dwell starts is told to publish there");
}

#[test]
fn a_server_that_runs_already_does_not_start_cold() {
    let text = |model: &str| {
        format!("experiment: {{name: x}}\nmodels: [{{id: a, {model}}}]\nsweep: {{starts: [warm, cold]}}\n")
    };
    let found = problem(&text("engine: llama_server, server: {url: localhost}"));
    assert_eq!((found.key.as_str(), found.line), ("sweep.starts[1]", 3));
    assert!(found.hint.is_some());
    for possible in ["path: a", "path: a, engine: llama_server", "path: a, engine: ollama, server: {url: localhost}"] {
        assert_eq!(experiment(&text(possible)).sweep.starts.len(), 2);
    }
}

#[test]
fn parameters_are_counted_in_several_ways() {
    for (text, count) in [
        ("135M", 135_000_000),
        ("1.5B", 1_500_000_000),
        ("134515008", 134_515_008),
        ("287k", 287_000),
        ("0.5b", 500_000_000),
    ] {
        let all = experiment(&format!("experiment: {{name: x}}\nmodels: [{{id: a, path: a, params: {text}}}]\n"));
        assert_eq!(all.models[0].params, Some(count));
    }
}

#[test]
fn missing_sections_are_told() {
    let problems = refused("sweep: {repetitions: 1}\n").problems;
    let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["experiment.name", "models"]);
    assert_eq!(problem("experiment: {name: x}\nmodels: []\n").found, "an empty list");
}

#[test]
fn sections_without_keys_are_as_if_they_were_not_there() {
    assert_eq!(experiment(&with("sweep:\nlabeller: {}\n")), experiment(LEAST));
    assert_eq!(experiment(&with("labeller: {rules_file: ~}\nsweep: {threads: }\n")), experiment(LEAST));
}

#[test]
fn what_is_no_yaml_is_told_with_its_line() {
    let problem_at = |text: &str| {
        let problem = problem(text);
        (problem.line, problem.found)
    };
    assert_eq!(problem_at("").1, "an empty file");
    assert_eq!(problem_at("# only a comment\n").1, "an empty file");
    assert!(problem_at("experiment:\n  name: [x\nmodels: 1\n").0 >= 2);
    assert_eq!(problem_at(&with("sweep: {}\n---\nsweep: {}\n")), (5, "a second document".to_owned()));
    assert_eq!(problem_at(&with("\"unclosed")).0, 3);
    assert_eq!(problem_at(&with("a: *nothing\n")).0, 3);
    let tabs = refused(&with("sweep:\n\trepetitions: 2\n"));
    assert_eq!(tabs.problems[0].line, 4);
    assert_eq!(tabs.hints(), ["indent with spaces: YAML does not allow tabs"]);
}

#[test]
fn a_duplicate_key_is_told_together_with_the_rest() {
    let problems = refused(&with("sweep: {repetitions: 1, repetitions: 2}\nzzz: 1\n")).problems;
    let [duplicate, unknown] = &problems[..] else { panic!("{problems:#?}") };
    assert_eq!((duplicate.line, duplicate.needed.as_str()), (3, "each key once"));
    assert_eq!(duplicate.found, "the key `repetitions` a second time");
    assert_eq!(unknown.key, "zzz");
}

#[test]
fn anchors_work_and_bombs_do_not() {
    let text = "experiment: {name: x}\nmodels:\n  - &one {id: a, path: a.gguf}\n  - {<<: *one, id: b}\n";
    let all = experiment(text);
    assert_eq!((all.models[1].id.as_str(), all.models[1].path.as_ref()), ("b", all.models[0].path.as_ref()));
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        bomb += &format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 9].join(", "));
    }
    assert_eq!(refused(&bomb).problems.len(), 1);
}

#[test]
fn hints_say_what_to_write() {
    let hints = |text: &str| refused(&with(text)).hints();
    assert_eq!(
        hints("sweep: {context_lengths: 2048}"),
        ["a list of one is written in brackets, such as `sweep.context_lengths: [value]`"]
    );
    assert_eq!(hints("output: {base_dir: 2026}"), ["put a text that looks like a number or a boolean in quotes"]);
}
