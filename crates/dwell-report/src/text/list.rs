//! The list of runs and experiments, for people.

use dwell_store::unix_secs_of;

use super::{Fit, bytes, count, counted, or_dash, ratio, table_within, visible_in_line};
use crate::{EntryState, ExperimentEntry, ResultsList, RunEntry};

const RUN_HEADER: [&str; 12] =
    ["run", "model", "engine", "age", "state", "rows", "tokens", "tokens/s", "validity", "quality", "size", "path"];
/// What gives way on a narrow terminal, first things first.
const RUN_FIT: [Fit; 10] = [
    Fit::LeaveOut("path"),
    Fit::Shorten("model", 16),
    Fit::LeaveOut("engine"),
    Fit::LeaveOut("quality"),
    Fit::LeaveOut("rows"),
    Fit::Shorten("run", 24),
    Fit::LeaveOut("size"),
    Fit::LeaveOut("validity"),
    Fit::LeaveOut("tokens"),
    Fit::LeaveOut("tokens/s"),
];
const EXPERIMENT_HEADER: [&str; 6] = ["experiment", "name", "age", "state", "runs", "path"];
const EXPERIMENT_FIT: [Fit; 2] = [Fit::LeaveOut("path"), Fit::Shorten("name", 16)];

/// Runs, then experiments, then what is wrong with damaged ones. Without a width nothing is left out.
pub fn list_of_runs_text(list: &ResultsList, now_unix_secs: u64, width_chars: Option<usize>) -> String {
    let width_chars = width_chars.unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    if !list.runs.is_empty() {
        let lines = list.runs.iter().map(|run| run_line(run, now_unix_secs));
        parts.push(with_header(&RUN_HEADER, lines, width_chars, &RUN_FIT));
    }
    if !list.experiments.is_empty() {
        let lines = list.experiments.iter().map(|experiment| experiment_line(experiment, now_unix_secs));
        parts.push(with_header(&EXPERIMENT_HEADER, lines, width_chars, &EXPERIMENT_FIT));
    }
    let damaged = list.runs.iter().filter(|run| run.state == EntryState::Damaged);
    let problems: String = damaged.map(problem_line).collect();
    parts.push(problems + &total_line(list));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn with_header(header: &[&str], lines: impl Iterator<Item = Vec<String>>, width_chars: usize, fit: &[Fit]) -> String {
    let header = header.iter().map(|&name| name.to_owned()).collect();
    let lines: Vec<Vec<String>> = [header].into_iter().chain(lines).collect();
    table_within(&lines, width_chars, fit)
}

fn run_line(run: &RunEntry, now_unix_secs: u64) -> Vec<String> {
    vec![
        run.run_id.clone(),
        run.model_id.clone(),
        or_dash(run.engine.clone(), |engine| engine),
        age(&run.started_at_utc, now_unix_secs),
        run.state.name().to_owned(),
        or_dash(run.rows, count),
        or_dash(run.generated_tokens, count),
        or_dash(run.decode_tokens_per_s, ratio),
        or_dash(run.validity.clone(), |validity| validity),
        or_dash(run.quality.clone(), |quality| quality),
        bytes(run.size_bytes),
        run.path.display().to_string(),
    ]
}

fn experiment_line(experiment: &ExperimentEntry, now_unix_secs: u64) -> Vec<String> {
    let planned = or_dash(experiment.planned_runs, count);
    vec![
        experiment.experiment_id.clone(),
        or_dash(experiment.name.clone(), |name| name),
        age(&experiment.started_at_utc, now_unix_secs),
        experiment.state.name().to_owned(),
        format!("{} of {planned}", count(experiment.finished_runs)),
        experiment.path.display().to_string(),
    ]
}

fn problem_line(run: &RunEntry) -> String {
    let line = format!("{}: {}", run.path.display(), run.problem.as_deref().unwrap_or("unreadable"));
    format!("damaged   {}\n", visible_in_line(&line))
}

fn total_line(list: &ResultsList) -> String {
    let runs = counted(list.runs.len() as u64, "run");
    let experiments = match list.experiments.len() as u64 {
        0 => String::new(),
        experiments => format!(", {}", counted(experiments, "experiment")),
    };
    format!("{runs}{experiments}, {}\n", bytes(list.size_bytes()))
}

/// How long ago a moment was, in one unit.
fn age(at_utc: &str, now_unix_secs: u64) -> String {
    let Some(at) = unix_secs_of(at_utc) else { return "–".to_owned() };
    match now_unix_secs.saturating_sub(at) {
        secs if secs < 60 => format!("{secs} s"),
        secs if secs < 60 * 60 => format!("{} min", secs / 60),
        secs if secs < 48 * 60 * 60 => format!("{} h", secs / (60 * 60)),
        secs => format!("{} d", secs / (24 * 60 * 60)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn run() -> RunEntry {
        RunEntry {
            path: PathBuf::from("results/smollm2-135m-instruct.q4_1/20260102T030405Z-338e91"),
            run_id: "20260102T030405Z-338e91".to_owned(),
            model_id: "smollm2-135m-instruct.q4_1".to_owned(),
            engine: Some("llama_cpp".to_owned()),
            experiment_id: None,
            started_at_utc: "2026-01-02T03:04:05Z".to_owned(),
            state: EntryState::Complete,
            rows: Some(206_683),
            prompt_tokens: Some(22),
            generated_tokens: Some(128),
            decode_tokens_per_s: Some(118.04),
            validity: Some("clean".to_owned()),
            quality: Some("PASS".to_owned()),
            size_bytes: 3 << 20,
            problem: None,
        }
    }

    fn text(width_chars: Option<usize>) -> String {
        let list = ResultsList { runs: vec![run()], experiments: Vec::new() };
        let now = unix_secs_of("2026-01-02T05:04:05Z").unwrap_or_default();
        list_of_runs_text(&list, now, width_chars)
    }

    #[test]
    fn a_wide_terminal_gets_every_column() {
        let expected = "\
run                                           model     engine  age     state     rows  tokens  tokens/s  validity  quality      size                                                        path
20260102T030405Z-338e91  smollm2-135m-instruct.q4_1  llama_cpp  2 h  complete  206,683     128       118     clean     PASS  3.00 MiB  results/smollm2-135m-instruct.q4_1/20260102T030405Z-338e91

1 run, 3.00 MiB
";
        assert_eq!(text(None), expected);
    }

    #[test]
    fn eighty_columns_keep_what_matters_most() {
        let narrow = text(Some(80));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        assert!(
            narrow.starts_with("run                                 model  age     state  tokens  tokens/s"),
            "{narrow}"
        );
        assert!(narrow.contains("smollm2-…ct.q4_1"), "{narrow}");
    }
}
