//! A tree of YAML against a table of keys: everything that is wrong, and the values with their defaults.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value as Json, json};

use crate::keys::{DefaultValue, Key, Kind, ListRule};
use crate::problem::{Problems, nearest};
use crate::yaml::{Entry, Node, Place, Value};

/// Longest name.
const MOST_NAME_BYTES: usize = 64;

/// Checks a tree against a table of keys.
pub(crate) struct Checker<'a, 'file> {
    pub(crate) keys: &'a [Key],
    pub(crate) problems: &'a mut Problems<'file>,
    /// Where each value that was found is, by its path.
    pub(crate) places: BTreeMap<String, Place>,
}

/// What a name in a group stands for.
enum Child<'a> {
    Leaf(&'a Key),
    Group,
    Groups,
}

impl<'a, 'file> Checker<'a, 'file> {
    pub(crate) fn new(keys: &'a [Key], problems: &'a mut Problems<'file>) -> Checker<'a, 'file> {
        Checker { keys, problems, places: BTreeMap::new() }
    }

    /// Checks the keys below a prefix of the table's paths (`""` or `models[].`), shown to the user as `shown`. What
    /// is wrong becomes `null`.
    pub(crate) fn group(&mut self, prefix: &str, shown: &str, node: Option<&Node>, parent: Place) -> Json {
        let place = node.map_or(parent, |node| node.place);
        let entries = match node.map(|node| &node.value) {
            None | Some(Value::Null) => &[][..],
            Some(Value::Map(entries)) => entries,
            Some(other) => {
                let needed = format!("the keys {}", self.names(prefix).join(", "));
                self.problems.add(place, shown.trim_end_matches('.'), other.to_string(), needed);
                return Json::Null;
            }
        };
        self.refuse_unknown(prefix, shown, entries);
        let mut object = Map::new();
        for name in self.names(prefix) {
            let entry = entries.iter().find(|entry| entry.key == name);
            // Without a value it is as if it were not there.
            if let Some(entry) = entry.filter(|entry| entry.node.value != Value::Null) {
                self.places.insert(format!("{shown}{name}"), entry.node.place);
            }
            let value = self.child(&format!("{prefix}{name}"), &format!("{shown}{name}"), entry, place);
            object.insert(name.to_owned(), value);
        }
        Json::Object(object)
    }

    fn child(&mut self, path: &str, shown: &str, entry: Option<&Entry>, parent: Place) -> Json {
        let node = entry.map(|entry| &entry.node);
        match self.child_at(path) {
            Child::Leaf(key) => self.leaf(key, shown, node, parent),
            Child::Group => self.group(&format!("{path}."), &format!("{shown}."), node, parent),
            Child::Groups => self.groups(&format!("{path}[]."), shown, node, parent),
        }
    }

    /// Checks a list of groups, of which there must be at least one.
    pub(crate) fn groups(&mut self, prefix: &str, shown: &str, node: Option<&Node>, parent: Place) -> Json {
        let needed = || format!("a list of at least one, with the keys {}", names(self.keys, prefix).join(", "));
        match node.map(|node| (&node.value, node.place)) {
            Some((Value::List(items), _)) if !items.is_empty() => {
                let group = |(index, item): (usize, &Node)| {
                    let shown = format!("{shown}[{index}]");
                    self.places.insert(shown.clone(), item.place);
                    self.group(prefix, &format!("{shown}."), Some(item), item.place)
                };
                Json::Array(items.iter().enumerate().map(group).collect())
            }
            Some((other, place)) => {
                let needed = needed();
                self.problems.add(place, shown, other.to_string(), needed);
                Json::Null
            }
            None => {
                let needed = needed();
                self.problems.add(parent, shown, "no such key", needed);
                Json::Null
            }
        }
    }

    fn leaf(&mut self, key: &Key, shown: &str, node: Option<&Node>, parent: Place) -> Json {
        match (node, key.default) {
            (None, DefaultValue::Required) => {
                self.problems.add(parent, shown, "no such key", key.type_text());
                Json::Null
            }
            (None, default) => default.to_json(),
            (Some(Node { value: Value::Null, .. }), DefaultValue::Absent(_)) => Json::Null,
            (Some(node), _) => self.value(&key.kind, shown, node),
        }
    }

    fn value(&mut self, kind: &Kind, shown: &str, node: &Node) -> Json {
        if let (Kind::List(item, rule), Value::List(nodes)) = (kind, &node.value) {
            return self.list(item, *rule, shown, nodes, node.place);
        }
        if let Some(json) = scalar(kind, &node.value) {
            return json;
        }
        let problem = self.problems.add(node.place, shown, node.value.to_string(), kind.words());
        match (kind, &node.value) {
            (Kind::Choice(values), Value::Text(text)) => problem.nearest = nearest(text, values.iter().copied()),
            (Kind::List(item, _), single) if scalar(item, single).is_some() => {
                problem.hint = Some(format!("a list of one is written in brackets, such as `{shown}: [value]`"));
            }
            (
                Kind::Text | Kind::FilledText | Kind::PlainName,
                Value::Integer(_) | Value::Number(_) | Value::Bool(_),
            ) => {
                problem.hint = Some("put a text that looks like a number or a boolean in quotes".to_owned());
            }
            _ => (),
        }
        Json::Null
    }

