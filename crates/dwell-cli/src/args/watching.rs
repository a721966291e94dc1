//! How a run is watched, whatever runs in it.

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use dwell_collectors::MEMORY_SAMPLING;
use dwell_events::CollectorName;
use dwell_events::engine::TimeResolution;

use super::one_of;

#[derive(Args)]
struct CollectOption {
    /// Collectors to use; tensor_ops records accesses, process samples memory.
    #[arg(
        long,
        value_name = "NAME",
        value_parser = one_of(CollectorName::NAMES, CollectorName::from_name),
        value_delimiter = ',',
        default_values = CollectorName::BY_DEFAULT,
    )]
    collect: Vec<CollectorName>,
}

/// The collectors, and whether somebody named them: one that was named has to work.
pub(crate) struct CollectArgs {
    pub(crate) names: Vec<CollectorName>,
    is_given: bool,
}

impl CollectArgs {
    /// Whether a collector is to be used.
    pub(crate) fn has(&self, name: CollectorName) -> bool {
        self.names.contains(&name)
    }

    /// Whether a collector was named rather than taken by default.
    pub(crate) fn is_named(&self, name: CollectorName) -> bool {
        self.is_given && self.has(name)
    }
}

impl FromArgMatches for CollectArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let names = CollectOption::from_arg_matches(matches)?.collect;
        Ok(Self { names, is_given: matches.value_source("collect") == Some(ValueSource::CommandLine) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for CollectArgs {
    fn augment_args(command: Command) -> Command {
        CollectOption::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        CollectOption::augment_args_for_update(command)
    }
}

#[derive(Args)]
pub(crate) struct WatchingArgs {
    #[command(flatten)]
    pub(crate) collect: CollectArgs,
    /// Collectors that may take the place of one that does not work, in this order. With any, all are tried before the run.
    #[arg(
        long,
        value_name = "NAME",
        value_parser = one_of(CollectorName::NAMES, CollectorName::from_name),
        value_delimiter = ',',
    )]
    pub(crate) fallback: Vec<CollectorName>,
    /// Time resolution of accesses within a step.
    #[arg(long, value_parser = one_of(TimeResolution::NAMES, TimeResolution::from_name), default_value = "op")]
    pub(crate) time_resolution: TimeResolution,
    /// Sampling interval of collectors, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) sample_interval_ms: u64,
    /// Loads, stores or operations from one sample of perf_mem to the next.
    #[arg(long, value_name = "COUNT", default_value_t = MEMORY_SAMPLING.period, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) perf_period: u64,
    /// Least latency of loads that perf_mem samples, in cycles; on processors that can choose.
    #[arg(long, value_name = "CYCLES", default_value_t = MEMORY_SAMPLING.least_latency_cycles, value_parser = clap::value_parser!(u64).range(1..=65535))]
    pub(crate) perf_ldlat: u64,
    /// Seconds to observe the machine before the run; 0 skips it and leaves the validity unknown.
    #[arg(long, value_name = "SECS", allow_negative_numbers = true, default_value_t = 0.5)]
    pub(crate) baseline_secs: f64,
    /// Sampling interval of temperature and frequency, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(10..))]
    pub(crate) sensor_interval_ms: u64,
}
