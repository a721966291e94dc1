//! The pages list every option of every command, as the command itself describes it.

#[path = "../../../../tests/generated.rs"]
mod generated;

use std::collections::BTreeSet;

use clap::{Arg, Args, Command, CommandFactory};
use generated::{check_generated, generated_parts, markdown_table};

use super::{Cli, GenerationArgs};

const COMMANDS_PAGE: &str = "docs/commands.md";
const ENGINE_PAGE: &str = "docs/engines/llama_cpp.md";
/// What `dwell run` adds to the options of the engine.
const ENGINE_OPTIONS_OF_RUN: [&str; 5] = ["actions", "batch_size", "parallel", "kv_unified", "context_shift"];

/// A table of options: page, name, and which options of a command it has.
struct OptionTable {
    page: &'static str,
    name: String,
    options: Vec<Arg>,
}

impl OptionTable {
    /// Whether there is nothing to list: `--json` alone is named in the text.
    fn is_json_alone(&self) -> bool {
        self.options.iter().all(|option| option.get_id() == "json")
    }

    fn text(&self) -> String {
        markdown_table(["option", "default", "meaning"], self.options.iter().map(row))
    }
}

/// Every command that can be typed, with the words that lead to it.
fn commands() -> Vec<(String, Command)> {
    let mut root = Cli::command();
    root.build();
    let (mut open, mut found) = (vec![("dwell".to_owned(), root)], Vec::new());
    while let Some((words, command)) = open.pop() {
        let subcommands: Vec<&Command> = command.get_subcommands().filter(|command| is_shown(command)).collect();
        let named = |command: &Command| (format!("{words} {}", command.get_name()), command.clone());
        open.extend(subcommands.iter().copied().map(named));
        // Some commands do something of their own beside what their subcommands do.
        if subcommands.is_empty() || !options(&command).is_empty() {
            found.push((words, command));
        }
    }
    found
}

fn is_shown(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

fn options(command: &Command) -> Vec<Arg> {
    let is_own = |option: &&Arg| {
        !option.is_positional() && !option.is_global_set() && !matches!(option.get_id().as_str(), "help" | "version")
    };
    command.get_arguments().filter(is_own).cloned().collect()
}

/// The options that every command takes.
fn global_options() -> OptionTable {
    let command = Cli::command();
    let options = command.get_arguments().filter(|option| option.is_global_set()).cloned().collect();
    OptionTable { page: COMMANDS_PAGE, name: "options of every command".to_owned(), options }
}

/// Ids of the options that every command that runs the engine takes.
fn generation_options() -> BTreeSet<String> {
    let engine = GenerationArgs::augment_args(Command::new("engine"));
    engine.get_arguments().map(|option| option.get_id().to_string()).collect()
}

/// Every table of options.
fn tables() -> Vec<OptionTable> {
    let generation = generation_options();
    let of_engine: BTreeSet<String> =
        generation.iter().cloned().chain(ENGINE_OPTIONS_OF_RUN.map(str::to_owned)).collect();
    let is_of_engine = |option: &Arg| of_engine.contains(option.get_id().as_str());
    let mut tables = vec![global_options()];
    for (words, command) in commands() {
        let options = options(&command);
        let ids: BTreeSet<String> = options.iter().map(|option| option.get_id().to_string()).collect();
        // Another command may have an option of the same name for something else.
        let runs_engine = ids.is_superset(&generation);
        let (engine, others): (Vec<Arg>, Vec<Arg>) =
            options.into_iter().partition(|option| runs_engine && is_of_engine(option));
        if words == "dwell run" {
            tables.push(OptionTable { page: ENGINE_PAGE, name: "options of the engine".to_owned(), options: engine });
        }
        let (plain, headed): (Vec<Arg>, Vec<Arg>) =
            others.into_iter().partition(|option| option.get_help_heading().is_none());
        let plain = OptionTable { page: COMMANDS_PAGE, name: format!("options of {words}"), options: plain };
        let headed =
            OptionTable { page: COMMANDS_PAGE, name: format!("options of {words} for servers"), options: headed };
        tables.extend([plain, headed].into_iter().filter(|table| !table.is_json_alone()));
    }
    tables
}

/// Names, default and meaning.
fn row(option: &Arg) -> [String; 3] {
    let help = option.get_help().map(ToString::to_string).unwrap_or_default();
    let (meaning, stated_default) = help.split_once(" Default: ").unwrap_or((&help, ""));
    [names(option), default(option, stated_default), meaning_with_values(option, meaning)]
}

fn names(option: &Arg) -> String {
    let short = option.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    format!("{short}`--{}`", option.get_long().expect("every option has a long name"))
}

/// What clap knows, or what the sentence says.
fn default(option: &Arg, stated: &str) -> String {
    let values: Vec<String> =
        option.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    let takes_value = option.get_action().takes_values();
    match values.join(",") {
        known if takes_value && !known.is_empty() => format!("`{known}`"),
        _ => stated.trim_end_matches('.').to_owned(),
    }
}

fn meaning_with_values(option: &Arg, meaning: &str) -> String {
    let values: Vec<String> =
        option.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    let meaning = meaning.trim_end_matches('.').replace('|', "\\|");
    let takes_choice = option.get_action().takes_values() && !values.is_empty();
    if takes_choice { format!("{meaning}: {}", values.join(", ")) } else { meaning }
}

#[test]
fn every_option_of_every_command_is_documented_and_no_other_is() {
    let tables = tables();
    for table in &tables {
        check_generated(table.page, &table.name, &table.text());
    }
    let needed: BTreeSet<&str> =
        tables.iter().filter(|table| table.page == COMMANDS_PAGE).map(|table| table.name.as_str()).collect();
    let found = generated_parts(COMMANDS_PAGE);
    let found: BTreeSet<&str> =
        found.iter().map(String::as_str).filter(|name| name.starts_with("options of ")).collect();
    assert_eq!(found, needed);
}
