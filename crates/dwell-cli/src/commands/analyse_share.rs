//! `dwell analyse --approximate`: estimates from a share of the pages, with their errors.

use std::process::ExitCode;

use dwell_analysis::{ApproximateBasis, ApproximateFigure, Approximation, Definitions, Metric};
use dwell_metrics::approximate_run;
use dwell_report::RunResults;
use dwell_report::text::{count, table};
use dwell_store::RunDir;

use crate::args::AnalyseArgs;
use crate::messages::{Failure, hinted};
use crate::output::{print_result, step};

pub(super) fn run(run: &RunDir, args: &AnalyseArgs, share: f64) -> anyhow::Result<ExitCode> {
    let options = args.figures.options();
    if options.definitions != Definitions::Dwell {
        let message =
            format!("--approximate estimates by dwell's definitions, and found {}", options.definitions.name());
        return Err(Failure::new(message).hint("leave out --definitions, or --approximate").into());
    }
    let mut approximation =
        step("estimating the metrics", || approximate_run(run, options.thresholds, share)).map_err(hinted)?;
    let metadata = RunResults::load(run).map(|results| results.metadata).unwrap_or_default();
    if metadata.time_unit().is_some() {
        approximation.withhold_times();
    }
    match args.json {
        true => super::print_json(&approximation)?,
        false => print_result(&text(&approximation, &args.metrics))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn text(approximation: &Approximation, metrics: &[Metric]) -> String {
    let percent = approximation.approximate_share * 100.0;
    let mut text = format!(
        "approximate: {percent} % of the pages in {} groups, of {} rows; intervals are 95 %\n",
        approximation.groups,
        count(approximation.trace_rows)
    );
    for of_type in &approximation.region_types {
        let is_shown = |figure: &&ApproximateFigure| {
            metrics.is_empty() || figure.metric.is_none_or(|metric| metrics.contains(&metric))
        };
        let shown = of_type.figures.iter().filter(is_shown);
        let heading = [&*of_type.region_type, "estimate", "from", "to", "basis"].map(str::to_owned).to_vec();
        let lines: Vec<Vec<String>> =
            std::iter::once(heading).chain(shown.map(|figure| line(figure, percent))).collect();
        text.push('\n');
        text.push_str(&table(&lines));
    }
    text
}

fn line(figure: &ApproximateFigure, percent: f64) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.6}"));
    let basis = match figure.basis {
        ApproximateBasis::AllRows => "all rows".to_owned(),
        ApproximateBasis::ShareOfPages => format!("approximate, {percent} % of the pages"),
        ApproximateBasis::ExtremeOfShare => "not estimable: the extreme of a share".to_owned(),
        ApproximateBasis::StepsOfShare => "not estimable: steps of a share".to_owned(),
        ApproximateBasis::TooFewPages => "not estimable: too few pages of the sample".to_owned(),
        ApproximateBasis::BoundOfShare => "not estimable: a bound of another figure".to_owned(),
    };
    vec![figure.column.to_owned(), number(figure.value), number(figure.low), number(figure.high), basis]
}
