//! YAML as a tree in which every node knows its place.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Location, NonFiniteFloatPolicy, Options, Spanned};

/// Nesting of the deepest file that makes sense, with room to spare.
const MOST_DEPTH: usize = 32;

/// Nodes of the largest file that makes sense; what aliases repeat counts.
const MOST_NODES: usize = 100_000;

/// Longest piece of the file that is shown in a message.
const MOST_SHOWN_CHARACTERS: usize = 60;

/// Where something is in the file; both are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) line: u64,
    pub(crate) column: u64,
}

impl Place {
    pub(crate) const START: Place = Place { line: 1, column: 1 };

    fn of(location: Location) -> Place {
        match location.line() {
            0 => Place::START,
            line => Place { line, column: location.column().max(1) },
        }
    }
}

/// A value with its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Number(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) place: Place,
    pub(crate) node: Node,
}

/// What is wrong with a file as YAML.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct YamlFault {
    pub(crate) place: Place,
    pub(crate) found: String,
    pub(crate) needed: &'static str,
}

/// Reads one YAML document.
///
/// With duplicate keys the tree holds the first of each, so that the rest can still be checked.
pub(crate) fn read(text: &str) -> Result<(Node, Option<YamlFault>), YamlFault> {
    match read_with(text, DuplicateKeyPolicy::Error) {
        Ok(node) => Ok((node, None)),
        Err(error) if matches!(error.without_snippet(), serde_saphyr::Error::DuplicateMappingKey { .. }) => {
            let node = read_with(text, DuplicateKeyPolicy::FirstWins).map_err(|error| fault(&error))?;
            Ok((node, Some(fault(&error))))
        }
        Err(error) => Err(fault(&error)),
    }
}

fn read_with(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Node, serde_saphyr::Error> {
    let budget = serde_saphyr::budget! { max_depth: MOST_DEPTH, max_nodes: MOST_NODES, max_events: 4 * MOST_NODES };
    let alias_limits = serde_saphyr::alias_limits! { max_total_replayed_events: MOST_NODES };
    let options: Options = serde_saphyr::options! {
        budget: budget,
        alias_limits: alias_limits,
        duplicate_keys: duplicate_keys,
        strict_booleans: true,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options::<Spanned<Value>>(text, options).map(Node::of)
}

fn fault(error: &serde_saphyr::Error) -> YamlFault {
    let (found, needed) = match error.without_snippet() {
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            (format!("the key `{key}` a second time"), "each key once")
        }
        serde_saphyr::Error::MultipleDocuments { .. } => ("a second document".to_owned(), "one document"),
        other => {
            let message = other.to_string();
            // The place is told apart.
            let found = message.split_once(" at line ").map_or(message.as_str(), |(before, _)| before).to_owned();
            (found, "YAML")
        }
    };
    YamlFault { place: error.location().map_or(Place::START, Place::of), found, needed }
}

impl Node {
    fn of(spanned: Spanned<Value>) -> Node {
        Node { place: Place::of(spanned.referenced), value: spanned.value }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }
}

/// What a reader of a message would call the value.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => write!(f, "nothing"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Integer(value) => write!(f, "the number {value}"),
            Value::Number(value) => write!(f, "the number {value:?}"),
            Value::Text(text) if text.chars().count() > MOST_SHOWN_CHARACTERS => {
                let shown: String = text.chars().take(MOST_SHOWN_CHARACTERS).collect();
                write!(f, "the text {shown:?}…")
            }
            Value::Text(text) => write!(f, "the text {text:?}"),
            Value::List(items) if items.is_empty() => write!(f, "an empty list"),
            Value::List(items) => write!(f, "a list of {}", items.len()),
            Value::Map(_) => write!(f, "keys with values"),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        Ok(i128::try_from(value).map_or(Value::Number(value as f64), Value::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Value>>()? {
            list.push(Node::of(item));
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry::<Spanned<Value>, Spanned<Value>>()? {
            let key = Node::of(key);
            let name = match key.value {
                Value::Text(name) => name,
                other => other.to_string(),
            };
            map.push(Entry { key: name, place: key.place, node: Node::of(value) });
        }
        Ok(Value::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: u64, column: u64) -> Place {
        Place { line, column }
    }

    #[test]
    fn keys_and_values_know_their_places() {
        let (root, duplicate) = read("a: 1\nb:\n  - x\n  - {c: true}\n").unwrap();
        assert_eq!(duplicate, None);
        let [a, b] = root.entries() else { panic!("{root:?}") };
        assert_eq!((a.key.as_str(), a.place, a.node.place), ("a", place(1, 1), place(1, 4)));
        assert_eq!(a.node.value, Value::Integer(1));
        assert_eq!(b.place, place(2, 1));
        assert_eq!(b.node.items()[0].text(), Some("x"));
        assert_eq!(b.node.items()[1].entries()[0].place, place(4, 6));
    }

    #[test]
    fn words_are_booleans_only_if_they_say_so() {
        let (root, _) = read("[true, yes, on, 'true', ~, 1.5, 1e3, \"2\", 0x10, .nan]").unwrap();
        let values: Vec<String> = root.items().iter().map(|node| node.value.to_string()).collect();
        let wanted = [
            "true",
            "the text \"yes\"",
            "the text \"on\"",
            "the text \"true\"",
            "nothing",
            "the number 1.5",
            "the number 1000.0",
            "the text \"2\"",
            "the number 16",
            "the number NaN",
        ];
        assert_eq!(values, wanted);
    }

    #[test]
    fn an_alias_bomb_is_refused() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let before = level - 1;
            let items = vec![format!("*a{before}"); 9].join(", ");
            text += &format!("a{level}: &a{level} [{items}]\n");
        }
        assert!(read(&text).is_err());
    }

    #[test]
    fn deep_nesting_is_refused() {
        assert!(read(&"[".repeat(10_000)).is_err());
        assert!(read(&format!("{}{}", "[".repeat(40), "]".repeat(40))).is_err());
    }
}
