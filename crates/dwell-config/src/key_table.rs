//! Every key of an experiment file: the one place that checks, defaults, schema and documentation come from.

use dwell_events::engine::{EngineKind, KvType, TimeResolution};
use dwell_events::server::{Api, PageDevice, StartKind};
use dwell_events::{CollectorName, Compression, Definitions, Metric, UnknownPolicy};

use crate::keys::{DefaultValue, Key, Kind, ListRule};
use crate::values::{Dtype, Figures, QUANTISATION_NAMES};

/// llama.cpp pads the context length to 256 in 32 bits and counts positions in 31.
const MOST_CONTEXT: u64 = 1 << 30;

/// Sequences whose shares in a KV block are followed.
const MOST_SEQUENCES: u64 = 64;

/// ggml's limit.
const MOST_THREADS: u64 = 512;

/// The kernel's limit.
const MOST_PID: u64 = 1 << 22;

/// A day: a server that takes longer to be ready never is.
const MOST_READY_S: u64 = 24 * 3600;

/// No model comes near: larger numbers are of something else.
const MOST_KV_BYTES_PER_TOKEN: u64 = 1 << 30;

/// A week: longer intervals are mistakes.
const MOST_INTERVAL_MS: u64 = 7 * 24 * 3600 * 1000;

/// Every key, in the order of the documentation.
pub fn keys() -> &'static [Key] {
    KEYS
}

pub(crate) const fn key(path: &'static str, kind: Kind, default: DefaultValue, effect: &'static str) -> Key {
    Key { path, kind, default, effect }
}

/// A list of distinct values that are swept.
const fn swept(kind: &'static Kind) -> Kind {
    Kind::List(kind, ListRule::DistinctNotEmpty)
}

const LEAST_TO_MOST_SECS: Kind = Kind::Number(0.0, 1e9);
const TOKENS_PER_SEC: Kind = Kind::Number(1e-3, 1e6);
const SHARE: Kind = Kind::Number(0.0, 1.0);
const NOT_STATED: DefaultValue = DefaultValue::Absent("not stated");
const NOT_CHECKED: DefaultValue = DefaultValue::Absent("not checked");

