//! What can be typed.

mod capture;
mod compare;
mod doctor;
#[cfg(test)]
mod documentation;
mod experiment;
mod export;
mod figure;
mod generation;
mod import;
mod list;
mod manual;
mod model;
mod observe;
mod observe_report;
mod relabel;
mod report;
mod results;
mod run;
mod server;
mod sql;
mod tensors;
mod trace;
mod values;
mod view;
mod watch;
mod watching;
mod web;

use clap::{CommandFactory, Parser, Subcommand};

pub(crate) use capture::CaptureArgs;
pub(crate) use compare::CompareArgs;
pub(crate) use doctor::DoctorArgs;
pub(crate) use experiment::ExperimentArgs;
pub(crate) use export::{ExportArgs, ExportFormat};
pub(crate) use figure::FigureArgs;
pub(crate) use generation::GenerationArgs;
pub(crate) use import::ImportCommand;
pub(crate) use list::{LsArgs, ShowArgs};
pub(crate) use manual::{CompletionsArgs, ManArgs};
pub(crate) use model::{ArchitectureArg, InfoArgs, MakeArgs, ModelCommand, PullArgs, WeightTypeArg};
pub(crate) use observe::{ObserveArgs, ObserveCommand};
pub(crate) use observe_report::ObserveReportArgs;
pub(crate) use relabel::RelabelArgs;
pub(crate) use report::ReportArgs;
pub(crate) use results::{AnalyseArgs, RecoverArgs, VerifyArgs, exclusion_reason};
pub(crate) use run::{MetricsArgs, RunArgs};
pub(crate) use server::ServerArgs;
pub(crate) use sql::{SqlArgs, SqlFormat};
pub(crate) use tensors::{
    PacketDType, TensorsCommand, TensorsConvertArgs, TensorsDiffArgs, TensorsExportArgs, TensorsFileArgs, TensorsForm,
};
pub(crate) use trace::TraceArgs;
pub(crate) use values::{AutoSwitch, Switch, one_of};
pub(crate) use view::ViewArgs;
pub(crate) use watch::WatchArgs;
pub(crate) use watching::WatchingArgs;
pub(crate) use web::WebArgs;

const EXAMPLES: &str = "\
Examples:
  # Run the default model, record every access, print what its bytes did
  dwell run

  # A model and prompt of your own, with an 8-bit KV cache
  dwell run --model model.gguf --prompt \"Once upon a time\" --kv-type q8_0 --max-tokens 256

  # List the runs, and print the summary of one
  dwell ls
  dwell show results/smollm2-135m-instruct.q4_1/<run>

  # The metrics again, by the definitions of mrm-trace
  dwell analyse results/smollm2-135m-instruct.q4_1/<run> --definitions mrm-trace

  # A script of your own that uses llama-cpp-python, as it is
  dwell trace -- python3 script.py

  # An experiment: every combination of a file, then the same again from where it was interrupted
  dwell run --config config/kv_cache_study.yaml
  dwell run --config config/kv_cache_study.yaml --resume

  # Where the memory of any server goes, with all its processes, into a table
  dwell watch --name llama-server -o samples.csv

  # A figure for a paper, as wide as a column, with its numbers as CSV
  dwell figure survival results/smollm2-135m-instruct.q4_1/<run> --format pdf

  # What every layer computes while the model answers, in a file for pyarrow, polars, DuckDB and PyTorch
  dwell capture --prompt \"Once upon a time\" -o gen.tensors

  # What a model costs in the browser
  dwell web --fetch --model model.gguf

  # A model without a network: random weights of a chosen shape
  dwell model make tiny.gguf --layers 2 --embedding 64 && dwell run --model tiny.gguf";

