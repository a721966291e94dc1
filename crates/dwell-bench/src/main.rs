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

use std::path::PathBuf;

use clap::Parser;

/// Measures what dwell costs.
#[derive(Parser)]
#[command(name = "dwell-bench")]
struct Args {
    /// Rounds; each runs every mode once, in another order. 0 leaves the cost of tracing out.
    #[arg(long, default_value_t = 11)]
    rounds: u32,
    /// Threads of the model.
    #[arg(long)]
    threads: Option<u32>,
    /// Tokens to decode in the run that shows the observer's memory; 0 leaves it out.
    #[arg(long, default_value_t = 8000)]
    long_run_tokens: u32,
    /// Tensor stream of activations that the codecs are measured on; without it they are left out.
    #[arg(long, value_name = "FILE")]
    activations: Option<PathBuf>,
    /// Rounds of plain writes and of tensor streams; 0 leaves them out.
    #[arg(long, default_value_t = 5)]
    stream_rounds: u32,
    /// Folder on the disk that tensor streams are measured on; 2 GiB are written there.
    #[arg(long, default_value = ".")]
    stream_folder: PathBuf,
    /// Folder that the results are kept in.
    #[arg(long, default_value = "benches/runs")]
    output: PathBuf,
}

impl Args {
    /// What the folder's name ends with, so that a bench of the codecs alone replaces no other results.
    fn suffix(&self) -> &'static str {
        if self.rounds == 0 && self.long_run_tokens == 0 && self.stream_rounds == 0 { "-codecs" } else { "" }
    }
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut report = report::Report::begin(&args.output, args.suffix())?;
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get() as u32));
    if args.rounds > 0 {
        overhead::measure(args.rounds, threads, &mut report)?;
    }
    if args.long_run_tokens > 0 {
        memory::measure(args.long_run_tokens, &mut report)?;
    }
    if args.stream_rounds > 0 {
        stream::measure(args.stream_rounds, &args.stream_folder, &mut report)?;
    }
    if let Some(activations) = &args.activations {
        codecs::measure(activations, &mut report)?;
    }
    report.end()
}