const KEYS: &[Key] = &[
    key(
        "experiment.name",
        Kind::PlainName,
        DefaultValue::Required,
        "names the experiment: its folder, its rows in manifest.csv",
    ),
    key("experiment.description", Kind::Text, DefaultValue::Text(""), "goes into metadata.json and the dataset card"),
    key(
        "experiment.version",
        Kind::FilledText,
        DefaultValue::Text("1.0.0"),
        "goes into metadata.json and the published dataset",
    ),
    key(
        "experiment.authors",
        Kind::List(&Kind::FilledText, ListRule::Distinct),
        DefaultValue::Texts(&[]),
        "are the creators of the published dataset",
    ),
    key("experiment.institution", Kind::Text, DefaultValue::Text(""), "is the affiliation of the creators"),
    key(
        "experiment.paper_ref",
        Kind::Text,
        DefaultValue::Text(""),
        "is cited by the published dataset; a DOI or an address becomes a link",
    ),
    key(
        "experiment.licence",
        Kind::FilledText,
        NOT_STATED,
        "is the licence of the published dataset, such as CC-BY-4.0; without one it is asked for at export",
    ),
    key(
        "models[].id",
        Kind::PlainName,
        DefaultValue::Required,
        "names the model and the folder of its runs; unique, not `experiments`",
    ),
    key("models[].engine", Kind::Choice(EngineKind::PROMPTED), DefaultValue::Text("llama_cpp"), "runs the model"),
    key(
        "models[].path",
        Kind::FilledText,
        DefaultValue::Absent("`name` is given, or the server has the model"),
        "is the GGUF file, relative to the experiment file",
    ),
    key(
        "models[].name",
        Kind::FilledText,
        DefaultValue::Absent("`path` is given, or the server has the model"),
        "is a model that `dwell model pull` knows; it is fetched if it is not there",
    ),
    key("models[].family", Kind::FilledText, NOT_CHECKED, "must be the architecture that the file names"),
    key("models[].params", Kind::Count, NOT_CHECKED, "must be the number of parameters of the file, within 5 %"),
    key(
        "models[].quantisation",
        Kind::Choice(QUANTISATION_NAMES),
        NOT_CHECKED,
        "must be the type that most matrices of the file have",
    ),
    key(
        "models[].dtype",
        Kind::Choice(Dtype::NAMES),
        NOT_CHECKED,
        "the same for a model that is not quantised; not together with `quantisation`",
    ),
    key(
        "models[].server.url",
        Kind::FilledText,
        DefaultValue::Absent("one is started"),
        "is the address of a server that runs already, such as `http://127.0.0.1:8080`",
    ),
    key(
        "models[].server.program",
        Kind::FilledText,
        DefaultValue::Absent("the engine's usual ones are looked for"),
        "is the program to start: a path relative to the experiment file, or a name without `/` that is looked for in PATH",
    ),
    key(
        "models[].server.arguments",
        Kind::List(&Kind::Text, ListRule::Any),
        DefaultValue::Texts(&[]),
        "are given to the program after those that dwell gives",
    ),
    key(
        "models[].server.device",
        Kind::Choice(PageDevice::NAMES),
        DefaultValue::Absent("`webgpu` for webllm, else `wasm`"),
        "is what computes in a page of a browser",
    ),
    key(
        "models[].server.pid",
        Kind::Integer(1, MOST_PID),
        DefaultValue::Absent("found by the port of `url`"),
        "is the process of the server at `url`",
    ),
    key(
        "models[].server.model_name",
        Kind::FilledText,
        DefaultValue::Absent("the only one, or the file"),
        "is the model's name on the server",
    ),
    key(
        "models[].server.api",
        Kind::Choice(Api::NAMES),
        DefaultValue::Absent("the text in the template of the model's file, as the embedded engine computes it"),
        "is how the server is asked: for the continuation of the text as it is, or for an answer in its own template of the model",
    ),
    key(
        "models[].server.api_key_variable",
        Kind::FilledText,
        DefaultValue::Absent("no key is sent"),
        "is the environment variable that holds the key of the API; the key is recorded nowhere",
    ),
    key(
        "models[].server.ready_within_s",
        Kind::Integer(1, MOST_READY_S),
        DefaultValue::Absent("300"),
        "is how long a started server may take to be ready",
    ),
    key(
        "models[].server.kv_bytes_per_token",
        Kind::Integer(1, MOST_KV_BYTES_PER_TOKEN),
        DefaultValue::Absent("by the file, or by what the server says"),
        "is what one token takes of the KV cache, in theory",
    ),
    key(
        "models[].server.kv_events.endpoint",
        Kind::FilledText,
        DefaultValue::Absent("no KV events"),
        "is the ZeroMQ address at which the server publishes its KV events, such as `tcp://127.0.0.1:5557`",
    ),
    key(
        "models[].server.kv_events.replay_endpoint",
        Kind::FilledText,
        DefaultValue::Absent("gaps stay"),
        "is the ZeroMQ address that sends lost batches again",
    ),
    key(
        "models[].server.kv_events.topic",
        Kind::Text,
        DefaultValue::Text(""),
        "is the topic listened to; empty takes all",
    ),
    key(
        "models[].server.kv_events.keeps_token_ids",
        Kind::Bool,
        DefaultValue::Bool(false),
        "says whether token ids are kept rather than hashed with a salt",
    ),
    key(
        "sweep.context_lengths",
        swept(&Kind::Integer(1, MOST_CONTEXT)),
        DefaultValue::Integers(&[2048]),
        "are the sizes of the KV cache in tokens, over all sequences",
    ),
    key(
        "sweep.batch_sizes",
        swept(&Kind::Integer(1, MOST_SEQUENCES)),
        DefaultValue::Integers(&[1]),
        "are the numbers of sequences that are generated side by side",
    ),
    key(
        "sweep.output_tokens",
        swept(&Kind::Integer(1, MOST_CONTEXT)),
        DefaultValue::Integers(&[128]),
        "are the tokens generated after each prompt, per sequence",
    ),
    key(
        "sweep.kv_cache_types",
        swept(&Kind::Choice(KvType::NAMES)),
        DefaultValue::Texts(&["f16"]),
        "are the types of keys and values; `q8_0` and `q4_0` need flash attention",
    ),
    key(
        "sweep.flash_attention",
        swept(&Kind::Bool),
        DefaultValue::Bools(&[true]),
        "says whether attention is computed as one fused operation",
    ),
    key(
        "sweep.threads",
        swept(&Kind::Integer(1, MOST_THREADS)),
        DefaultValue::Absent("one per processor"),
        "are the numbers of threads that compute",
    ),
    key(
        "sweep.starts",
        swept(&Kind::Choice(StartKind::NAMES)),
        DefaultValue::Texts(&["as_found"]),
        "are the states in which a run begins: as it is found, model not loaded and its file not in memory, or loaded and asked once before",
    ),
    key(
        "sweep.repetitions",
        Kind::Integer(1, crate::MOST_RUNS),
        DefaultValue::Integer(1),
        "is how often each combination is run and counted",
    ),
    key(
        "sweep.warmup_runs",
        Kind::Integer(0, crate::MOST_RUNS),
        DefaultValue::Integer(0),
        "is how often each combination is run before that; these runs are marked and left out of aggregates",
    ),
    key(
        "prompts.source",
        Kind::FilledText,
        DefaultValue::Text("builtin"),
        "is `builtin`, or a prompt file relative to the experiment file",
    ),
    key(
        "prompts.categories",
        Kind::List(&Kind::FilledText, ListRule::Distinct),
        DefaultValue::Texts(&[]),
        "are the categories of prompts that are used; none means all",
    ),
    key(
        "collectors.use",
        Kind::List(&Kind::Choice(CollectorName::NAMES), ListRule::DistinctNotEmpty),
        // Not `CollectorName::BY_DEFAULT`: a default is part of an experiment's digest, so a new collector would keep
        // unfinished experiments from being resumed.
        DefaultValue::Texts(&["tensor_ops", "process"]),
        "are the collectors, all of which are used",
    ),
    key(
        "collectors.fallback",
        Kind::List(&Kind::Choice(CollectorName::NAMES), ListRule::Distinct),
        DefaultValue::Texts(&["process"]),
        "may take the place of a collector that does not work on this machine, in this order; with none the experiment refuses to run then",
    ),
    key(
        "collectors.tensor_ops.time_resolution",
        Kind::Choice(TimeResolution::NAMES),
        DefaultValue::Text("op"),
        "is how finely accesses are timed",
    ),
    key(
        "collectors.process.sample_interval_ms",
        Kind::Integer(1, MOST_INTERVAL_MS),
        DefaultValue::Integer(100),
        "is the time between two samples of the processes",
    ),
    key(
        "telemetry.baseline_secs",
        Kind::Number(0.1, 600.0),
        DefaultValue::Number(2.0),
        "is how long the idle machine is watched before each run",
    ),
    key(
        "telemetry.sensor_interval_ms",
        Kind::Integer(10, MOST_INTERVAL_MS),
        DefaultValue::Integer(500),
        "is the time between two readings of temperature, frequency and throttling",
    ),
    key(
        "telemetry.invalidate_on_throttle",
        Kind::Bool,
        DefaultValue::Bool(true),
        "says whether throttling lowers the validity of a run",
    ),
    key(
        "telemetry.measure_slowdown",
        Kind::Bool,
        DefaultValue::Bool(false),
        "adds one run per combination that is not recorded, and compares",
    ),
    key(
        "labeller.rules_file",
        Kind::FilledText,
        DefaultValue::Absent("the rules that dwell has"),
        "is a file of labeller rules, relative to the experiment file",
    ),
    key(
        "labeller.unknown_policy",
        Kind::Choice(UnknownPolicy::NAMES),
        DefaultValue::Text("keep"),
        "is what becomes of accesses to no known region: they stay, are left out and counted, or fail the run",
    ),
    key(
        "analyser.metrics",
        Kind::List(&Kind::Choice(Metric::NAMES), ListRule::DistinctNotEmpty),
        DefaultValue::Texts(Metric::STANDARD_NAMES),
        "are the metrics that are computed",
    ),
    key(
        "analyser.definitions",
        Kind::Choice(Definitions::NAMES),
        DefaultValue::Text("dwell"),
        "is whose definitions the metrics follow",
    ),
    key(
        "analyser.thresholds.high_write_once",
        SHARE,
        DefaultValue::Number(0.8),
        "is the share of stored data that has to stay for `high_retention_s` to be `high_mrm`",
    ),
    key(
        "analyser.thresholds.high_retention_s",
        LEAST_TO_MOST_SECS,
        DefaultValue::Number(10.0),
        "is the retention p99 from which data is `high_mrm`",
    ),
    key(
        "analyser.thresholds.medium_write_once",
        SHARE,
        DefaultValue::Number(0.5),
        "is the share of stored data that has to stay for `medium_retention_s` to be `medium_mrm`",
    ),
    key(
        "analyser.thresholds.medium_retention_s",
        LEAST_TO_MOST_SECS,
        DefaultValue::Number(1.0),
        "is the retention p50 from which data is `medium_mrm`",
    ),
    key(
        "analyser.thresholds.at_tokens_per_sec",
        TOKENS_PER_SEC,
        DefaultValue::Number(20.0),
        "is the speed of one sequence that suitability holds at: it turns steps into seconds",
    ),
    key("analyser.bins", Kind::Integer(2, 1000), DefaultValue::Integer(60), "is the number of bins of the histograms"),
    key(
        "output.base_dir",
        Kind::FilledText,
        DefaultValue::Text("results"),
        "is the folder of the results, relative to the working directory",
    ),
    key(
        "output.compression",
        Kind::Choice(Compression::NAMES),
        DefaultValue::Text("zstd"),
        "is how the tables are compressed",
    ),
    key("output.figures", Kind::Choice(Figures::NAMES), DefaultValue::Text("svg"), "says whether figures are drawn"),
];
