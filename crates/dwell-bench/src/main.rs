//! `dwell-bench`: measures what dwell costs, as ratios within one run.
//!
//! Machines that do other work at the same time make absolute numbers worthless, so every figure is a ratio of two
//! measurements that were taken in turns. Results are kept under `benches/runs/<day>-<machine>/`.

#![forbid(unsafe_code)]

mod activations;
mod alloc;
mod analysis;
mod browser;
mod codecs;
mod import;
mod kv_events;
mod limits;
mod long_trace;
mod machine;
mod memory;
mod observe;
mod overhead;
mod page;
mod peer;
mod recordings;
mod report;
mod sampled_trace;
mod stream;
mod trial;
mod versions;
mod view;
mod watch;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Measures what dwell costs.
#[derive(Parser)]
#[command(name = "dwell-bench")]
struct Args {
    /// Parts to measure. Default: all.
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
    /// Tensor stream that `codecs` measures. Default: activations of the default model, captured before.
    #[arg(long, value_name = "FILE")]
    activations: Option<PathBuf>,
    /// Rounds of `stream`.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    stream_rounds: u32,
    /// Folder on the disk that `stream` measures; 2 GiB are written there.
    #[arg(long, default_value = ".")]
    stream_folder: PathBuf,
    /// Rounds of `watch`.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    watch_rounds: u32,
    /// Seconds that `watch` watches for, each time.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    watch_secs: u32,
    /// Rounds of `alloc`.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    alloc_rounds: u32,
    /// Pairs of runs of `page`, one of them with samples.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(4..))]
    page_pairs: u32,
    /// Accesses of the run that `view` looks at; 1.2 GB are written for 100 million.
    #[arg(long, default_value_t = 100_000_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    view_rows: u64,
    /// Most rows of the traces that `analysis` reads; 600 MB are written for 100 million.
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1_000_000..))]
    analysis_rows: u64,
    /// Rounds of `analysis`.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    analysis_rounds: u32,
    /// Rounds of `import`.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    import_rounds: u32,
    /// Another build of dwell that `versions` compares this one with.
    #[arg(long, value_name = "PROGRAM")]
    against: Option<PathBuf>,
    /// Rounds of `versions`.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    versions_rounds: u32,
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
    /// Watching a process.
    Watch,
    /// Observing the kernel.
    Observe,
    /// Recording allocations.
    Alloc,
    /// KV cache events.
    #[value(name = "kv_events")]
    KvEvents,
    /// Samples in a page that runs a model in the browser.
    Page,
    /// Looking at a very long run.
    View,
    /// `dwell analyse` of sampled and exact traces.
    Analysis,
    /// `dwell import` of recordings that other programs made.
    Import,
    /// This build against another, which `--against` names.
    Versions,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Overhead => "overhead",
            Part::Memory => "memory",
            Part::Stream => "stream",
            Part::Codecs => "codecs",
            Part::Watch => "watch",
            Part::Observe => "observe",
            Part::Alloc => "alloc",
            Part::KvEvents => "kv_events",
            Part::Page => "page",
            Part::View => "view",
            Part::Analysis => "analysis",
            Part::Import => "import",
            Part::Versions => "versions",
        }
    }
}

impl Args {
    fn measures(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    /// What the folder's name ends with, so that a bench of some parts replaces no results of all.
    fn suffix(&self) -> String {
        let parts = Part::value_variants().iter().filter(|part| self.only.contains(part));
        parts.map(|part| format!("-{}", part.name())).collect()
    }
}

fn main() -> anyhow::Result<()> {
    watch::be_watched_if_asked();
    let args = Args::parse();
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
        match &args.activations {
            Some(activations) => codecs::measure(activations, &mut report)?,
            None => codecs::measure(activations::capture()?.path(), &mut report)?,
        }
    }
    if args.measures(Part::Watch) {
        watch::measure(args.watch_rounds, args.watch_secs, &mut report)?;
    }
    if args.measures(Part::Observe) {
        observe::measure(&mut report)?;
    }
    if args.measures(Part::Alloc) {
        alloc::measure(args.alloc_rounds, &mut report)?;
    }
    if args.measures(Part::KvEvents) {
        kv_events::measure(&mut report)?;
    }
    if args.measures(Part::Page) {
        page::measure(args.page_pairs, &mut report)?;
    }
    if args.measures(Part::View) {
        view::measure(args.view_rows, &mut report)?;
    }
    if args.measures(Part::Analysis) {
        analysis::measure(args.analysis_rows, args.analysis_rounds, &mut report)?;
    }
    if args.measures(Part::Import) {
        import::measure(args.import_rounds, &mut report)?;
    }
    if let Some(against) = args.against.as_deref().filter(|_| args.measures(Part::Versions)) {
        versions::measure(against, args.versions_rounds, &mut report)?;
    }
    report.end()
}
