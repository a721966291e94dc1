//! What the page reports.

use dwell_browser::PageClock;
use dwell_events::page_sample::PageSample;
use dwell_events::server::{BufferKind, ReportedBuffer, RequestTimings};
use serde::{Deserialize, Deserializer};

/// Something that the page reports.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Report {
    /// Loading has come so far.
    Loading { fraction: f32 },
    /// The model is loaded.
    Loaded(Box<Loaded>),
    /// The size of the prompt is known.
    Prompt {
        #[serde(default)]
        ids: Vec<i32>,
        cached_tokens: Option<u64>,
    },
    /// A token was chosen.
    Token(Token),
    /// What the page knows of its memory.
    Sample(Box<Sample>),
    /// The job is done.
    Done(Done),
    /// It could not be done.
    Error(Failure),
    /// What a later page may report.
    #[serde(other)]
    Unknown,
}

impl Report {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("{error}, in {:.200}", text))
    }
}

/// Reads what a page reports, as fuzzing does.
pub fn check_page_report(text: &str) -> Result<(), String> {
    let clock = PageClock::default();
    match Report::parse(text)? {
        Report::Loaded(loaded) => drop((loaded.buffers(loaded.uses_webgpu()), loaded.kv.held_bytes())),
        Report::Sample(sample) => drop(sample.of_page(&clock, None, None)),
        Report::Done(done) => drop(done.timings(None)),
        Report::Token(token) => drop((token.text, clock.monotonic_ns(token.t_ms))),
        Report::Loading { .. } | Report::Prompt { .. } | Report::Error(_) | Report::Unknown => {}
    }
    Ok(())
}