    fn list(&mut self, item: &Kind, rule: ListRule, shown: &str, nodes: &[Node], place: Place) -> Json {
        if nodes.is_empty() && rule == ListRule::DistinctNotEmpty {
            self.problems.add(place, shown, "an empty list", "at least one value");
            return Json::Null;
        }
        let mut values: Vec<Json> = Vec::with_capacity(nodes.len());
        let mut texts = HashSet::new();
        for (index, node) in nodes.iter().enumerate() {
            let shown = format!("{shown}[{index}]");
            self.places.insert(shown.clone(), node.place);
            let value = self.value(item, &shown, node);
            if rule != ListRule::Any && !value.is_null() && !texts.insert(value.to_string()) {
                self.problems.add(node.place, &shown, format!("{} a second time", node.value), "distinct values");
            }
            values.push(value);
        }
        Json::Array(values)
    }

    fn refuse_unknown(&mut self, prefix: &str, shown: &str, entries: &[Entry]) {
        let names = self.names(prefix);
        for entry in entries.iter().filter(|entry| !names.contains(&entry.key.as_str())) {
            let needed = format!("one of {}", names.join(", "));
            let home = self.homes(&entry.key);
            let problem = self.problems.add(entry.place, &format!("{shown}{}", entry.key), "an unknown key", needed);
            problem.nearest = home.or_else(|| nearest(&entry.key, names.iter().copied()));
        }
    }

    /// The path of a key of this name elsewhere in the table.
    fn homes(&self, name: &str) -> Option<String> {
        let is_home = |key: &&Key| key.path.rsplit('.').next() == Some(name);
        self.keys.iter().find(is_home).map(|key| key.path.to_owned())
    }

    fn names(&self, prefix: &str) -> Vec<&'a str> {
        names(self.keys, prefix)
    }

    fn child_at(&self, path: &str) -> Child<'a> {
        let is_groups = |key: &Key| key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with("[]."));
        match self.keys.iter().find(|key| key.path == path) {
            Some(key) => Child::Leaf(key),
            None if self.keys.iter().any(is_groups) => Child::Groups,
            None => Child::Group,
        }
    }
}

/// The names that may stand in the group with this prefix, in the order of the table.
pub(crate) fn names<'a>(keys: &'a [Key], prefix: &str) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for rest in keys.iter().filter_map(|key| key.path.strip_prefix(prefix)) {
        let name = rest.split(['.', '[']).next().unwrap_or(rest);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// A value as JSON, if it is of a kind.
fn scalar(kind: &Kind, value: &Value) -> Option<Json> {
    match (kind, value) {
        (Kind::Text, Value::Text(text)) => Some(json!(text)),
        (Kind::FilledText, Value::Text(text)) => (!text.trim().is_empty()).then(|| json!(text)),
        (Kind::PlainName, Value::Text(text)) => is_plain_name(text).then(|| json!(text)),
        (Kind::Choice(values), Value::Text(text)) => values.contains(&text.as_str()).then(|| json!(text)),
        (Kind::Bool, Value::Bool(value)) => Some(json!(value)),
        (Kind::Integer(least, most), Value::Integer(value)) => {
            let value = u64::try_from(*value).ok()?;
            (*least..=*most).contains(&value).then(|| json!(value))
        }
        (Kind::Number(least, most), value) => {
            let value = number(value)?;
            (*least..=*most).contains(&value).then(|| json!(value))
        }
        (Kind::Count, Value::Integer(value)) => u64::try_from(*value).ok().filter(|&count| count > 0).map(Json::from),
        (Kind::Count, Value::Text(text)) => count(text).map(Json::from),
        _ => None,
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Number(value) => Some(*value),
        _ => None,
    }
}

/// Whether a text can name a file on every system.
pub(crate) fn is_plain_name(text: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    (1..=MOST_NAME_BYTES).contains(&text.len()) && !text.starts_with('.') && text.chars().all(is_plain)
}

/// A count such as `135M` or `1.5B`.
fn count(text: &str) -> Option<u64> {
    let scale = match text.chars().last()?.to_ascii_uppercase() {
        'K' => 1e3,
        'M' => 1e6,
        'B' | 'G' => 1e9,
        'T' => 1e12,
        _ => return None,
    };
    let digits = &text[..text.len() - 1];
    let is_decimal = digits.starts_with(|letter: char| letter.is_ascii_digit())
        && digits.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
    let count = if is_decimal { (digits.parse::<f64>().ok()? * scale).round() } else { return None };
    // Above 2^53 not every count is a number of its own; no model is that large.
    (1.0..=9e15).contains(&count).then_some(count as u64)
}
