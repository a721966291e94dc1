//! `dwell tensors verify`: whether a stream holds what was written.

use std::process::ExitCode;

use dwell_report::text::{bytes, count, counted};
use dwell_tensors::{Problem, VerifyReport, verify};

use crate::args::TensorsFileArgs;
use crate::messages::{EXIT_WITH_LOSS, hinted, print_hints};
use crate::output::print_result;

pub(crate) fn run(args: &TensorsFileArgs) -> anyhow::Result<ExitCode> {
    let report = verify(&args.file).map_err(hinted)?;
    if args.json {
        super::print_json(&report)?;
    } else {
        print_result(&report_text(&report))?;
    }
    if !report.is_finished {
        print_hints(&[format!("end it with `dwell tensors recover '{}'`", args.file.display())]);
    }
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WITH_LOSS) })
}

fn report_text(report: &VerifyReport) -> String {
    let mut text: String = report.problems.iter().map(problem_text).collect();
    let damaged = report.problems.iter().filter(|problem| problem.packet.is_some()).count() as u64;
    text.push_str(&format!(
        "{} of {} are whole, {} stored, {} dropped, {}\n",
        count(report.packets - damaged.min(report.packets)),
        counted(report.packets, "tensor"),
        bytes(report.stored_bytes),
        count(report.dropped_packets),
        if report.is_finished { "finished" } else { "not finished" },
    ));
    text
}

fn problem_text(problem: &Problem) -> String {
    match (problem.packet, &problem.name) {
        (Some(packet), Some(name)) => format!("damaged   packet {packet} {name}: {}\n", problem.reason),
        _ => format!("unfit     {}\n", problem.reason),
    }
}