#[derive(Debug, Deserialize)]
pub(super) struct Token {
    /// Milliseconds since 1970, by the page's clock.
    pub(super) t_ms: f64,
    #[serde(default)]
    pub(super) text: String,
    pub(super) id: Option<i32>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Failure {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

/// What was loaded.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Loaded {
    pub(super) model: Model,
    pub(super) kv: Kv,
    buffers: Vec<Buffer>,
    pub(super) runtime_version: String,
    pub(super) device: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Model {
    /// In the runtime's own words, such as `llama 256M Q4_1`.
    pub(super) description: Option<String>,
    pub(super) architecture: Option<String>,
    pub(super) layers: Option<u32>,
    #[serde(deserialize_with = "whole")]
    pub(super) parameters: Option<u64>,
    pub(super) vocabulary: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Kv {
    #[serde(deserialize_with = "whole")]
    pub(super) cells: Option<u64>,
    #[serde(deserialize_with = "whole")]
    bytes: Option<u64>,
    #[serde(deserialize_with = "whole")]
    pub(super) bytes_per_token: Option<u64>,
    pub(super) type_k: Option<String>,
    pub(super) type_v: Option<String>,
    pub(super) preallocated: bool,
    pub(super) basis: String,
}

impl Kv {
    /// What a cache takes from the beginning to the end, if it is made when the model is loaded.
    pub(super) fn held_bytes(&self) -> Option<u64> {
        self.bytes.filter(|_| self.preallocated)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Buffer {
    kind: String,
    #[serde(deserialize_with = "whole")]
    bytes: Option<u64>,
    r#where: String,
}

impl Loaded {
    /// Whether any of it lies in WebGPU buffers.
    pub(super) fn uses_webgpu(&self) -> bool {
        self.device.starts_with("webgpu") || self.buffers.iter().any(|buffer| buffer.r#where == "webgpu")
    }

    /// The buffers in the words of all runtimes. What WebGPU computes on the processor lies in memory of its processes.
    pub(super) fn buffers(&self, is_gpu_software: bool) -> Vec<ReportedBuffer> {
        let reported = |buffer: &Buffer| {
            let kind = match buffer.kind.as_str() {
                "weight" => BufferKind::Weights,
                "kv_cache" => BufferKind::KvCache,
                "compute" => BufferKind::Compute,
                _ => BufferKind::Other,
            };
            let device = match (buffer.r#where.as_str(), is_gpu_software) {
                ("webgpu", true) => "WebGPU on the CPU",
                ("webgpu", false) => "WebGPU",
                ("js", _) => "JavaScript on the CPU",
                _ => "WebAssembly on the CPU",
            };
            let bytes = buffer.bytes.filter(|bytes| *bytes > 0)?;
            Some(ReportedBuffer { kind, device: device.to_owned(), bytes, is_mapped: false })
        };
        self.buffers.iter().filter_map(reported).collect()
    }
}

/// Memory at one moment.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Sample {
    t_ms: f64,
    #[serde(deserialize_with = "whole")]
    heap_used_bytes: Option<u64>,
    #[serde(deserialize_with = "whole")]
    heap_total_bytes: Option<u64>,
    #[serde(deserialize_with = "whole")]
    wasm_bytes: Option<u64>,
    #[serde(deserialize_with = "whole")]
    ua_memory_bytes: Option<u64>,
    #[serde(deserialize_with = "whole")]
    gpu_bytes: Option<u64>,
    gpu: GpuBytes,
    #[serde(deserialize_with = "whole")]
    kv_bytes: Option<u64>,
    #[serde(deserialize_with = "whole")]
    storage_bytes: Option<u64>,
    #[serde(deserialize_with = "whole")]
    tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GpuBytes {
    #[serde(deserialize_with = "whole")]
    weight: Option<u64>,
    #[serde(deserialize_with = "whole")]
    kv_cache: Option<u64>,
    #[serde(deserialize_with = "whole")]
    other: Option<u64>,
}

impl Sample {
    /// The sample on the clock of this machine. A cache that was made when the model was loaded takes `held_bytes`.
    pub(super) fn of_page(&self, clock: &PageClock, pid: Option<u32>, held_bytes: Option<u64>) -> PageSample {
        PageSample {
            time_ns: clock.monotonic_ns(self.t_ms),
            pid,
            heap_used_bytes: self.heap_used_bytes,
            heap_total_bytes: self.heap_total_bytes,
            wasm_bytes: self.wasm_bytes.unwrap_or(0),
            ua_memory_bytes: self.ua_memory_bytes,
            gpu_bytes: self.gpu_bytes.unwrap_or(0),
            gpu_weight_bytes: self.gpu.weight.unwrap_or(0),
            gpu_kv_cache_bytes: self.gpu.kv_cache.unwrap_or(0),
            gpu_other_bytes: self.gpu.other.unwrap_or(0),
            kv_bytes: self.kv_bytes.or(held_bytes),
            storage_bytes: self.storage_bytes,
            tokens: self.tokens.unwrap_or(0),
        }
    }
}

/// How a request ended.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Done {
    usage: Usage,
    timings: Timings,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Usage {
    #[serde(deserialize_with = "whole")]
    prompt_tokens: Option<u64>,
    #[serde(deserialize_with = "whole")]
    completion_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Timings {
    prompt_ms: Option<f64>,
    predicted_ms: Option<f64>,
}

impl Done {
    pub(super) fn timings(&self, cached_tokens: Option<u64>) -> RequestTimings {
        let nanoseconds = |ms: Option<f64>| ms.map(|ms| (ms * 1e6) as u64);
        RequestTimings {
            prompt_tokens: self.usage.prompt_tokens,
            cached_tokens,
            generated_tokens: self.usage.completion_tokens,
            prompt_ns: nanoseconds(self.timings.prompt_ms),
            decode_ns: nanoseconds(self.timings.predicted_ms),
            ..RequestTimings::default()
        }
    }
}

/// JavaScript has one kind of numbers.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.map(|number| number as u64))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_javascript_are_whole_whatever_they_are() {
        let text = r#"{"type":"sample","t_ms":1.5,"wasm_bytes":231997440.0,"gpu_bytes":-3,"gpu":{"kv_cache":1e300},"tokens":2.9}"#;
        let Report::Sample(sample) = Report::parse(text).unwrap() else { panic!("no sample") };
        assert_eq!((sample.wasm_bytes, sample.gpu_bytes, sample.tokens), (Some(231_997_440), Some(0), Some(2)));
        assert_eq!((sample.gpu.kv_cache, sample.heap_used_bytes), (Some(u64::MAX), None));
    }

    #[test]
    fn what_is_no_report_is_an_error_and_what_is_new_is_not() {
        assert!(matches!(Report::parse(r#"{"type":"news","t_ms":1}"#), Ok(Report::Unknown)));
        for text in ["", "7", "{}", r#"{"type":"token"}"#, r#"{"type":"error"}"#] {
            assert!(Report::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn buffers_are_where_they_take_memory() {
        let text = r#"{"type":"loaded","t_ms":1,"model":{},"kv":{"preallocated":true,"basis":"log"},"device":"webgpu",
            "runtime_version":"1","buffers":[{"name":"a","kind":"kv_cache","bytes":10,"where":"webgpu"},
            {"name":"b","kind":"weight","bytes":0,"where":"wasm"},{"name":"c","kind":"code","bytes":5,"where":"wasm"}]}"#;
        let Report::Loaded(loaded) = Report::parse(text).unwrap() else { panic!("nothing loaded") };
        let devices = |is_software: bool| -> Vec<(BufferKind, String)> {
            loaded.buffers(is_software).into_iter().map(|buffer| (buffer.kind, buffer.device)).collect()
        };
        let wasm = (BufferKind::Other, "WebAssembly on the CPU".to_owned());
        assert_eq!(devices(false), [(BufferKind::KvCache, "WebGPU".to_owned()), wasm.clone()]);
        assert_eq!(devices(true), [(BufferKind::KvCache, "WebGPU on the CPU".to_owned()), wasm]);
        assert!(loaded.uses_webgpu());
    }
}
