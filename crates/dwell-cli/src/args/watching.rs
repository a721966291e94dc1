//! How a run is watched, whatever runs in it.

use clap::Args;
use dwell_events::CollectorName;
use dwell_events::engine::TimeResolution;

use super::one_of;

#[derive(Args)]
pub(crate) struct WatchingArgs {
    /// Collectors to use; without tensor_ops there are no accesses, only tokens, and without process no memory samples.
    #[arg(
        long,
        value_name = "NAME",
        value_parser = one_of(CollectorName::NAMES, CollectorName::from_name),
        value_delimiter = ',',
        default_values = CollectorName::BY_DEFAULT,
    )]
    pub(crate) collect: Vec<CollectorName>,
    /// How finely accesses inside a step are timed.
    #[arg(long, value_parser = one_of(TimeResolution::NAMES, TimeResolution::from_name), default_value = "op")]
    pub(crate) time_resolution: TimeResolution,
    /// Milliseconds between two samples of a collector that samples.
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) sample_interval_ms: u64,
    /// Seconds for which the machine is watched before the run begins; 0 leaves it out, and the validity unknown.
    #[arg(long, value_name = "SECS", default_value_t = 0.5)]
    pub(crate) baseline_secs: f64,
    /// Milliseconds between two looks at temperature and frequency.
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(10..))]
    pub(crate) sensor_interval_ms: u64,
}
