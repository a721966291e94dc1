//! `dwell-soak`: kills and starves dwell at random, brings in order what was interrupted, and checks that nothing is missing.
//!
//! ```text
//! seed ─▶ trials ─▶ command ─▶ signal to a random process ─▶ repair ─▶ verify, compare with the undisturbed run ─▶ table
//! ```
//!
//! A trial is decided by the seed and its number alone; at what a process is just then, the machine decides.

#![forbid(unsafe_code)]

mod disk;
mod finding;
#[path = "../../../tests/hostile_publisher.rs"]
mod hostile_publisher;
#[path = "../../../tests/hostile_server.rs"]
mod hostile_server;
mod lab;
mod litter;
mod processes;
mod random;
mod results;
mod scenario;
mod scenarios;
mod shape;
mod tally;
mod trial;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;

use crate::lab::Lab;
use crate::random::Random;
use crate::scenario::Scenario;
use crate::tally::Tally;
use crate::trial::Trial;

/// Kills and starves dwell at random, and checks that nothing was lost that was promised.
#[derive(Parser)]
#[command(name = "dwell-soak")]
struct Args {
    /// Minutes after which no new trial begins.
    #[arg(long, default_value_t = 20.0)]
    minutes: f64,
    /// Most trials. Default: as many as the time allows.
    #[arg(long)]
    trials: Option<u64>,
    /// Seed of all choices. Default: from the clock; it is printed.
    #[arg(long)]
    seed: Option<u64>,
    /// Do only the trial of this number, as it is in a soak of this seed.
    #[arg(long, requires = "seed")]
    only: Option<u64>,
    /// Scenarios to try. Default: all.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    scenarios: Vec<String>,
    /// Trials at a time. Default: twice the processors, because most of a trial is waiting.
    #[arg(long)]
    jobs: Option<usize>,
    /// The program to try. Default: dwell beside this program.
    #[arg(long, value_name = "FILE")]
    dwell: Option<PathBuf>,
    /// Folder to keep the figures in. Default: they are only printed.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// A soak that goes on.
struct Soak<'a> {
    lab: &'a Lab,
    scenarios: &'a [Box<dyn Scenario>],
    seed: u64,
    next: AtomicU64,
    end: u64,
    deadline: Instant,
    tally: Mutex<Tally>,
}

impl Soak<'_> {
    /// Does one trial after the other.
    fn work(&self) -> anyhow::Result<()> {
        while Instant::now() < self.deadline {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.end {
                break;
            }
            let mut random = Random::of_trial(self.seed, number);
            let scenario = random.one_of(self.scenarios).as_ref();
            let mark = format!("{}-{number}", std::process::id());
            let result = Trial::begin(self.lab, scenario, random, mark)?.run()?;
            if let Ok(mut tally) = self.tally.lock() {
                tally.add(number, scenario.name(), result);
            }
        }
        Ok(())
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let seed = args.seed.unwrap_or_else(dwell_clock::unix_ns);
    let lab = Lab::new(args.dwell.clone())?;
    let (mut scenarios, missing) = scenarios::all(&lab)?;
    scenarios.retain(|one| args.scenarios.is_empty() || args.scenarios.iter().any(|name| name == one.name()));
    anyhow::ensure!(!scenarios.is_empty(), "no scenario has such a name");
    println!("seed {seed}, {} scenarios, in {:?}", scenarios.len(), lab.path());
    missing.iter().for_each(|what| println!("NOT tried: {what}"));
    let first = args.only.unwrap_or(0);
    let begin = Instant::now();
    let soak = Soak {
        lab: &lab,
        scenarios: &scenarios,
        seed,
        next: AtomicU64::new(first),
        end: if args.only.is_some() { first + 1 } else { args.trials.unwrap_or(u64::MAX) },
        deadline: begin + Duration::from_secs_f64(args.minutes * 60.0),
        tally: Mutex::default(),
    };
    let jobs = args.jobs.unwrap_or_else(|| 2 * std::thread::available_parallelism().map_or(1, usize::from));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(|| soak.work())).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| anyhow::bail!("a trial panicked")))
    })?;
    let tally = soak.tally.into_inner().unwrap_or_default();
    let title = format!("seed {seed}, {:.1} min, {} kills", begin.elapsed().as_secs_f64() / 60.0, tally.kills());
    let text = format!("## Random kills: {title}\n\n{}", tally.text());
    println!("\n{text}");
    if let Some(folder) = &args.output {
        keep(folder, &text, &tally)?;
    }
    Ok(if tally.faults() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn keep(folder: &std::path::Path, text: &str, tally: &Tally) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making {folder:?}"))?;
    fs::write(folder.join("summary.md"), text).context("writing the summary")?;
    fs::write(folder.join("raw.csv"), tally.csv()).context("writing the figures")
}
