//! Files written for mrm-trace 0.1.x: recognised by keys that only it has, and translated where their meaning is
//! clear. What is left after that is checked like any other file.

mod collector;
mod model;
mod sections;

use crate::key_table::keys;
use crate::problem::{Note, Problem, Problems};
use crate::yaml::{Entry, Node, Place, Value};

/// Keys that only mrm-trace has.
const ONLY_THERE: &[&str] = &[
    "experiment.date_created",
    "models[].hf_repo",
    "models[].params_billions",
    "collector.primary",
    "collector.fallback_2",
    "collector.perf_mem",
    "collector.memray",
    "collector.process_monitor",
    "telemetry.capture",
    "telemetry.software_versions",
    "telemetry.hardware_topology",
    "telemetry.thermal_sampling_interval_s",
    "telemetry.thermal_source",
    "telemetry.run_fio_benchmark",
    "labeller.min_sample_count",
    "analyser.histogram_bins",
    "analyser.cdf_resolution",
    "analyser.group_by",
    "output.formats",
    "output.hf_dataset_push",
    "output.hf_repo",
];

/// The engine that only mrm-trace calls so.
const ENGINE: &str = "llamacpp";

/// Keys that both have; the others of dwell show that a file was not written for mrm-trace.
const SHARED: &[&str] = &[
    "experiment.name",
    "experiment.description",
    "experiment.version",
    "experiment.authors",
    "experiment.institution",
    "experiment.paper_ref",
    "models[].id",
    "models[].engine",
    "models[].path",
    "models[].family",
    "models[].quantisation",
    "models[].dtype",
    "sweep.context_lengths",
    "sweep.batch_sizes",
    "sweep.output_tokens",
    "sweep.repetitions",
    "sweep.warmup_runs",
    "prompts.source",
    "prompts.categories",
    "telemetry.invalidate_on_throttle",
    "labeller.rules_file",
    "labeller.unknown_policy",
    "analyser.metrics",
    "output.base_dir",
    "output.compression",
];

/// Translates a file written for mrm-trace into one for dwell. Another file stays as it is.
pub(crate) fn translate(root: &mut Node, problems: &mut Problems<'_>) -> Vec<Note> {
    let Some((mark, place)) = mark(root) else { return Vec::new() };
    let mut translation = Translation { notes: Vec::new(), problems };
    translation.note(&mark, place, "only mrm-trace has this: the file is read as one of mrm-trace 0.1.x");
    translation.whole(root);
    translation.notes.sort_by_key(|note| note.line);
    translation.notes
}

/// The first thing in a file that only mrm-trace has, unless it also has something that only dwell has.
fn mark(root: &Node) -> Option<(String, Place)> {
    let mut paths = Vec::new();
    collect_paths(root, "", &mut paths);
    let is_only_here = |path: &str| !SHARED.contains(&path) && keys().iter().any(|key| key.path == path);
    if root.get("collectors").is_some() || paths.iter().any(|(path, _, _)| is_only_here(path)) {
        return None;
    }
    let is_mark = |(path, _, node): &&(String, Place, &Node)| {
        let is_engine = path == "models[].engine" && node.text() == Some(ENGINE);
        is_engine || ONLY_THERE.contains(&path.as_str())
    };
    paths.iter().find(is_mark).map(|(path, place, _)| (path.clone(), *place))
}

/// Paths of all keys of a tree, with `[]` for any item of a list.
fn collect_paths<'a>(node: &'a Node, prefix: &str, paths: &mut Vec<(String, Place, &'a Node)>) {
    for entry in node.entries() {
        let path = format!("{prefix}{}", entry.key);
        paths.push((path.clone(), entry.place, &entry.node));
        collect_paths(&entry.node, &format!("{path}."), paths);
        entry.node.items().iter().for_each(|item| collect_paths(item, &format!("{path}[]."), paths));
    }
}

/// A translation with what came of it so far.
struct Translation<'a, 'file> {
    notes: Vec<Note>,
    problems: &'a mut Problems<'file>,
}

impl Translation<'_, '_> {
    fn note(&mut self, key: &str, place: Place, text: impl Into<String>) {
        self.notes.push(Note { line: place.line, key: key.to_owned(), text: text.into() });
    }

    fn refuse(&mut self, key: &str, node: &Node, needed: impl Into<String>) -> &mut Problem {
        self.problems.add(node.place, key, node.value.to_string(), needed)
    }

    /// Takes keys out of a group that have no effect, with a note why.
    fn drop_keys(&mut self, group: &mut Node, prefix: &str, keys: &[(&str, &str)]) {
        for (key, why) in keys {
            if let Some(entry) = group.take(key) {
                self.note(&format!("{prefix}.{key}"), entry.place, format!("has no effect: {why}"));
            }
        }
    }

    /// Gives a key another name.
    fn rename(&mut self, group: &mut Node, prefix: &str, key: &str, new: &str, value: impl FnOnce(Value) -> Value) {
        if let Some(entry) = group.take(key) {
            self.note(&format!("{prefix}.{key}"), entry.place, format!("became {prefix}.{new}"));
            group.put(new, entry.place, Node { place: entry.node.place, value: value(entry.node.value) });
        }
    }

    /// Exchanges a text for another one, if it is in the table.
    fn replace(&mut self, key: &str, node: &mut Node, table: &[(&str, &str)]) {
        let found = node.text().and_then(|text| table.iter().find(|(old, new)| *old == text && old != new));
        if let Some(&(old, new)) = found {
            self.note(key, node.place, format!("{old} became {new}"));
            node.value = Value::Text(new.to_owned());
        }
    }
}

impl Node {
    /// The group with this name, if there is one.
    fn group_mut(&mut self, key: &str) -> Option<&mut Node> {
        let Value::Map(entries) = &mut self.value else { return None };
        entries
            .iter_mut()
            .map(|entry| (entry.key == key, &mut entry.node))
            .find_map(|(is_it, node)| is_it.then_some(node))
    }

    /// Takes a key out.
    fn take(&mut self, key: &str) -> Option<Entry> {
        let Value::Map(entries) = &mut self.value else { return None };
        let index = entries.iter().position(|entry| entry.key == key)?;
        Some(entries.remove(index))
    }

    /// Takes a key out whose value says nothing: `null`, or an empty text.
    fn take_if_blank(&mut self, key: &str) {
        let is_blank = |node: &Node| node.value == Value::Null || node.text() == Some("");
        if self.get(key).is_some_and(is_blank) {
            self.take(key);
        }
    }

    /// Adds a key.
    fn put(&mut self, key: &str, place: Place, node: Node) {
        if let Value::Map(entries) = &mut self.value {
            entries.push(Entry { key: key.to_owned(), place, node });
        }
    }
}