/// Shows how long every byte of a running language model lives, who reads it, and what should hold it.
#[derive(Parser)]
#[command(
    name = "dwell",
    version,
    long_version = crate::version::long_text(),
    after_help = EXAMPLES,
    propagate_version = true
)]
pub(crate) struct Cli {
    /// Print only the result and errors: no progress, no notes.
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Print each step and its duration.
    #[arg(short, long, global = true, help_heading = "Output")]
    pub(crate) verbose: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// The command as it is typed. Every subcommand says the version of `dwell`: `dwell run --version` would else say that
    /// of a program `dwell-run`, which there is not.
    pub(crate) fn typed_command() -> clap::Command {
        with_display_name(Self::command())
    }
}

fn with_display_name(command: clap::Command) -> clap::Command {
    command.display_name("dwell").mut_subcommands(with_display_name)
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a model and record every access to its weights, KV cache and activations.
    Run(Box<RunArgs>),
    /// Run a command, record every access that it makes through ggml, and sample the memory of its processes.
    Trace(Box<TraceArgs>),
    /// Sample the memory of a program and all its processes until it exits.
    Watch(WatchArgs),
    /// Observe disks, scheduling, faults, system calls and TCP from the kernel.
    Observe(Box<ObserveArgs>),
    /// Run a model and store activations in a tensor stream.
    Capture(Box<CaptureArgs>),
    /// Check an experiment file, and whether the experiment can run on this machine.
    Validate(ExperimentArgs),
    /// List the runs of an experiment, with estimates of time and disk space.
    Plan(ExperimentArgs),
    /// List the runs and experiments of a results directory, newest first.
    Ls(LsArgs),
    /// Print the summary of a finished run again.
    Show(ShowArgs),
    /// Compute the metrics of a finished run again, or aggregate all runs in a folder.
    #[command(visible_alias = "analyze")]
    Analyse(AnalyseArgs),
    /// Compare runs: memory, growth per token against theory, speed and times.
    Compare(CompareArgs),
    /// Write an HTML report on a run, a comparison of runs or an experiment.
    Report(ReportArgs),
    /// Look at a results directory in the browser, also while runs are recorded.
    View(ViewArgs),
    /// Run models in the browser and see what they cost: wllama, transformers.js and WebLLM.
    Web(WebArgs),
    /// Draw a figure for a paper: SVG, PDF or PNG at the width of a column or a page, with its numbers as CSV.
    Figure(FigureArgs),
    /// Ask the tables of runs with SQL, by DuckDB's command.
    Sql(SqlArgs),
    /// Export runs as a dataset for Hugging Face or Zenodo, or one run as a Perfetto trace.
    Export(ExportArgs),
    /// Check the files of a run, or of all runs in a folder, against their manifests.
    Verify(VerifyArgs),
    /// Finish a run that was killed, or all such runs in a folder, from the raw records.
    Recover(RecoverArgs),
    /// Label the accesses of a finished run by rules, and write them as a new run.
    Relabel(RelabelArgs),
    /// Import recordings of other programs as runs.
    Import {
        #[command(subcommand)]
        command: ImportCommand,
    },
    /// Print the JSON Schema of experiment files, for editors.
    Schema,
    /// Test what this machine can observe, and show how to enable the rest.
    Doctor(DoctorArgs),
    /// Describe, check, recover, convert and compare tensor streams.
    Tensors {
        #[command(subcommand)]
        command: TensorsCommand,
    },
    /// Download, make and describe model files.
    Model {
        #[command(subcommand)]
        command: ModelCommand,
    },
    /// Print a shell completion script.
    Completions(CompletionsArgs),
    /// Write the manual pages of all commands.
    Man(ManArgs),
    /// The process that runs the model; started by `dwell run`.
    #[command(hide = true)]
    Worker,
    /// Becomes the given program, which then ends when the process that started it does.
    #[command(hide = true)]
    Guard {
        /// Kill it rather than terminate it.
        #[arg(long)]
        kill: bool,
        /// The program and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<std::ffi::OsString>,
    },
    /// The process that runs the model and writes the stream; started by `dwell capture`.
    #[command(hide = true)]
    CaptureWorker,
    /// The process that observes one run of an experiment; started by `dwell run --config`.
    #[command(hide = true)]
    PlannedRun,
}
