//! What is known of a key: what it takes, its default, what it does.

use serde_json::{Value as Json, json};

/// One key of an experiment file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// Where it is, such as `models[].id`; `[]` stands for any item of a list.
    pub path: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What it is if it is left out.
    pub default: DefaultValue,
    /// What it does.
    pub effect: &'static str,
}

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Any text on one or more lines, perhaps empty.
    Text,
    /// A text of at least one character.
    FilledText,
    /// Letters, digits, `-`, `_`, `.`; at most 64; not beginning with a dot.
    PlainName,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// `true` or `false`.
    Bool,
    /// A whole number in this range.
    Integer(u64, u64),
    /// A number in this range.
    Number(f64, f64),
    /// A count such as 135000000, 135M or 1.5B.
    Count,
    /// A list of values of this kind.
    List(&'static Kind, ListRule),
}

/// What a list may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListRule {
    /// Any values, perhaps none.
    Any,
    /// Each value once, perhaps none.
    Distinct,
    /// Each value once, and at least one.
    DistinctNotEmpty,
}

/// What a key is if it is left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DefaultValue {
    /// It cannot be left out.
    Required,
    /// Nothing; the words say what that means.
    Absent(&'static str),
    /// A text.
    Text(&'static str),
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Integer(u64),
    /// A number.
    Number(f64),
    /// A list of texts.
    Texts(&'static [&'static str]),
    /// A list of whole numbers.
    Integers(&'static [u64]),
    /// A list of booleans.
    Bools(&'static [bool]),
}

impl DefaultValue {
    /// The value as JSON; `null` if there is none.
    pub fn to_json(self) -> Json {
        match self {
            DefaultValue::Required | DefaultValue::Absent(_) => Json::Null,
            DefaultValue::Text(text) => json!(text),
            DefaultValue::Bool(value) => json!(value),
            DefaultValue::Integer(value) => json!(value),
            DefaultValue::Number(value) => json!(value),
            DefaultValue::Texts(values) => json!(values),
            DefaultValue::Integers(values) => json!(values),
            DefaultValue::Bools(values) => json!(values),
        }
    }
}

impl Key {
    /// The kind in words, as in the documentation.
    pub fn type_text(&self) -> String {
        self.kind.words()
    }

    /// The default in words, as in the documentation.
    pub fn default_text(&self) -> String {
        match self.default {
            DefaultValue::Required => "required".to_owned(),
            DefaultValue::Absent(meaning) => meaning.to_owned(),
            DefaultValue::Text("") => "empty".to_owned(),
            DefaultValue::Text(text) => format!("`{text}`"),
            DefaultValue::Texts(values) => format!("`[{}]`", values.join(", ")),
            other => format!("`{}`", other.to_json().to_string().replace(',', ", ")),
        }
    }
}

impl Kind {
    /// The kind in words.
    pub fn words(&self) -> String {
        match self {
            Kind::Text => "text".to_owned(),
            Kind::FilledText => "text, not empty".to_owned(),
            Kind::PlainName => "name: letters, digits, `-`, `_`, `.`; at most 64".to_owned(),
            Kind::Choice([only]) => format!("`{only}`"),
            Kind::Choice(values) => {
                let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
                format!("one of {}", values.join(", "))
            }
            Kind::Bool => "`true` or `false`".to_owned(),
            Kind::Integer(least, most) => format!("whole number, {least} to {most}"),
            Kind::Number(least, most) => format!("number, {least} to {most}"),
            Kind::Count => "count, such as 135000000, 135M or 1.5B".to_owned(),
            Kind::List(item, ListRule::DistinctNotEmpty) => format!("list, not empty, of: {}", item.words()),
            Kind::List(item, _) => format!("list of: {}", item.words()),
        }
    }
}
