//! `dwell plan`: every run of an experiment.

use std::process::ExitCode;

use dwell_experiment::{Estimate, Setup, SpeedBasis};
use dwell_report::text::{bytes, counted, seconds, table};
use serde::Serialize;

use crate::args::ExperimentArgs;
use crate::experiment_file::ExperimentFile;
use crate::output::print_result;

pub(crate) fn run(args: &ExperimentArgs) -> anyhow::Result<ExitCode> {
    let file = ExperimentFile::look_at(args)?;
    file.say_findings();
    let (setup, _, estimate) = file.into_parts()?;
    if args.json {
        super::print_json(&PlanReport::of(&setup, &estimate))?;
    } else {
        print_result(&plan_text(&setup, &estimate))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The plan for programs.
#[derive(Serialize)]
struct PlanReport<'a> {
    name: &'a str,
    runs: Vec<PlanLine<'a>>,
    total_s: f64,
    total_bytes: u64,
    basis: &'a SpeedBasis,
}

#[derive(Serialize)]
struct PlanLine<'a> {
    model_id: &'a str,
    name: String,
    #[serde(flatten)]
    run: &'a dwell_config::PlannedRun,
    estimated_s: f64,
    estimated_bytes: u64,
}

impl<'a> PlanReport<'a> {
    fn of(setup: &'a Setup, estimate: &'a Estimate) -> Self {
        let line = |(index, run): (usize, &'a dwell_config::PlannedRun)| PlanLine {
            model_id: &setup.models[run.model_index].id,
            name: run.name(),
            run,
            estimated_s: estimate.run_s[index],
            estimated_bytes: estimate.run_bytes[index],
        };
        Self {
            name: &setup.experiment.experiment.name,
            runs: setup.plan.runs.iter().enumerate().map(line).collect(),
            total_s: estimate.total_s(),
            total_bytes: estimate.total_bytes(),
            basis: &estimate.basis,
        }
    }
}

fn plan_text(setup: &Setup, estimate: &Estimate) -> String {
    let header = ["#", "model", "context", "batch", "output", "kv", "flash", "threads", "kind", "time", "space"];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    for (index, run) in setup.plan.runs.iter().enumerate() {
        let combination = &run.combination;
        lines.push(vec![
            (index + 1).to_string(),
            setup.models[run.model_index].id.clone(),
            combination.context_length.to_string(),
            combination.batch_size.to_string(),
            combination.output_tokens.to_string(),
            combination.kv_type.name().to_owned(),
            if combination.flash_attention { "on" } else { "off" }.to_owned(),
            combination.threads.to_string(),
            run.kind.to_string(),
            seconds(estimate.run_s[index]),
            bytes(estimate.run_bytes[index]),
        ]);
    }
    let basis = match &estimate.basis {
        SpeedBasis::EarlierRuns { runs } => format!("speed of {}", counted(*runs as u64, "earlier run")),
        SpeedBasis::Assumed => "speed assumed from the size of the models".to_owned(),
    };
    format!(
        "{}{}, about {} ({basis}) and {}\n",
        table(&lines),
        counted(setup.plan.runs.len() as u64, "run"),
        seconds(estimate.total_s()),
        bytes(estimate.total_bytes()),
    )
}
