//! `dwell-bench`: measures what dwell costs, as ratios within one run.
//!
//! Machines that do other work at the same time make absolute numbers worthless, so every figure is a ratio of two
//! measurements that were taken in turns. Results are kept under `benches/runs/<day>-<machine>/`.

#![forbid(unsafe_code)]

mod machine;
mod memory;
mod overhead;
mod report;
mod trial;

use std::path::PathBuf;

use clap::Parser;

/// Measures what dwell costs.
#[derive(Parser)]
#[command(name = "dwell-bench")]
struct Args {
    /// Rounds; each runs every mode once, in another order.
    #[arg(long, default_value_t = 11)]
    rounds: u32,
    /// Threads of the model.
    #[arg(long)]
    threads: Option<u32>,
    /// Tokens to decode in the run that shows the observer's memory; 0 leaves it out.
    #[arg(long, default_value_t = 8000)]
    long_run_tokens: u32,
    /// Folder that the results are kept in.
    #[arg(long, default_value = "benches/runs")]
    output: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut report = report::Report::begin(&args.output)?;
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get() as u32));
    overhead::measure(args.rounds, threads, &mut report)?;
    if args.long_run_tokens > 0 {
        memory::measure(args.long_run_tokens, &mut report)?;
    }
    report.end()
}
