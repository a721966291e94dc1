//! `dwell observe`: what the kernel tells of the machine, interval by interval.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use dwell_clock::process_cpu_ns;
use dwell_events::Hint;
use dwell_kernel::{Observer, ObserverOptions};
use dwell_observe::{Line, LineLog, LogOptions, SourceKind};
use dwell_report::text::{counted, seconds};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::{ObserveArgs, ObserveCommand};
use crate::messages::{EXIT_WITH_LOSS, hinted, print_hints};
use crate::new_output::check_parent;
use crate::observe_target::ObserveTarget;
use crate::observe_view::ObserveView;
use crate::output::{print_for_programs, print_result, say};

/// How soon a signal or the end of a process is noticed.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &ObserveArgs) -> anyhow::Result<ExitCode> {
    if let Some(ObserveCommand::Report(args)) = &args.command {
        return super::observe_report::run(args);
    }
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("setting the signal handler")?;
    let log = open_log(args)?;
    let mut target = ObserveTarget::find(args)?;
    let observer = begin(args, &target).inspect_err(|_| target.discard())?;
    target.begin();
    let mut observation = Observation::new(args, observer, log);
    observation.follow(&mut target, &mut signals)?;
    let is_lost = observation.finish()?;
    // A command that outlives Ctrl-C is waited for.
    let failure = target.wait().filter(|status| !status.success());
    if let Some(status) = failure {
        say(format_args!("the command ended with {status}\n"));
    }
    Ok(if is_lost || failure.is_some() { ExitCode::from(EXIT_WITH_LOSS) } else { ExitCode::SUCCESS })
}

fn open_log(args: &ObserveArgs) -> anyhow::Result<Option<LineLog>> {
    if args.no_output {
        return Ok(None);
    }
    check_parent(&args.output)?;
    let options = LogOptions {
        flush_every: args.flush_every as usize,
        fsync: args.fsync,
        rotate_bytes: args.rotate_size,
        kept_files: args.rotate_keep,
    };
    let log = LineLog::open(&args.output, options).map_err(hinted)?;
    if log.repaired_bytes() > 0 {
        say(format_args!("removed {} of a cut last line: {:?}\n", counted(log.repaired_bytes(), "byte"), args.output));
    }
    Ok(Some(log))
}

/// Begins to observe, and says what the programs cannot tell.
fn begin(args: &ObserveArgs, target: &ObserveTarget) -> anyhow::Result<Observer> {
    let options = ObserverOptions {
        groups: args.groups(),
        chosen: target.chosen().clone(),
        labels: args.label.iter().cloned().collect(),
        uses_programs: !args.no_ebpf,
    };
    let observer = Observer::begin(options).map_err(hinted)?;
    if let Some(refusal) = observer.refusal() {
        say(format_args!("without eBPF, from the kernel's counters: {refusal}\n"));
        print_hints(&refusal.hints());
    } else {
        let is_refused = |kind: SourceKind| kind != SourceKind::Ebpf && !args.no_ebpf;
        for (group, source) in observer.sources() {
            if let (true, Some(reason)) = (is_refused(source.source), &source.reason) {
                say(format_args!("{group} without eBPF: {reason}\n"));
            }
        }
    }
    Ok(observer)
}

/// An observation that goes on.
struct Observation<'a> {
    args: &'a ObserveArgs,
    observer: Observer,
    log: Option<LineLog>,
    view: ObserveView,
    began_at: Instant,
    began_cpu_ns: u64,
    lines: u64,
    lost: u64,
}

impl<'a> Observation<'a> {
    fn new(args: &'a ObserveArgs, observer: Observer, log: Option<LineLog>) -> Self {
        let view = ObserveView::new(!args.json && args.run.is_empty());
        let (began_at, began_cpu_ns) = (Instant::now(), process_cpu_ns());
        Self { args, observer, log, view, began_at, began_cpu_ns, lines: 0, lost: 0 }
    }

    /// Takes a line of each interval until it is enough. The last interval may be shorter.
    fn follow(&mut self, target: &mut ObserveTarget, signals: &mut Signals) -> anyhow::Result<()> {
        loop {
            target.refresh();
            let is_over = self.wait_for_interval(target, signals);
            self.take_line()?;
            if is_over || self.args.count.is_some_and(|count| self.lines >= count) {
                return Ok(());
            }
        }
    }

    /// Waits until the interval ends; whether it is the last one.
    fn wait_for_interval(&self, target: &mut ObserveTarget, signals: &mut Signals) -> bool {
        let passed = self.began_at.elapsed().as_nanos() / self.args.interval.as_nanos() + 1;
        let interval_end = self.began_at + self.args.interval * u32::try_from(passed).unwrap_or(u32::MAX);
        let end = self.args.duration.map(|duration| self.began_at + duration);
        loop {
            let now = Instant::now();
            if end.is_some_and(|end| now >= end) || target.has_ended() || signals.pending().next().is_some() {
                return true;
            }
            if now >= interval_end {
                return false;
            }
            let next = end.map_or(interval_end, |end| end.min(interval_end));
            std::thread::sleep((next - now).min(LOOK_INTERVAL));
        }
    }

    fn take_line(&mut self) -> anyhow::Result<()> {
        let line = self.observer.read().map_err(hinted)?;
        self.lines += 1;
        self.lost += line.lost.total();
        self.show(&line)?;
        self.log.as_mut().map_or(Ok(()), |log| log.append(&line)).map_err(hinted)
    }

    fn show(&self, line: &Line) -> anyhow::Result<()> {
        if !self.args.json {
            self.view.show(line);
            return Ok(());
        }
        let text = serde_json::to_string(line).context("writing JSON")?;
        print_for_programs(&format!("{text}\n"))
    }

    /// Writes what waits and says what was done; whether something was lost.
    fn finish(mut self) -> anyhow::Result<bool> {
        self.view.finish();
        self.log.as_mut().map_or(Ok(()), LineLog::flush).map_err(hinted)?;
        if self.args.json {
            return Ok(self.lost > 0);
        }
        let span_s = self.began_at.elapsed().as_secs_f64();
        let cpu_pct = (process_cpu_ns() - self.began_cpu_ns) as f64 / 1e7 / span_s;
        let mut text = format!(
            "observed  {}, {}, {} lost\ndwell     {cpu_pct:.2} % of one core\n",
            seconds(span_s),
            counted(self.lines, "line"),
            counted(self.lost, "event")
        );
        if self.log.is_some() {
            text.push_str(&format!("\n{}\n", self.args.output.display()));
        }
        print_result(&text)?;
        Ok(self.lost > 0)
    }
}
