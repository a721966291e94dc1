//! The pages say what the code does: every key of the telemetry, every probe.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use dwell_host::{SensorThread, measure_baseline_at, read_host_at};
use serde_json::Value;
use support::intel;

fn page(name: &str) -> String {
    std::fs::read_to_string(format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// All keys in a value, but those whose names the machine gives.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => object.iter().filter(|(key, _)| *key != "not_available").for_each(|(key, value)| {
            found.insert(key.clone());
            if key != "mitigations" {
                keys(value, found);
            }
        }),
        Value::Array(values) => values.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn every_key_of_the_telemetry_is_documented() {
    let tree = intel();
    let millisecond = Duration::from_millis(1);
    let facts = read_host_at(&tree.root());
    let baseline = measure_baseline_at(&tree.root(), millisecond, millisecond, &AtomicBool::new(false));
    let sensors = SensorThread::start(&tree.root(), Duration::from_secs(1)).unwrap().stop();
    let mut found = BTreeSet::new();
    keys(&serde_json::to_value(facts).unwrap(), &mut found);
    keys(&serde_json::to_value(baseline).unwrap(), &mut found);
    keys(&serde_json::to_value(sensors).unwrap(), &mut found);
    assert!(found.contains("peak_c") && found.contains("full_avg10_pct") && found.contains("size_bytes"), "{found:?}");
    let page = page("telemetry.md");
    let missing: Vec<&String> = found.iter().filter(|key| !page.contains(&format!("{key}`"))).collect();
    assert!(missing.is_empty(), "docs/telemetry.md does not name {missing:?}");
}
