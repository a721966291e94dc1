//! `dwell-bench`: measures what dwell costs, as ratios within one run.
//!
//! Machines that do other work at the same time make absolute numbers worthless, so every figure is a ratio of two
//! measurements that were taken in turns. Results are kept under `benches/runs/<day>-<machine>/`.

#![forbid(unsafe_code)]

mod codecs;
mod limits;
mod machine;
mod memory;
mod overhead;
mod report;
mod stream;
mod trial;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Parser, ValueEnum};

/// Measures what dwell costs.
#[derive(Parser)]
#[command(name = "dwell-bench")]
struct Args {
    /// Parts to measure. Default: all; the codecs if there are activations.
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    only: Vec<Part>,
    /// Rounds of `overhead`; each runs every mode once, in another order.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Threads of the model in `overhead`. Default: one per processor.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
    /// Tokens that `memory` decodes in its long run.
    #[arg(long, default_value_t = 8000, value_parser = clap::value_parser!(u32).range(16..))]
    long_run_tokens: u32,
    /// Tensor stream of activations that `codecs` measures.
    #[arg(long, value_name = "FILE")]
    activations: Option<PathBuf>,
    /// Rounds of `stream`.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    stream_rounds: u32,
    /// Folder on the disk that `stream` measures; 2 GiB are written there.
    #[arg(long, default_value = ".")]
    stream_folder: PathBuf,
    /// Folder that the results are kept in.
    #[arg(long, default_value = "benches/runs")]
    output: PathBuf,
}

/// What can be measured by itself.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// What tracing costs.
    Overhead,
    /// Memory of the observer.
    Memory,
    /// Tensor streams against plain writes.
    Stream,
    /// Codecs on activations.
    Codecs,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Overhead => "overhead",
            Part::Memory => "memory",
            Part::Stream => "stream",
            Part::Codecs => "codecs",
        }
    }
}

impl Args {
    fn measures(&self, part: Part) -> bool {
        match part {
            Part::Codecs if self.only.is_empty() => self.activations.is_some(),
            part => self.only.is_empty() || self.only.contains(&part),
        }
    }

    /// What the folder's name ends with, so that a bench of some parts replaces no results of all.
    fn suffix(&self) -> String {
        let parts = Part::value_variants().iter().filter(|part| self.only.contains(part));
        parts.map(|part| format!("-{}", part.name())).collect()
    }

    /// The activations, which the codecs cannot do without.
    fn activations(&self) -> anyhow::Result<&Path> {
        self.activations.as_deref().context("measuring the codecs needs a tensor stream: --activations FILE")
    }
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if args.measures(Part::Codecs) {
        args.activations()?;
    }
    let mut report = report::Report::begin(&args.output, &args.suffix())?;
    if args.measures(Part::Overhead) {
        let threads =
            args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get() as u32));
        overhead::measure(args.rounds, threads, &mut report)?;
    }
    if args.measures(Part::Memory) {
        memory::measure(args.long_run_tokens, &mut report)?;
    }
    if args.measures(Part::Stream) {
        stream::measure(args.stream_rounds, &args.stream_folder, &mut report)?;
    }
    if args.measures(Part::Codecs) {
        codecs::measure(args.activations()?, &mut report)?;
    }
    report.end()
}
