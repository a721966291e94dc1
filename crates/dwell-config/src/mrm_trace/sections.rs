//! The sections of mrm-trace whose keys are translated one by one.

use super::Translation;
use crate::yaml::{Node, Value};

const POLICIES: &[(&str, &str)] = &[("log_and_skip", "skip"), ("assign_unknown", "keep"), ("fail_run", "error")];

const METRICS: &[(&str, &str)] = &[
    ("retention_duration", "retention"),
    ("write_once_ratio", "write_once"),
    ("working_set_size", "working_set"),
    ("access_locality", "locality"),
];

/// Formats of results: key, values that mean what dwell does, what dwell writes.
const FORMATS: &[(&str, &[&str], &str)] = &[
    ("raw_traces", &["parquet"], "tables are Parquet files"),
    ("metrics", &["csv"], "metrics are CSV files"),
    ("figures", &["pdf", "png", "svg"], "figures are SVG files; output.figures turns them off"),
    ("metadata", &["json"], "metadata are JSON files"),
];

impl Translation<'_, '_> {
    pub(super) fn whole(&mut self, root: &mut Node) {
        if let Some(about) = root.group_mut("experiment") {
            self.drop_keys(about, "experiment", &[("date_created", "every run records its date")]);
        }
        if let Some(models) = root.group_mut("models") {
            self.models(models);
        }
        root.take_if_blank("prompts");
        self.collector(root);
        if let Some(telemetry) = root.group_mut("telemetry") {
            self.telemetry(telemetry);
        }
        if let Some(labeller) = root.group_mut("labeller") {
            self.labeller(labeller);
        }
        if let Some(analyser) = root.group_mut("analyser") {
            self.analyser(analyser);
        }
        if let Some(output) = root.group_mut("output") {
            self.output(output);
        }
    }

    fn telemetry(&mut self, telemetry: &mut Node) {
        for key in ["capture", "software_versions", "hardware_topology"] {
            self.only(telemetry, "telemetry", key, true, "always recorded");
        }
        self.only(telemetry, "telemetry", "run_fio_benchmark", false, "dwell has no disk benchmark");
        self.drop_keys(telemetry, "telemetry", &[("thermal_source", "every sensor that there is is read")]);
        let to_ms = |value| match value {
            Value::Integer(secs) => Value::Integer(secs.saturating_mul(1000)),
            Value::Number(secs) => Value::Integer((secs * 1000.0).round() as i128),
            other => other,
        };
        self.rename(telemetry, "telemetry", "thermal_sampling_interval_s", "sensor_interval_ms", to_ms);
    }

    /// Takes a switch out that can have only one value.
    fn only(&mut self, group: &mut Node, prefix: &str, key: &str, value: bool, why: &str) {
        let Some(entry) = group.take(key) else { return };
        let path = format!("{prefix}.{key}");
        if entry.node.value == Value::Bool(value) {
            self.note(&path, entry.place, format!("has no effect: {why}"));
        } else {
            self.refuse(&path, &entry.node, format!("{value}, or no such key: {why}"));
        }
    }

    fn labeller(&mut self, labeller: &mut Node) {
        if let Some(policy) = labeller.group_mut("unknown_policy") {
            self.replace("labeller.unknown_policy", policy, POLICIES);
            if policy.text() == Some("assign_runtime") {
                let needed = "log_and_skip, assign_unknown or fail_run";
                self.refuse("labeller.unknown_policy", policy, needed).hint =
                    Some("write a last rule that matches everything and says `runtime` into a rules file".to_owned());
                policy.value = Value::Text("keep".to_owned());
            }
        }
        let keys = [
            ("rules_file", "mrm-trace never reads it; the rules that dwell has are used"),
            ("min_sample_count", "every access is seen, there are no samples"),
        ];
        self.drop_keys(labeller, "labeller", &keys);
    }

    fn analyser(&mut self, analyser: &mut Node) {
        if let Some(Node { value: Value::List(metrics), .. }) = analyser.group_mut("metrics") {
            for (index, metric) in metrics.iter_mut().enumerate() {
                self.replace(&format!("analyser.metrics[{index}]"), metric, METRICS);
            }
        }
        self.rename(analyser, "analyser", "histogram_bins", "bins", |bins| bins);
        let keys = [
            ("cdf_resolution", "distributions have a resolution of their own"),
            ("group_by", "aggregates are by region and by everything that is swept"),
        ];
        self.drop_keys(analyser, "analyser", &keys);
    }

    fn output(&mut self, output: &mut Node) {
        if let Some(mut formats) = output.take("formats") {
            let names = FORMATS.iter().map(|(key, _, _)| *key).collect::<Vec<_>>().join(", ");
            for (key, accepted, why) in FORMATS {
                self.format(&mut formats.node, key, accepted, why);
            }
            if !matches!(formats.node.value, Value::Map(_) | Value::Null) {
                self.refuse("output.formats", &formats.node, format!("the keys {names}"));
            }
            for left in formats.node.entries() {
                let key = format!("output.formats.{}", left.key);
                self.problems.add(left.place, &key, "an unknown key", format!("one of {names}"));
            }
        }
        let publish = "publish with `dwell export --format hf`";
        self.only(output, "output", "hf_dataset_push", false, publish);
        output.take_if_blank("hf_repo");
        self.drop_keys(output, "output", &[("hf_repo", publish)]);
    }

    fn format(&mut self, formats: &mut Node, key: &str, accepted: &[&str], why: &str) {
        let Some(entry) = formats.take(key) else { return };
        let path = format!("output.formats.{key}");
        if entry.node.text().is_some_and(|format| accepted.contains(&format)) {
            self.note(&path, entry.place, format!("has no effect: {why}"));
        } else {
            self.refuse(&path, &entry.node, format!("one of {}: {why}", accepted.join(", ")));
        }
    }
}
