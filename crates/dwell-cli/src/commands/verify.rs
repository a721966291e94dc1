//! `dwell verify`: every file of a run against its manifest.

use std::process::ExitCode;

use dwell_store::{VerifyReport, verify};

use crate::args::VerifyArgs;
use crate::format::count;
use crate::messages::{EXIT_WITH_LOSS, hinted};

pub(crate) fn run(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let report = verify(&args.run).map_err(hinted)?;
    if args.json {
        super::print_json(&report)?;
    } else {
        print!("{}", report_text(&report));
    }
    Ok(if report.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WITH_LOSS) })
}

fn report_text(report: &VerifyReport) -> String {
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
    text.push_str(&format!("{} files are as the manifest says\n", count(report.ok.len() as u64)));
    text
}
