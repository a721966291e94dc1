//! `dwell relabel`: labels a finished trace anew.

use std::collections::BTreeSet;
use std::process::ExitCode;

use dwell_analysis::Options;
use dwell_build::{BuildListener, RelabelReport, RelabelRequest, read_rules, relabel_run};
use dwell_files::partial_path;
use dwell_label::RuleSet;
use dwell_report::text::{count, counted, table};
use dwell_store::RunState;

use crate::args::RelabelArgs;
use crate::interruption::Interruption;
use crate::messages::{EXIT_WITH_LOSS, hinted};
use crate::new_output::check_folder;
use crate::output::{print_result, step, unprinted};
use crate::terminal::Terminal;

pub(crate) fn run(args: &RelabelArgs) -> anyhow::Result<ExitCode> {
    let rules = match &args.rules {
        Some(path) => read_rules(path).map_err(hinted)?,
        None => RuleSet::default_rules(),
    };
    let request = RelabelRequest {
        input: args.input.clone(),
        output: args.output.clone(),
        rules,
        policy: args.unknown,
        analysis: Options::default(),
    };
    check_folder(&args.output)?;
    Interruption::listen()?.writing_begins(partial_path(&args.output));
    let mut terminal = Terminal::new(args.json, "", 0);
    let report = step("labelling", || relabel_run(&request, &mut |share| terminal.building(share)));
    terminal.finish();
    let report = report.map_err(hinted)?;
    let printed = if args.json { super::print_json(&report) } else { print_result(&report_text(&report)) };
    printed.map_err(|error| unprinted(&error, &report.run_dir))?;
    Ok(if report.state == RunState::Partial { ExitCode::from(EXIT_WITH_LOSS) } else { ExitCode::SUCCESS })
}

fn report_text(report: &RelabelReport) -> String {
    if report.rows_in == 0 {
        return format!("the run has no accesses, so there was nothing to label\n\n{}\n", report.run_dir.display());
    }
    let names: BTreeSet<&str> = report.before.keys().map(String::as_str).chain(report.after.keys().copied()).collect();
    let mut lines = vec![["region", "before", "after"].map(str::to_owned).to_vec()];
    for name in names {
        let rows = |found: Option<&u64>| count(found.copied().unwrap_or(0));
        lines.push(vec![name.to_owned(), rows(report.before.get(name)), rows(report.after.get(name))]);
    }
    lines.push(vec!["all".to_owned(), count(report.rows_in), count(report.rows_out)]);
    let decided = report.decided_by.iter().map(|(by, rows)| format!("{by} {}", count(*rows))).collect::<Vec<_>>();
    let mut text = table(&lines);
    text.push_str(&format!("decided by {}; {}", decided.join(", "), counted(report.regions, "region")));
    if report.dropped > 0 {
        text.push_str(&format!("; {} dropped", count(report.dropped)));
    }
    if report.late > 0 {
        text.push_str(&format!("; {} after rows of a later time", count(report.late)));
    }
    text.push_str(&format!("\n\n{}\n", report.run_dir.display()));
    text
}
