//! The table of keys, the values, the JSON Schema and the documentation say the same.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;
#[path = "../../../tests/generated.rs"]
mod generated;
#[path = "../../../tests/skip.rs"]
mod skip;

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use common::{LEAST, experiment, refused, root};
use dwell_config::{Key, Kind, json_schema, keys, prompt_keys};
use generated::{check_generated, generated_parts, markdown_table};
use serde_json::{Value, json};
use skip::skip;

fn paths() -> BTreeSet<String> {
    keys().iter().map(|key| key.path.to_owned()).collect()
}

/// Paths of the leaves of the schema.
fn schema_paths(schema: &Value, path: &str, paths: &mut BTreeSet<String>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        assert_eq!(schema["additionalProperties"], json!(false), "{path}");
        for (name, child) in properties {
            let dot = if path.is_empty() { "" } else { "." };
            schema_paths(child, &format!("{path}{dot}{name}"), paths);
        }
    } else if schema.pointer("/items/properties").is_some() {
        schema_paths(&schema["items"], &format!("{path}[]"), paths);
    } else {
        assert!(schema["description"].is_string(), "{path} has no description");
        paths.insert(path.to_owned());
    }
}

/// Paths of the leaves of an experiment.
fn value_paths(value: &Value, path: &str, paths: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, child) in object {
                let dot = if path.is_empty() { "" } else { "." };
                value_paths(child, &format!("{path}{dot}{name}"), paths);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items.iter().for_each(|item| value_paths(item, &format!("{path}[]"), paths));
        }
        _ => _ = paths.insert(path.to_owned()),
    }
}

#[test]
fn the_schema_has_every_key_and_no_other() {
    let mut found = BTreeSet::new();
    schema_paths(&json_schema(), "", &mut found);
    assert_eq!(found, paths());
}

#[test]
fn an_experiment_has_every_key_and_no_other() {
    // Left out at its default: experiments that began before the key existed go on.
    let models = "models: [{id: a, path: a.gguf, engine: wllama, server: {device: wasm}}]";
    let file = format!("experiment: {{name: x}}\n{models}\nanalyser: {{thresholds: {{at_tokens_per_sec: 30}}}}\n");
    let mut found = BTreeSet::new();
    value_paths(&serde_json::to_value(experiment(&file)).unwrap(), "", &mut found);
    assert_eq!(found, paths());
}

/// A file that sets one key of a section to a text.
fn with_value(key: &Key, value: &str) -> String {
    if let Some(name) = key.path.strip_prefix("models[].server.") {
        let engine = if name == "device" { "wllama" } else { "ollama" };
        return format!(
            "experiment: {{name: x}}\nmodels: [{{id: a, path: a, engine: {engine}, server: {{{name}: {value}}}}}]\n"
        );
    }
    if let Some(name) = key.path.strip_prefix("models[].") {
        let server = if matches!(value, "openai" | "vllm" | "sglang") { ", server: {url: localhost}" } else { "" };
        return format!("experiment: {{name: x}}\nmodels: [{{id: a, path: a, {name}: {value}{server}}}]\n");
    }
    let mut text = LEAST.to_owned();
    let mut names = key.path.split('.').peekable();
    for depth in 0.. {
        let Some(name) = names.next() else { break };
        let end = if names.peek().is_some() { "\n".to_owned() } else { format!(" {value}\n") };
        text += &format!("{}{name}:{end}", "  ".repeat(depth));
    }
    text
}

#[test]
fn every_choice_of_every_key_is_accepted_and_no_other() {
    let mut choices = 0;
    for key in keys() {
        let (values, is_list) = match key.kind {
            Kind::Choice(values) => (values, false),
            Kind::List(Kind::Choice(values), _) => (*values, true),
            _ => continue,
        };
        let written = |value: &str| if is_list { format!("[{value}]") } else { value.to_owned() };
        for value in values {
            experiment(&with_value(key, &written(value)));
            choices += 1;
        }
        assert_eq!(refused(&with_value(key, &written("surely-not"))).problems.len(), 1);
    }
    assert!(choices > 50);
}

/// The part of the documentation that a key is in: its section, and what belongs to a server apart.
fn part(key: &Key) -> &'static str {
    const SERVER: &str = "models[].server";
    if key.path.starts_with(SERVER) { SERVER } else { key.path.split(['.', '[']).next().unwrap() }
}

fn table(keys: &[&Key], prefix: &str) -> String {
    let row = |key: &&Key| {
        let path = key.path.strip_prefix(prefix).unwrap_or(key.path);
        [format!("`{path}`"), key.type_text(), key.default_text(), key.effect.to_owned()]
    };
    markdown_table(["key", "takes", "default", "effect"], keys.iter().map(row))
}

#[test]
fn the_documentation_of_experiments_has_every_key_and_no_other() {
    const PAGE: &str = "docs/formats/experiment.md";
    let mut parts: Vec<&str> = keys().iter().map(part).collect();
    parts.dedup();
    assert_eq!(generated_parts(PAGE), parts.iter().map(|part| format!("keys of {part}")).collect::<Vec<_>>());
    for name in parts {
        let keys: Vec<&Key> = keys().iter().filter(|key| part(key) == name).collect();
        check_generated(PAGE, &format!("keys of {name}"), &table(&keys, ""));
    }
}

#[test]
fn the_documentation_of_prompts_has_every_key_and_no_other() {
    let keys: Vec<&Key> = prompt_keys().iter().collect();
    check_generated("docs/prompts.md", "keys of a prompt", &table(&keys, "[]."));
}

#[test]
fn a_validator_of_json_schema_agrees_on_the_shipped_files() {
    const SCRIPT: &str = "\
import json, pathlib, sys
import jsonschema, yaml
schema = json.load(sys.stdin)
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
for name in ('default_experiment', 'kv_cache_study', 'kv_study', 'kv_study_browser', 'kv_study_quick', 'tiny_experiment'):
    document = yaml.safe_load(pathlib.Path(sys.argv[1], 'config', name + '.yaml').read_text())
    validator.validate(document)
    for break_it in (lambda d: d.update(sweeps={}), lambda d: d['sweep'].update(context_lengths=[]),
                     lambda d: d['models'][0].pop('id'), lambda d: d.update(analyser={'bins': 1})):
        broken = json.loads(json.dumps(document))
        break_it(broken)
        assert not validator.is_valid(broken), (name, broken)
";
    let can_run = Command::new("python3").args(["-c", "import jsonschema, yaml"]).stderr(Stdio::null()).status();
    if !can_run.is_ok_and(|status| status.success()) {
        let name = "a_validator_of_json_schema_agrees_on_the_shipped_files";
        return skip(name, "no python3 with jsonschema and yaml");
    }
    let mut python = Command::new("python3").args(["-c", SCRIPT]).arg(root()).stdin(Stdio::piped()).spawn().unwrap();
    python.stdin.take().unwrap().write_all(json_schema().to_string().as_bytes()).unwrap();
    assert!(python.wait().unwrap().success());
}
