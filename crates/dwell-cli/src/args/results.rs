//! Arguments of the commands that read runs.

use std::path::PathBuf;

use clap::Args;
use dwell_analysis::{Metric, Part};
use dwell_report::ExclusionReason;

use super::values::byte_count;
use super::{MetricsArgs, one_of};

#[derive(Args)]
pub(crate) struct AnalyseArgs {
    /// Run directory, results directory, or the folder of a model in one. Several runs are aggregated.
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) figures: MetricsArgs,
    /// Metrics to show or aggregate. reuse_distance, bandwidth, hot_cold, read_age and endurance are computed only if they are
    /// named here. Default: the others.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = one_of(Metric::NAMES, Metric::from_name))]
    pub(crate) metrics: Vec<Metric>,
    /// Length of the windows of time of bandwidth, in milliseconds. Default: 10.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) window_ms: Option<u32>,
    /// Aggregate only the runs of this experiment, by id or name.
    #[arg(long, value_name = "ID|NAME")]
    pub(crate) experiment: Option<String>,
    /// Include runs that do not count for these reasons: failed, partial, warmup, untraced, relabelled, no_figures,
    /// quality_fail, contaminated.
    #[arg(long, value_name = "REASONS", value_delimiter = ',', value_parser = exclusion_reason)]
    pub(crate) include: Vec<ExclusionReason>,
    /// Folder for metrics.csv, metrics_by_region.csv, retention_histogram.csv, report.json and the tables of metrics on request of
    /// one run; or for summary.csv, summary.json and plots of the aggregate.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Replace existing files.
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) scale: ScaleArgs,
}

/// How a trace is analysed that is too large for one pass or one machine.
#[derive(Args)]
pub(crate) struct ScaleArgs {
    /// Keep the memory of the process within this size, with the same results: the trace is read several times if need be.
    /// At least 128MiB.
    #[arg(long, value_name = "SIZE", value_parser = byte_count, conflicts_with_all = ["part", "merge_parts"])]
    pub(crate) memory_limit: Option<u64>,
    /// Estimate the metrics from this share of the pages, as in --approximate=2%, with 95 % intervals. Share if none is
    /// given: 10%.
    #[arg(
        long,
        value_name = "SHARE",
        value_parser = parse_share,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10%",
        conflicts_with_all = ["memory_limit", "part", "merge_parts", "explain", "output"]
    )]
    pub(crate) approximate: Option<f64>,
    /// Analyse one part of the trace, number K of N from 1, and write what it adds to the report.
    #[arg(long, value_name = "K/N", value_parser = parse_part, requires = "part_output", conflicts_with_all = ["json", "metrics", "output"])]
    pub(crate) part: Option<Part>,
    /// File for what the part adds to the report.
    #[arg(long, value_name = "FILE", requires = "part")]
    pub(crate) part_output: Option<PathBuf>,
    /// Print the report from the files of all parts instead of reading the trace.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "part")]
    pub(crate) merge_parts: Vec<PathBuf>,
    /// Print what would be read and held, without analysing the trace.
    #[arg(long, conflicts_with_all = ["part", "merge_parts", "metrics", "output"])]
    pub(crate) explain: bool,
    /// Parts to explain. Default: as many as --memory-limit needs.
    #[arg(long, value_name = "N", requires = "explain", value_parser = clap::value_parser!(u32).range(1..=i64::from(Part::MOST)))]
    pub(crate) parts: Option<u32>,
}

impl ScaleArgs {
    /// The first option that was given and that is for one run alone.
    pub(crate) fn option_of_a_run(&self) -> Option<&'static str> {
        let given = [
            ("--part", self.part.is_some()),
            ("--merge-parts", !self.merge_parts.is_empty()),
            ("--explain", self.explain),
            ("--approximate", self.approximate.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }
}

/// A share: `10%`, `0.1`.
fn parse_share(text: &str) -> Result<f64, String> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.trim().parse::<f64>().map_err(|_| "a share is a number as in 10% or 0.1".to_owned())? / unit;
    if share > 0.0 && share <= 1.0 { Ok(share) } else { Err("it must be above 0 and at most 100%".to_owned()) }
}

fn parse_part(text: &str) -> Result<Part, String> {
    let numbers = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
    let part = numbers.and_then(|(number, of)| Part::new(number, of));
    part.ok_or_else(|| format!("a part is K/N with K from 1 to N, and N is at most {}", Part::MOST))
}

/// A run that was not finished has no figures to take in.
pub(crate) fn exclusion_reason(name: &str) -> Result<ExclusionReason, String> {
    let known = ExclusionReason::ALL.into_iter().filter(|reason| reason.can_be_included());
    let names = || known.clone().map(ExclusionReason::name).collect::<Vec<_>>().join(", ");
    known.clone().find(|reason| reason.name() == name).ok_or_else(|| format!("known are {}", names()))
}

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// Run directory, results directory, or the folder of a model in one.
    pub(crate) path: PathBuf,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct RecoverArgs {
    /// Run directory, results directory, or the folder of a model in one.
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// Print the summary as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_above_nothing_and_at_most_all() {
        assert_eq!((parse_share("10%"), parse_share("0.25"), parse_share("100 %")), (Ok(0.1), Ok(0.25), Ok(1.0)));
        for text in ["", "0", "101%", "-1", "ten", "nan"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn parts_are_numbered_from_one_to_their_number() {
        assert_eq!(parse_part("2/3"), Ok(Part::new(2, 3).unwrap()));
        for text in ["", "2", "0/3", "4/3", "1/0", "-1/3", "1/3/5", "1/65537", "a/b"] {
            assert!(parse_part(text).is_err(), "{text}");
        }
    }
}
