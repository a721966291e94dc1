//! `dwell analyse`: the metrics of a finished run.

use std::process::ExitCode;

use dwell_run::{RegionSummary, analyse_run};
use dwell_store::RunDir;

use crate::args::AnalyseArgs;
use crate::messages::hinted;
use crate::output::print_result;
use crate::summary_text;

pub(crate) fn run(args: &AnalyseArgs) -> anyhow::Result<ExitCode> {
    let run = RunDir::open(&args.run).map_err(hinted)?;
    let report = analyse_run(&run, args.metrics.options()).map_err(hinted)?;
    if args.json {
        super::print_json(&report)?;
    } else {
        let window_s = report.window.map_or(0.0, |window| window.duration_s());
        let regions = RegionSummary::all(&report);
        print_result(&summary_text::region_table(&regions, window_s, report.definitions.name()))?;
    }
    Ok(ExitCode::SUCCESS)
}
