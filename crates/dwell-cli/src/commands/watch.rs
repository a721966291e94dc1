//! `dwell watch`: samples processes with all their descendants until they end.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Context;
use dwell_events::schema::memory::MemoryRow;
use dwell_files::FileError;
use dwell_host::clock_anchor;
use dwell_process::{Pace, ProcessError, Sampler, SamplerThread};
use dwell_store::{MemoryLog, MemoryLogForm, StoreError};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::WatchArgs;
use crate::messages::{EXIT_WITH_LOSS, Failure, hinted};
use crate::new_output::existing_file;
use crate::output::{print_result, say, unprinted};
use crate::shell::shell_word;
use crate::watch_record::WatchRecord;
use crate::watch_summary::summary_of;
use crate::watch_target::{Target, Wait};
use crate::watch_view::WatchView;

/// How long samples may wait in memory, which is what a kill can lose of them.
const HAND_OVER_INTERVAL: Duration = Duration::from_millis(500);
/// How soon a signal is noticed.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &WatchArgs) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("setting the signal handler")?;
    let (mut target, mut log) = begin(args, &mut signals)?;
    let mut record = WatchRecord::new(target.label());
    let mut view = WatchView::new(!args.json && (!target.is_command() || args.live));
    if !args.json && !target.is_command() {
        say(format_args!("{}\n", target.text()));
    }
    let (sampling, rows) = target.sampler().and_then(|sampler| start(sampler, args)).map_err(hinted)?;
    let mut watch = Watch { log: &mut log, record: &mut record, view: &mut view, target: &mut target };
    let watched = watch.follow(sampling, &rows, args.duration, &mut signals);
    view.finish();
    // A program that was started here is waited for, whatever became of its samples.
    let command = target.wait_for_command(&mut signals);
    let hints = args.output.as_ref().zip(log.as_ref()).map_or_else(Vec::new, |(output, log)| log_hints(output, log));
    watched.and_then(|()| log.map_or(Ok(()), MemoryLog::finish)).map_err(|error| log_failure(&error, hints))?;
    let summary = summary_of(&record, &target, command, args.output.as_deref());
    let printed = if args.json { super::print_json(&summary) } else { print_result(&summary.text()) };
    printed.map_err(|error| match &args.output {
        Some(log) => unprinted(&error, log),
        None => error,
    })?;
    Ok(if summary.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WITH_LOSS) })
}

/// What is watched, and the file for it; if there is nothing to watch, there is no file.
fn begin(args: &WatchArgs, signals: &mut Signals) -> anyhow::Result<(Target, Option<MemoryLog>)> {
    if args.command.is_empty() {
        let target = Target::find(args, signals)?;
        target.sampler().map_err(hinted)?;
        return Ok((target, create_log(args)?));
    }
    // A program is started only if there is a place for its samples.
    let log = create_log(args)?;
    Ok((Target::find(args, signals)?, log))
}

/// Begins to sample.
fn start(sampler: Sampler, args: &WatchArgs) -> Result<(SamplerThread, Receiver<Vec<MemoryRow>>), ProcessError> {
    let sampler = match args.max_samples {
        Some(samples) => sampler.with_most_samples(samples),
        None => sampler,
    };
    let (sender, rows) = mpsc::channel();
    let on_rows = move |rows: &[MemoryRow]| match sender.send(rows.to_vec()) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    };
    let pace = Pace { interval: args.interval, hand_over_every: HAND_OVER_INTERVAL };
    Ok((SamplerThread::start(sampler, pace, on_rows)?, rows))
}

fn create_log(args: &WatchArgs) -> anyhow::Result<Option<MemoryLog>> {
    let Some(output) = &args.output else { return Ok(None) };
    let Some(form) = MemoryLogForm::of(output) else {
        let failure = Failure::new(format!("writing samples needs a name that ends in .csv or .parquet: {output:?}"));
        return Err(failure.hint("choose another name with -o").into());
    };
    MemoryLog::create(output, form, clock_anchor(), args.force).map(Some).map_err(|error| match &error {
        StoreError::File(FileError::Exists { path, .. }) => {
            let failure = existing_file(path);
            let recover = format!(
                "finish the table of an earlier watch with `dwell recover {}`",
                shell_word(&output.display().to_string())
            );
            if path == output { failure.into() } else { failure.hint(recover).into() }
        }
        StoreError::File(FileError::NotFound { .. }) => {
            let folder = output.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
            Failure::new(error.to_string()).hint(format!("mkdir -p {}", shell_word(&folder))).into()
        }
        _ => hinted(error),
    })
}

fn log_failure(error: &StoreError, hints: Vec<String>) -> anyhow::Error {
    hints.into_iter().fold(Failure::new(error.to_string()), Failure::hint).into()
}

/// What there is if writing fails: rows that were written, for a table how to get at them, and the file before them.
fn log_hints(output: &Path, log: &MemoryLog) -> Vec<String> {
    let name = shell_word(&output.display().to_string());
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = shell_word(&folder.display().to_string());
    let written = match MemoryLogForm::of(output) {
        _ if !log.has_rows() => format!("nothing was written; see what fills the disk with `df -h {folder}`"),
        Some(MemoryLogForm::Parquet) => {
            format!(
                "what was written so far is whole: once there is space, `dwell recover {name}` makes the table of it"
            )
        }
        _ => format!("the lines that were written so far are whole; see what fills the disk with `df -h {folder}`"),
    };
    let earlier = log.earlier().map(|earlier| {
        let earlier = shell_word(&earlier.display().to_string());
        format!("the file that was to be replaced is kept: {earlier}")
    });
    [written].into_iter().chain(earlier).collect()
}

/// A watch that goes on.
struct Watch<'a> {
    log: &'a mut Option<MemoryLog>,
    record: &'a mut WatchRecord,
    view: &'a mut WatchView,
    target: &'a mut Target,
}

impl Watch<'_> {
    /// Takes samples until the processes have ended, or it is enough.
    fn follow(
        &mut self,
        sampling: SamplerThread,
        rows: &Receiver<Vec<MemoryRow>>,
        duration: Option<Duration>,
        signals: &mut Signals,
    ) -> Result<(), StoreError> {
        let end = duration.map(|duration| Instant::now() + duration);
        let watched = self.take_all(rows, end, signals);
        self.record.ended(&sampling.stop());
        // Stopping hands over the rows that are left.
        watched.and_then(|()| rows.try_iter().try_for_each(|rows| self.take(&rows)))
    }

    fn take_all(
        &mut self,
        rows: &Receiver<Vec<MemoryRow>>,
        end: Option<Instant>,
        signals: &mut Signals,
    ) -> Result<(), StoreError> {
        loop {
            let left = end.map_or(LOOK_INTERVAL, |end| end.saturating_duration_since(Instant::now()));
            match rows.recv_timeout(left.min(LOOK_INTERVAL)) {
                Ok(rows) => self.take(&rows)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if end.is_some_and(|end| Instant::now() >= end) || self.target.on_signals(signals) == Wait::IsOver {
                return Ok(());
            }
        }
    }

    fn take(&mut self, rows: &[MemoryRow]) -> Result<(), StoreError> {
        self.record.note(rows);
        self.view.show(self.record);
        self.log.as_mut().map_or(Ok(()), |log| log.write(rows))
    }
}
