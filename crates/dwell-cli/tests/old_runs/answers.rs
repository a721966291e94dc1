//! What a command answers, and when two answers are the same.

use std::process::Output;

use serde_json::{Map, Value};

use crate::fixture::AskedCommand;

/// Figures are computed by the same formulas; sums may be taken in another order.
const TOLERANCE: f64 = 1e-9;

/// 0.1.0 cut the mean time between the reads of a KV block to whole nanoseconds; now it is exact.
fn cut_ns(path: &str) -> f64 {
    if path.contains(".inter_access_interval.") { 1.0 } else { 0.0 }
}

/// 0.1.0 took a store that it had concluded for one that it had seen, and forgot the store before a load that came first: what
/// rests on these is called inferred now, and fewer bytes count as stored once.
fn is_inferred_now(path: &str, expected: &Value, found: &Value) -> bool {
    let key = path.rsplit('.').next().unwrap_or_default();
    if path.contains(".write_once.") && (expected.is_null() || key.starts_with("stored_")) {
        return true;
    }
    match (expected.as_f64(), found.as_f64()) {
        (Some(expected), Some(found)) if key == "inferred_share" => found >= expected,
        // It took every block that another was attached to as found again; the first one may be of the same request.
        (Some(expected), Some(found)) if ["reused_blocks", "reuses"].contains(&key) => found <= expected,
        (Some(expected), Some(found)) if path.contains(".write_once") || key == "stored_once_bytes" => {
            found <= expected
        }
        (None, None) => key.ends_with("basis") && *found == "inferred",
        _ => false,
    }
}

/// 0.1.0 took lives that had not ended for ended ones, called their figures exact, and rated them by the seconds of the
/// recording. Now they are censored: no quantile becomes shorter by that, and some are not reached.
fn is_censored_now(path: &str, expected: &Value, found: &Value) -> bool {
    let key = path.rsplit('.').next().unwrap_or_default();
    if path.contains(".suitability.") || (key == "suitability" && expected.is_string()) || key == "is_window_limited" {
        return true;
    }
    let is_of_lives = path.contains(".retention.") || key.starts_with("retention_");
    match (expected.as_f64(), found.as_f64()) {
        _ if !is_of_lives => false,
        (Some(_), Some(found)) if key.contains("low") => found >= 0.0,
        // A bucket is this wide.
        (Some(expected), Some(found)) => found >= expected * (1.0 - 1.0 / 128.0),
        (Some(_), None) => found.is_null(),
        _ => key == "estimate" && [Value::from("censored"), Value::from("below_resolution")].contains(found),
    }
}

/// 0.1.0 knew the mean interval of a KV block only; now the rows of the trace tell.
fn is_traced_now(key: &str, expected: &Value, found: &Value) -> bool {
    key == "inter_access_interval" && expected["basis"] == "inferred" && found["basis"] == "exact"
}

/// 0.1.0 let the rest of the memory be negative where reported buffers were not resident; that is a part of its own now, which is
/// there in more cases. It had a warning for each run that was taken in; now there is one for all.
fn is_apart_now(path: &str, expected: &Value, found: &Value) -> bool {
    let is_split = path.contains(".memory.") && (path.contains(".parts") || path.ends_with(".is_overfull"));
    let is_grouped = path.ends_with(".warnings") && expected.as_array().map(Vec::len) > found.as_array().map(Vec::len);
    is_split || (is_grouped && found.as_array().is_some_and(|warnings| !warnings.is_empty()))
}

/// 0.1.0 gave no verdict where growth could not be told, though the buffer of the cache was reported.
fn is_judged_now(path: &str, expected: &Value, found: &Value) -> bool {
    let untold = [Value::from("too_few_samples"), Value::from("below_resolution")];
    match path.rsplit_once('.') {
        Some((before, "kind")) => before.ends_with(".verdict") && untold.contains(expected) && *found == "preallocated",
        Some((before, "sentence")) => {
            before.ends_with(".verdict")
                && found.as_str().is_some_and(|text| text.contains("the KV cache is preallocated"))
        }
        Some((before, "used_share")) => before.ends_with(".kv") && expected.is_null() && found.is_number(),
        _ => false,
    }
}

/// 0.1.0 counted the observer's memory against a run, whatever the machine had to spare.
fn is_spared_now(path: &str, expected: &Value, found: &Value) -> bool {
    let counts = |reason: &&Value| reason["what"] != "observer_memory_share";
    match (expected.as_array(), found.as_array()) {
        (Some(expected), Some(found)) if path.ends_with(".validity.reasons") => {
            found.iter().eq(expected.iter().filter(counts))
        }
        _ => false,
    }
}

