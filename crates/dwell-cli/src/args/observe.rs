//! Arguments of `dwell observe`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args, Subcommand};
use dwell_kernel::Group;

use super::values::byte_count;
use super::watch::seconds;
use super::{ObserveReportArgs, one_of};

/// Reading the counters of a busy machine takes some milliseconds.
const LEAST_INTERVAL_SECS: f64 = 0.05;
const GROUP_NAMES: &[&str] = &["disk", "mem", "sched", "syscalls", "sync", "net", "psi"];

#[derive(Subcommand)]
pub(crate) enum ObserveCommand {
    /// Summarise files of observations, and find out what goes with slow tokens.
    Report(ObserveReportArgs),
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, group = ArgGroup::new("chosen").args(["pid", "cgroup", "comm", "run"]))]
pub(crate) struct ObserveArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ObserveCommand>,
    /// Length of an interval in seconds, at least 0.05.
    #[arg(long, allow_negative_numbers = true, value_name = "SECS", value_parser = interval, default_value = "5")]
    pub(crate) interval: Duration,
    /// File that a line of each interval is appended to.
    #[arg(short, long, value_name = "FILE", default_value = "observe.jsonl")]
    pub(crate) output: PathBuf,
    /// Write no file.
    #[arg(long, conflicts_with = "output")]
    pub(crate) no_output: bool,
    /// Lines that wait before they are written together; a kill loses those that wait.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), default_value = "1")]
    pub(crate) flush_every: u32,
    /// Force written lines onto the disk.
    #[arg(long)]
    pub(crate) fsync: bool,
    /// Size at which the file is renamed and a new one begun, as in 100MiB. Default: never.
    #[arg(long, value_name = "SIZE", value_parser = byte_count)]
    pub(crate) rotate_size: Option<u64>,
    /// Renamed files to keep.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), default_value = "5")]
    pub(crate) rotate_keep: u32,
    /// Groups of fields to observe. Default: all.
    #[arg(long, value_name = "GROUP", value_delimiter = ',', value_parser = one_of(GROUP_NAMES, group))]
    pub(crate) only: Vec<Group>,
    /// Observe the process with this id and its descendants.
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Option<u32>,
    /// Observe the processes of this control group, a path below /sys/fs/cgroup.
    #[arg(long, value_name = "PATH", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) cgroup: Option<String>,
    /// Observe processes and threads with this short name, of which 15 bytes count.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) comm: Option<String>,
    /// Label of every line, as in node=a; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) label: Vec<(String, String)>,
    /// Seconds after which to stop. Default: when the observed process exits, or on Ctrl-C.
    #[arg(long, allow_negative_numbers = true, value_name = "SECS", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,
    /// Stop after this many lines.
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Load no eBPF programs; read the kernel's counters only.
    #[arg(long)]
    pub(crate) no_ebpf: bool,
    /// Print each line as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Start this command, and observe it with its descendants until it exits.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) run: Vec<OsString>,
}

impl ObserveArgs {
    /// The groups that were asked for, each once.
    pub(crate) fn groups(&self) -> Vec<Group> {
        let is_chosen = |group: &Group| self.only.is_empty() || self.only.contains(group);
        Group::ALL.into_iter().filter(is_chosen).collect()
    }
}

fn group(name: &str) -> Option<Group> {
    Group::ALL.into_iter().find(|group| group.name() == name)
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = seconds(text)?;
    if interval.as_secs_f64() < LEAST_INTERVAL_SECS {
        return Err(format!("at least {LEAST_INTERVAL_SECS} s are needed"));
    }
    Ok(interval)
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a key and a value are needed, as in node=a".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_can_be_typed() {
        let names: Vec<&str> = Group::ALL.into_iter().map(Group::name).collect();
        assert_eq!(names, GROUP_NAMES);
        assert_eq!(label("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(label("=b").is_err() && label("ab").is_err());
    }
}
