//! `dwell validate`: whether an experiment can be run here.

use std::process::ExitCode;

use dwell_report::text::{bytes, counted, seconds};

use crate::args::ExperimentArgs;
use crate::experiment_file::ExperimentFile;
use crate::messages::EXIT_WITH_LOSS;
use crate::output::print_result;

pub(crate) fn run(args: &ExperimentArgs) -> anyhow::Result<ExitCode> {
    let file = ExperimentFile::look_at(args)?;
    if args.json {
        super::print_json(&file)?;
    } else {
        file.say_findings();
        print_result(&verdict(&file))?;
    }
    Ok(if file.is_runnable() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WITH_LOSS) })
}

fn verdict(file: &ExperimentFile) -> String {
    let (Some(setup), Some(collectors), Some(estimate)) = (&file.setup, &file.collectors, &file.estimate) else {
        return "not valid\n".to_owned();
    };
    if !file.is_runnable() {
        return "not valid\n".to_owned();
    }
    let used: Vec<&str> = collectors.used.iter().map(|collector| collector.name()).collect();
    format!(
        "valid: {} of {}, watched with {}, about {} and {}\n",
        counted(setup.plan.runs.len() as u64, "run"),
        counted(setup.models.len() as u64, "model"),
        used.join(" and "),
        seconds(estimate.total_s()),
        bytes(estimate.total_bytes()),
    )
}
