//! The JSON Schema of experiment files, for editors.

use serde_json::{Value as Json, json};

use crate::check::names;
use crate::key_table::keys;
use crate::keys::{DefaultValue, Key, Kind, ListRule};

/// The JSON Schema of experiment files (draft 2020-12), made from [`keys`].
///
/// It says what can be said of one key at a time; [`crate::parse`] also checks what keys must be to each other.
pub fn json_schema() -> Json {
    let mut schema = group("");
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("dwell experiment");
    schema
}

/// The object of the keys with this prefix.
fn group(prefix: &str) -> Json {
    let names = names(keys(), prefix);
    let properties: serde_json::Map<String, Json> =
        names.iter().map(|&name| (name.to_owned(), child(&format!("{prefix}{name}")))).collect();
    let required: Vec<&str> = names.into_iter().filter(|name| is_required(&format!("{prefix}{name}"))).collect();
    let mut object = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

fn child(path: &str) -> Json {
    match keys().iter().find(|key| key.path == path) {
        Some(key) => leaf(key),
        None if keys().iter().any(|key| key.path.starts_with(&format!("{path}[]."))) => {
            json!({"type": "array", "minItems": 1, "items": group(&format!("{path}[]."))})
        }
        None => group(&format!("{path}.")),
    }
}

/// Whether something at or below a path cannot be left out.
fn is_required(path: &str) -> bool {
    let is_below =
        |key: &Key| key.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
    keys().iter().any(|key| is_below(key) && key.default == DefaultValue::Required)
}

fn leaf(key: &Key) -> Json {
    let mut schema = kind(&key.kind);
    schema["description"] = json!(format!("{}. Default: {}.", key.effect, key.default_text()));
    match key.default {
        DefaultValue::Required => schema,
        DefaultValue::Absent(_) => {
            let description = schema["description"].take();
            if let Some(object) = schema.as_object_mut() {
                object.remove("description");
            }
            json!({"anyOf": [schema, {"type": "null"}], "description": description})
        }
        default => {
            schema["default"] = default.to_json();
            schema
        }
    }
}

fn kind(kind: &Kind) -> Json {
    match kind {
        Kind::Text => json!({"type": "string"}),
        Kind::FilledText => json!({"type": "string", "pattern": "\\S"}),
        Kind::PlainName => json!({"type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}$"}),
        Kind::Choice(values) => json!({"enum": values}),
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Integer(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Kind::Number(least, most) => json!({"type": "number", "minimum": least, "maximum": most}),
        Kind::Count => json!({"anyOf": [
            {"type": "integer", "minimum": 1},
            {"type": "string", "pattern": "^[0-9][0-9.]*[KkMmBbGgTt]$"},
        ]}),
        Kind::List(item, rule) => {
            let mut list = json!({"type": "array", "items": self::kind(item)});
            if *rule != ListRule::Any {
                list["uniqueItems"] = json!(true);
            }
            if *rule == ListRule::DistinctNotEmpty {
                list["minItems"] = json!(1);
            }
            list
        }
    }
}
