//! Arguments of `dwell trace`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, Args};
use dwell_events::CollectorName;

use super::{MetricsArgs, WatchingArgs, one_of};

#[derive(Args)]
#[command(mut_args(without_kv_events))]
pub(crate) struct TraceArgs {
    /// GGUF file that the command loads; adds file offsets of weights, and KV cache bytes per token.
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// Name of the model's folder in the results. Default: name of the model file or the program.
    #[arg(long, value_name = "ID")]
    pub(crate) model_id: Option<String>,
    #[command(flatten)]
    pub(crate) watching: WatchingArgs,
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// Results directory.
    #[arg(short, long, value_name = "DIR", default_value = "results")]
    pub(crate) output: PathBuf,
    /// Name of the run; must not exist yet. Default: the time and random digits.
    #[arg(long, value_name = "ID")]
    pub(crate) run_id: Option<String>,
    /// Print the summary as JSON, after the output of the command.
    #[arg(long)]
    pub(crate) json: bool,
    /// Command and its arguments. With --quiet, dwell prints no summary to standard output.
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// KV events come from servers that dwell sends requests to; a command is watched with the other collectors.
fn without_kv_events(option: Arg) -> Arg {
    if ["collect", "fallback"].contains(&option.get_id().as_str()) {
        return option.value_parser(one_of(CollectorName::OF_PROGRAMS, CollectorName::from_name));
    }
    option
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::Cli;

    #[test]
    fn kv_events_are_not_offered() {
        let parses = |name: &str| Cli::try_parse_from(["dwell", "trace", "--collect", name, "--", "true"]).is_ok();
        assert!(parses("process") && parses("pressure") && parses("tensor_ops") && parses("pages"));
        assert!(!parses("kv_events"));
        let falls_back = |name: &str| Cli::try_parse_from(["dwell", "trace", "--fallback", name, "--", "true"]).is_ok();
        assert!(falls_back("alloc,process") && !falls_back("kv_events"));
    }
}
