//! What to run, how to watch it, and what to make of it.

use dwell_events::engine::Job;
use dwell_events::host::{Baseline, Host};
use dwell_events::{ClockAnchor, CollectorName};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value, json};

use crate::{BuildOptions, Collectors, ExperimentRun, Fallback, PageCache, Refusal, Substitute, UntracedRun};

/// What to run and how to watch it.
// `remote = "Self"` makes the derived functions inherent, so that reading can first bring old files up to date.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct RunRequest {
    /// Engine and work.
    pub job: Job,
    /// Where the model came from, for the metadata: a file, or a name that was resolved.
    pub model_id: String,
    /// What watches it; the engine's own events are recorded in any case.
    pub collectors: Collectors,
    /// How long the machine is watched before the run begins.
    #[serde(default)]
    pub baseline_ms: u64,
    /// Time between two looks at temperature and frequency.
    #[serde(default)]
    pub sensor_interval_ms: u64,
    /// Command line, for the metadata.
    pub command_line: Vec<String>,
    /// What is made of the records.
    #[serde(default)]
    pub build: BuildOptions,
    /// The experiment that the run belongs to.
    #[serde(default)]
    pub experiment: Option<ExperimentRun>,
    /// Collectors that were wanted and do not work here.
    #[serde(default)]
    pub fallbacks: Vec<Fallback>,
    /// Collectors that were tried and refused so far.
    #[serde(default)]
    pub refusals: Vec<Refusal>,
    /// What may take the place of a collector that cannot begin, in this order.
    #[serde(default)]
    pub substitutes: Vec<Substitute>,
    /// The same work without recording, to tell how much recording slows it down.
    #[serde(default)]
    pub untraced: Option<UntracedRun>,
}

/// What is written before anything starts, so that a killed run can be finished: `raw/run.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    /// What was asked for.
    #[serde(flatten)]
    pub request: RunRequest,
    /// What both clocks said at the start.
    pub clock: ClockAnchor,
    /// The machine.
    pub host: Host,
    /// What the machine did before the run; none if that was not looked at.
    #[serde(default)]
    pub baseline: Option<Baseline>,
    /// How much of the model's file was in the page cache when the run began; none if there is no file to look at.
    #[serde(default)]
    pub page_cache: Option<PageCache>,
    /// Version of dwell.
    pub dwell_version: String,
}

impl Serialize for RunRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The inherent function, which serde derived.
        RunRequest::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for RunRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        gather_collectors(&mut value);
        RunRequest::deserialize(value).map_err(de::Error::custom)
    }
}

/// Version 0.1 had a switch of its own for each of its three collectors.
fn gather_collectors(request: &mut Value) {
    let kv_events = request.pointer_mut("/job/server").and_then(Value::as_object_mut);
    let kv_events = kv_events.and_then(|server| server.remove("kv_events")).filter(|options| !options.is_null());
    let Some(request) = request.as_object_mut() else { return };
    if request.contains_key("collectors") {
        return;
    }
    let mut collectors = Collectors::default();
    if request.remove("is_traced") == Some(Value::Bool(true)) {
        collectors.add(CollectorName::TENSOR_OPS, json!({}));
    }
    if let Some(interval_ms) = request.remove("sample_interval_ms").filter(|interval| !interval.is_null()) {
        collectors.add(CollectorName::PROCESS, json!({ "sample_interval_ms": interval_ms }));
    }
    if let Some(options) = kv_events {
        collectors.add(CollectorName::KV_EVENTS, options);
    }
    request.insert("collectors".to_owned(), json!(collectors));
}

impl RunRecord {
    /// File name in `raw/`.
    pub const FILE_NAME: &str = "run.json";
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    /// A request as version 0.1 wrote it.
    fn old(is_traced: bool, sample_interval_ms: Value, kv_events: Value) -> Value {
        json!({
            "job": {
                "engine": "vllm",
                "server": {"url": "http://127.0.0.1:8000", "kv_events": kv_events},
                "options": dwell_events::engine::EngineOptions::new("model.gguf".into()),
                "actions": [],
            },
            "model_id": "m", "is_traced": is_traced, "sample_interval_ms": sample_interval_ms, "command_line": [],
        })
    }

    fn collectors(request: &RunRequest) -> Value {
        serde_json::to_value(&request.collectors).unwrap()
    }

    #[test]
    fn the_three_switches_of_version_0_1_are_collectors() {
        let events = json!({"endpoint": "tcp://x", "replay_endpoint": null, "topic": "kv", "keeps_token_ids": true});
        let request: RunRequest = serde_json::from_value(old(true, json!(20), events.clone())).unwrap();
        let expected = json!({"tensor_ops": {}, "process": {"sample_interval_ms": 20}, "kv_events": events});
        assert_eq!(collectors(&request), expected);
        let request: RunRequest = serde_json::from_value(old(false, Value::Null, Value::Null)).unwrap();
        assert_eq!(collectors(&request), json!({}));
    }

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let mut request: RunRequest = serde_json::from_value(old(true, json!(100), Value::Null)).unwrap();
        request.collectors.add(CollectorName::KV_EVENTS, json!({"endpoint": "tcp://y"}));
        let request = RunRequest { collectors: request.collectors.without(CollectorName::TENSOR_OPS), ..request };
        let written = serde_json::to_value(&request).unwrap();
        assert_eq!(written.get("is_traced"), None);
        assert_eq!(written["collectors"]["process"], json!({"sample_interval_ms": 100}));
        let read: RunRequest = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), written);
        assert!(read.collectors.has(CollectorName::PROCESS) && !read.collectors.has(CollectorName::TENSOR_OPS));
    }
}