/// Exit code and result of a command.
pub struct Answer {
    exit_code: i32,
    /// None if the command was not done.
    result: Option<Value>,
}

impl Answer {
    /// From a file: the exit code in the first line, then the JSON.
    pub fn recorded(text: &str) -> Self {
        let (first, json) = text.split_once('\n').unwrap();
        let exit_code = first.strip_prefix("exit code ").unwrap().parse().unwrap();
        Self { exit_code, result: serde_json::from_str(json).ok() }
    }

    pub fn of(output: &Output) -> Self {
        Self { exit_code: output.status.code().unwrap(), result: serde_json::from_slice(&output.stdout).ok() }
    }
}

/// Keys whose values are those of the process that answers, or of the machine it answers on.
fn is_own(command: &AskedCommand, key: &str) -> bool {
    let is_recorded_anew = matches!((command.case.as_str(), command.answer.as_str()), ("unfinished", "resume"));
    let is_captured_anew = command.case == "checkpointed" && command.answer != "info";
    match key {
        "observer_peak_rss_bytes" => true,
        // Imports of other files under the same name are no repetitions, so that the format is a part of it.
        "setup" => command.case == "kv-events",
        // How well runs count depends on how busy the machine is.
        "exclusions" => is_recorded_anew,
        // Another processor computes in another order, and other values take another room.
        "stored_bytes" | "file_bytes" | "peak_memory_bytes" | "waited_s" | "duration_s" => is_captured_anew,
        "prompt_ns" | "decode_ns" | "prompt_tokens_per_s" | "decode_tokens_per_s" => is_captured_anew,
        _ => false,
    }
}

/// Asserts that everything that was said is said now. Keys that are new are fine.
pub fn assert_same(expected: &Answer, found: &Answer, command: &AskedCommand, what: &str) {
    // Runs that are recorded anew on a busy machine may all be excluded, which is no success any more.
    let is_recorded_anew = (command.case.as_str(), command.answer.as_str()) == ("unfinished", "resume");
    let allowed = if is_recorded_anew { [expected.exit_code, 1] } else { [expected.exit_code; 2] };
    assert!(allowed.contains(&found.exit_code), "{} and not {}: {what}", found.exit_code, expected.exit_code);
    match (&expected.result, &found.result) {
        (Some(expected), Some(found)) => Comparison { command, what }.values(expected, found, ""),
        (expected, found) => assert_eq!(expected, found, "{what}"),
    }
}

struct Comparison<'a> {
    command: &'a AskedCommand,
    what: &'a str,
}

impl Comparison<'_> {
    fn values(&self, expected: &Value, found: &Value, path: &str) {
        match (expected, found) {
            _ if is_inferred_now(path, expected, found) || is_censored_now(path, expected, found) => {}
            _ if is_apart_now(path, expected, found) || is_spared_now(path, expected, found) => {}
            _ if is_judged_now(path, expected, found) => {}
            (Value::Object(expected), Value::Object(found)) => self.objects(expected, found, path),
            (Value::Array(expected), Value::Array(found)) => {
                assert_eq!(expected.len(), found.len(), "{path}: {expected:?} and {found:?}; {}", self.what);
                for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
                    self.values(expected, found, &format!("{path}[{index}]"));
                }
            }
            (Value::Number(expected), Value::Number(found)) => {
                let (expected, found) = (expected.as_f64().unwrap(), found.as_f64().unwrap());
                let tolerance = TOLERANCE * expected.abs().max(found.abs());
                let is_same = (-tolerance..=cut_ns(path) + tolerance).contains(&(found - expected));
                assert!(is_same, "{path} was {expected} and is {found}; {}", self.what);
            }
            _ => assert_eq!(expected, found, "{path}; {}", self.what),
        }
    }

    fn objects(&self, expected: &Map<String, Value>, found: &Map<String, Value>, path: &str) {
        for (key, expected) in expected.iter().filter(|(key, _)| !is_own(self.command, key)) {
            let path = format!("{path}.{key}");
            let found = found.get(key).unwrap_or_else(|| panic!("{path} is not there any more; {}", self.what));
            if is_traced_now(key, expected, found) {
                continue;
            }
            match (key.as_str(), expected.as_u64(), found.as_u64()) {
                // A later version makes more files out of a run.
                ("files", Some(expected), Some(found)) => assert!(found >= expected, "{path}; {}", self.what),
                _ => self.values(expected, found, &path),
            }
        }
    }
}
