//! `collector` of mrm-trace.

use super::Translation;
use crate::problem::nearest;
use crate::yaml::{Entry, Node, Place, Value};

/// Collectors of mrm-trace.
const COLLECTORS: &[&str] = &["perf_mem", "memray", "process_monitor"];

const EXACT: &str = "every access is seen, there are no samples";

impl Translation<'_, '_> {
    /// `collector` with a primary one and fallbacks becomes `collectors` with lists.
    pub(super) fn collector(&mut self, root: &mut Node) {
        let Some(mut entry) = root.take("collector") else { return };
        let Value::Map(_) = entry.node.value else { return root.put("collector", entry.place, entry.node) };
        let (place, collector) = (entry.place, &mut entry.node);
        let mut collectors = Node { place, value: Value::Map(Vec::new()) };
        let used = self.used(collector, place);
        collectors.put("use", used.place, with_process(used));
        if let Some(fallback) = self.fallback(collector) {
            collectors.put("fallback", fallback.place, fallback);
        }
        self.perf_mem(collector);
        self.memray(collector);
        if let Some(process) = self.process_monitor(collector) {
            collectors.put("process", process.place, process);
        }
        for left in entry.node.entries() {
            let key = format!("collector.{}", left.key);
            let names = ["primary", "fallback", "fallback_2", "perf_mem", "memray", "process_monitor"];
            let problem = self.problems.add(left.place, &key, "an unknown key", format!("one of {}", names.join(", ")));
            problem.nearest = nearest(&left.key, names);
        }
        root.put("collectors", place, collectors);
    }

    fn used(&mut self, collector: &mut Node, place: Place) -> Node {
        let default = || Node { place, value: Value::Text("tensor_ops".to_owned()) };
        let Some(primary) = collector.take("primary") else {
            self.note("collector", place, "perf_mem, mrm-trace's default, became collectors.use [tensor_ops, process]");
            return default();
        };
        if primary.node.text() == Some("memray") {
            let needed = "perf_mem or process_monitor: memray sees allocations, not accesses";
            self.refuse("collector.primary", &primary.node, needed);
            return default();
        }
        self.collector_name("collector.primary", &primary, "use").unwrap_or_else(default)
    }

    /// The fallbacks in their order; `None` if none is mentioned.
    fn fallback(&mut self, collector: &mut Node) -> Option<Node> {
        let entries: Vec<Entry> = ["fallback", "fallback_2"].iter().filter_map(|key| collector.take(key)).collect();
        let place = entries.first()?.node.place;
        let mut names: Vec<Node> = Vec::new();
        for entry in entries.iter().filter(|entry| entry.node.value != Value::Null) {
            let key = format!("collector.{}", entry.key);
            if entry.node.text() == Some("memray") {
                self.note(&key, entry.place, "memray was left out: it sees allocations, not accesses");
            } else if let Some(name) = self.collector_name(&key, entry, "fallback")
                && names.iter().all(|other| other.value != name.value)
            {
                names.push(name);
            }
        }
        Some(list(place, names))
    }

    fn collector_name(&mut self, key: &str, entry: &Entry, new_key: &str) -> Option<Node> {
        let name = match entry.node.text() {
            Some("perf_mem") => "tensor_ops",
            Some("process_monitor") => "process",
            other => {
                let nearest = other.and_then(|name| nearest(name, COLLECTORS.iter().copied()));
                self.refuse(key, &entry.node, format!("one of {}", COLLECTORS.join(", "))).nearest = nearest;
                return None;
            }
        };
        let old = entry.node.text().unwrap_or_default();
        let with_process = if new_key == "use" && name == "tensor_ops" { ", process" } else { "" };
        self.note(key, entry.place, format!("{old} became collectors.{new_key} [{name}{with_process}]"));
        Some(Node { place: entry.node.place, value: Value::Text(name.to_owned()) })
    }

    fn perf_mem(&mut self, collector: &mut Node) {
        let keys = [
            ("sample_period", EXACT),
            ("ldlat_threshold", EXACT),
            ("events", EXACT),
            ("extra_flags", "perf is not used"),
            ("require_root", "no privileges are needed"),
        ];
        self.emptied(collector, "perf_mem", &keys);
    }

    fn memray(&mut self, collector: &mut Node) {
        let why = "memray is not used";
        let keys = [("native_traces", why), ("follow_fork", why), ("file_size_limit_gb", why)];
        self.emptied(collector, "memray", &keys);
    }

    /// Drops the keys of a collector's options; keys that mrm-trace does not have stay, to be told.
    fn emptied(&mut self, collector: &mut Node, name: &str, keys: &[(&str, &str)]) {
        let Some(mut options) = collector.take(name) else { return };
        self.drop_keys(&mut options.node, &format!("collector.{name}"), keys);
        self.refuse_leftover(name, &options.node, keys.iter().map(|(key, _)| *key).collect());
    }

    fn process_monitor(&mut self, collector: &mut Node) -> Option<Node> {
        let mut options = collector.take("process_monitor")?.node;
        let why = "every figure that the system has is recorded";
        self.drop_keys(&mut options, "collector.process_monitor", &[("metrics", why)]);
        let interval = options.take("poll_interval_ms");
        self.refuse_leftover("process_monitor", &options, vec!["poll_interval_ms", "metrics"]);
        let Entry { place, node, .. } = interval?;
        let became = "became collectors.process.sample_interval_ms";
        self.note("collector.process_monitor.poll_interval_ms", place, became);
        let entries = vec![Entry { key: "sample_interval_ms".to_owned(), place, node }];
        Some(Node { place, value: Value::Map(entries) })
    }

    fn refuse_leftover(&mut self, name: &str, options: &Node, known: Vec<&str>) {
        if !matches!(options.value, Value::Map(_) | Value::Null) {
            self.refuse(&format!("collector.{name}"), options, format!("the keys {}", known.join(", ")));
        }
        for left in options.entries() {
            let key = format!("collector.{name}.{}", left.key);
            let problem = self.problems.add(left.place, &key, "an unknown key", format!("one of {}", known.join(", ")));
            problem.nearest = nearest(&left.key, known.iter().copied());
        }
    }
}

/// The effect of the observer, which mrm-trace always measures, is what `process` sees.
fn with_process(used: Node) -> Node {
    let place = used.place;
    let process = Node { place, value: Value::Text("process".to_owned()) };
    let is_alone = used.value == process.value;
    list(place, if is_alone { vec![used] } else { vec![used, process] })
}

fn list(place: Place, items: Vec<Node>) -> Node {
    Node { place, value: Value::List(items) }
}
