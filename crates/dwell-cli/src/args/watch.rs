//! Arguments of `dwell watch`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};

/// Faster than this the samples would be of dwell more than of what it watches.
const LEAST_INTERVAL_SECS: f64 = 0.001;

#[derive(Args)]
#[command(group = ArgGroup::new("target").required(true).args(["name", "pid", "command"]))]
pub(crate) struct WatchArgs {
    /// Watch processes whose name or command line contains this text, ignoring case.
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) name: Option<String>,
    /// Watch the process with this id.
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Option<u32>,
    /// Start this command and watch it.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    /// Seconds to wait for a process with that name.
    #[arg(long, allow_negative_numbers = true, value_name = "SECS", value_parser = seconds, default_value = "10")]
    pub(crate) wait_secs: Duration,
    /// Label of the rows. Default: the value of --name, or the name of the program.
    #[arg(long, value_name = "LABEL", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) label: Option<String>,
    /// Sampling interval in seconds, at least 0.001.
    #[arg(long, allow_negative_numbers = true, value_name = "SECS", value_parser = interval, default_value = "0.1")]
    pub(crate) interval: Duration,
    /// Seconds after which to stop. Default: when all processes have exited.
    #[arg(long, allow_negative_numbers = true, value_name = "SECS", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,
    /// Stop after this many samples.
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_samples: Option<u64>,
    /// File for the samples, .csv or .parquet.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long)]
    pub(crate) force: bool,
    /// Show the live view of a started command too, which shares the terminal.
    #[arg(long, conflicts_with = "json")]
    pub(crate) live: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds is needed, as in 0.5".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "a time that is not negative is needed".to_owned())
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = seconds(text)?;
    if interval.as_secs_f64() < LEAST_INTERVAL_SECS {
        return Err(format!("at least {LEAST_INTERVAL_SECS} s are needed"));
    }
    Ok(interval)
}
