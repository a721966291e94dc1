//! What comparing runs with their manifests found.

use std::fmt::Write as _;

use dwell_store::{RunOutcome, TreeReport, VerifyReport};

use super::{counted, totals};

/// One run: every file that is not as its manifest says, then how many are.
pub fn verify_text(report: &VerifyReport) -> String {
    let mut text = String::new();
    let mut list = |what: &str, items: Vec<String>| {
        items.into_iter().for_each(|item| text.push_str(&format!("{what:<9} {item}\n")));
    };
    list("changed", report.changed.iter().map(|file| file.path.clone()).collect());
    list("missing", report.missing.clone());
    list("unlisted", report.unlisted.clone());
    list(
        "unfit",
        report.table_problems.iter().map(|table| format!("{}: {}", table.table.name(), table.problem)).collect(),
    );
    let are = if report.ok.len() == 1 { "is" } else { "are" };
    text.push_str(&format!("{} {are} as the manifest says\n", counted(report.ok.len() as u64, "file")));
    text
}

/// A tree of runs: one line per run, then what `manifest.csv` says of them, then totals.
pub fn verify_tree_text(report: &TreeReport) -> String {
    let mut lines: Vec<(&str, String)> = report.runs.iter().map(|run| run_line(&run.path, &run.outcome)).collect();
    if let Some(manifest) = &report.manifest {
        let folders = manifest.rows_without_folder.iter();
        lines.extend(folders.map(|path| ("no folder", format!("{path}: manifest.csv has a row for it"))));
        let rows = manifest.folders_without_row.iter();
        lines.extend(rows.map(|path| ("no row", format!("{path}: manifest.csv does not name it"))));
        lines.extend(manifest.problem.iter().map(|problem| ("unreadable", format!("manifest.csv: {problem}"))));
    }
    let mut text = String::new();
    for (what, line) in lines {
        let _ = writeln!(text, "{what:<10} {line}");
    }
    text + &total_line(report)
}

fn run_line(path: &str, outcome: &RunOutcome) -> (&'static str, String) {
    match outcome {
        RunOutcome::Ok { files } => ("ok", format!("{path}: {}", counted(*files as u64, "file"))),
        RunOutcome::Damaged { report } => ("damaged", format!("{path}: {}", damage(report))),
        RunOutcome::Unfinished { state } => ("unfinished", format!("{path}: {}", state.name())),
        RunOutcome::Unverifiable { reason } => ("unreadable", format!("{path}: {reason}")),
    }
}

fn damage(report: &VerifyReport) -> String {
    let changed = report.changed.iter().map(|file| format!("changed {}", file.path));
    let missing = report.missing.iter().map(|path| format!("missing {path}"));
    let unfit = report.table_problems.iter().map(|table| format!("unfit {}: {}", table.table.name(), table.problem));
    changed.chain(missing).chain(unfit).collect::<Vec<_>>().join("; ")
}

fn total_line(report: &TreeReport) -> String {
    let of = |is_meant: fn(&RunOutcome) -> bool| report.runs.iter().filter(|run| is_meant(&run.outcome)).count() as u64;
    let totals = totals(&[
        (of(|outcome| matches!(outcome, RunOutcome::Ok { .. })), "ok"),
        (of(|outcome| matches!(outcome, RunOutcome::Damaged { .. })), "damaged"),
        (of(|outcome| matches!(outcome, RunOutcome::Unfinished { .. })), "unfinished"),
        (of(|outcome| matches!(outcome, RunOutcome::Unverifiable { .. })), "unreadable"),
    ]);
    let manifest = match &report.manifest {
        None => "no manifest.csv".to_owned(),
        Some(manifest) if manifest.is_ok() => format!("manifest.csv agrees, {}", counted(manifest.rows as u64, "row")),
        Some(_) => "manifest.csv does not agree".to_owned(),
    };
    let runs = counted(report.runs.len() as u64, "run");
    let separator = if totals.is_empty() { "" } else { ": " };
    format!("{runs}{separator}{totals}; {manifest}\n")
}
