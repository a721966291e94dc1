//! One trial: a command is begun, disturbed at a random moment, brought in order again and looked at.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::Signal;

use crate::disk::SmallDisk;
use crate::finding::{Fault, Findings};
use crate::lab::{Lab, Place};
use crate::litter;
use crate::processes::{Process, end_all, left_after, marked, peak_bytes, signal};
use crate::random::Random;
use crate::scenario::Scenario;

/// No command of a trial takes so long, however busy the machine is.
const LONGEST_COMMAND: Duration = Duration::from_secs(120);
/// Processes may need so long to see that their command has ended.
const LONGEST_ORPHAN: Duration = Duration::from_secs(20);
/// Longest pause of a process that is stopped, as by a slow disk.
const LONGEST_STALL: Duration = Duration::from_millis(400);
/// Of a line that a command said, so much is shown.
const LINE_CHARS: usize = 300;
/// Between two looks at the memory of processes.
const MEMORY_LOOK: Duration = Duration::from_millis(50);
/// Memory that no input may cost.
const MEMORY_MAX_BYTES: u64 = 512 << 20;
/// Limits of address space that are tried: from one in which nothing begins to one in which most goes well.
const MEMORY_LIMITS: [u64; 5] = [64 << 20, 160 << 20, 256 << 20, 400 << 20, 800 << 20];
/// How far clocks are set forward: each command sees another time, so that repairs happen long after the recording, or after a
/// restart of the machine.
const CLOCK_JUMPS_S: [u64; 4] = [0, 60, 86_400, 1_000_000_000];
/// Bytes that the disk has for the repair.
const ENOUGH_BYTES: u64 = 256 << 20;

/// What is done to the commands of a trial, beside kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Disturbance {
    /// Nothing else.
    None,
    /// The disk fills.
    FullDisk,
    /// Processes stand still for a while.
    Stall,
    /// Memory is limited.
    Memory,
    /// Each command sees other clocks.
    ClockJump,
}

impl Disturbance {
    pub(crate) const ALL: [Self; 5] = [Self::None, Self::FullDisk, Self::Stall, Self::Memory, Self::ClockJump];

    /// Its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "kills alone",
            Self::FullDisk => "full disk",
            Self::Stall => "stalls",
            Self::Memory => "memory limit",
            Self::ClockJump => "clock jump",
        }
    }
}

/// What came of a trial.
pub(crate) struct TrialResult {
    pub(crate) disturbance: Disturbance,
    /// Signals sent, by what the process did.
    pub(crate) kills: BTreeMap<String, u64>,
    /// The longest time from Ctrl-C to the end.
    pub(crate) longest_interrupt: Duration,
    /// The most memory that a process of dwell has had.
    pub(crate) peak_bytes: u64,
    pub(crate) findings: Findings,
}

/// A trial of a scenario.
pub(crate) struct Trial<'a> {
    lab: &'a Lab,
    scenario: &'a dyn Scenario,
    random: Random,
    place: Place,
    disk: Option<SmallDisk>,
    flushed: Option<PathBuf>,
    result: TrialResult,
}

impl<'a> Trial<'a> {
    /// Decides by the seed what will happen, and prepares the folder.
    pub(crate) fn begin(
        lab: &'a Lab,
        scenario: &'a dyn Scenario,
        mut random: Random,
        mark: String,
    ) -> anyhow::Result<Self> {
        let place = Place::make(lab.path().join(&mark), mark)?;
        let mut disturbance = *random.one_of(&Disturbance::ALL);
        let disk = match scenario.disk_bytes() {
            Some(bytes) if disturbance == Disturbance::FullDisk => {
                SmallDisk::mount(place.path(), (bytes / 50 + random.below(bytes)).max(16 << 10))
            }
            _ => None,
        };
        if disturbance == Disturbance::FullDisk && disk.is_none() {
            disturbance = Disturbance::None;
        }
        let result = TrialResult {
            disturbance,
            kills: BTreeMap::new(),
            longest_interrupt: Duration::ZERO,
            peak_bytes: 0,
            findings: Findings::default(),
        };
        Ok(Self { lab, scenario, random, place, disk, flushed: None, result })
    }

    /// Does it and cleans up.
    pub(crate) fn run(mut self) -> anyhow::Result<TrialResult> {
        let done = self.attempts().and_then(|()| self.repairs());
        if done.is_ok() {
            let flushed = self.flushed.clone();
            self.scenario.check(self.lab, &self.place, flushed.as_deref(), &mut self.result.findings);
            self.look_for_leftovers();
        }
        end_all(&self.place.mark);
        let said = self.place.said();
        for finding in &mut self.result.findings.list {
            finding.what = format!("{}; said: {}", finding.what, last_lines(&said));
        }
        drop(self.disk.take());
        self.place.remove();
        if let Some(flushed) = &self.flushed {
            let _ = fs::remove_dir_all(flushed);
        }
        done.map(|()| self.result)
    }

    /// Begins the command, disturbs it, and begins it again if it resumes.
    fn attempts(&mut self) -> anyhow::Result<()> {
        for attempt in 0..self.scenario.attempts() {
            let is_last = attempt + 1 == self.scenario.attempts() && attempt > 0;
            let limits = self.limits();
            let command = self.scenario.command(self.lab, &self.place, &limits, attempt);
            let ended_well = self.disturbed(command, !is_last)?;
            self.give_space();
            if ended_well {
                break;
            }
        }
        Ok(())
    }

    fn limits(&mut self) -> Vec<String> {
        match self.result.disturbance {
            Disturbance::Memory => vec!["prlimit".to_owned(), format!("--as={}", self.random.one_of(&MEMORY_LIMITS))],
            Disturbance::ClockJump => set_forward(*self.random.one_of(&CLOCK_JUMPS_S)),
            _ => Vec::new(),
        }
    }

    fn give_space(&self) {
        self.disk.iter().for_each(|disk| disk.resize(ENOUGH_BYTES));
    }

    /// Brings in order what was interrupted. Every third repair is killed too, and done again.
    fn repairs(&mut self) -> anyhow::Result<()> {
        if self.scenario.repair(self.lab, &self.place).is_some() && self.random.once_in(3) {
            let command = self.repair();
            self.disturbed(command, true)?;
        }
        if self.scenario.repair(self.lab, &self.place).is_some() {
            let command = self.repair();
            self.disturbed(command, false)?;
        }
        Ok(())
    }

    fn repair(&mut self) -> Command {
        let command = self.scenario.repair(self.lab, &self.place).unwrap_or_else(|| self.lab.dwell(&self.place));
        match self.result.disturbance {
            Disturbance::ClockJump => behind(&command, &set_forward(*self.random.one_of(&CLOCK_JUMPS_S))),
            _ => command,
        }
    }

    /// Runs a command to its end; `true` if it succeeded. It is sent signals on the way if it is to be.
    fn disturbed(&mut self, command: Command, is_disturbed: bool) -> anyhow::Result<bool> {
        let mut command = self.place.with_messages(command)?;
        let mut child = command.spawn().context("starting dwell")?;
        let begin = Instant::now();
        if is_disturbed {
            let longest = self.scenario.duration() * 11 / 10;
            let moment = begin + self.random.up_to(longest);
            if self.result.disturbance == Disturbance::Stall {
                self.stall(moment);
            }
            wait_until(&mut child, moment);
            self.strike(&mut child)?;
        }
        let status = self.end_of(&mut child, begin)?;
        let is_killed_there = status.is_none_or(|status| !status.success());
        self.look_for_orphans();
        Ok(!is_killed_there)
    }

    /// Lets some process stand still, and go on.
    fn stall(&mut self, until: Instant) {
        while Instant::now() < until {
            thread::sleep(self.random.up_to(LONGEST_STALL / 4));
            let processes = marked(&self.place.mark);
            if processes.is_empty() {
                return;
            }
            let victim = self.random.one_of(&processes).pid;
            signal(victim, Signal::STOP);
            thread::sleep(self.random.up_to(LONGEST_STALL));
            signal(victim, Signal::CONT);
        }
    }

    /// Sends one of the processes a signal, most often that which it cannot see.
    fn strike(&mut self, child: &mut Child) -> anyhow::Result<()> {
        self.look_at_memory();
        self.keep_flushed()?;
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        let processes: Vec<Process> = marked(&self.place.mark);
        if processes.is_empty() {
            return Ok(());
        }
        let (victim, sent) = if self.random.once_in(self.scenario.interrupted_once_in()) {
            (Process { pid: child.id(), role: "Ctrl-C".to_owned() }, Signal::INT)
        } else {
            let sent = if self.random.once_in(8) { Signal::TERM } else { Signal::KILL };
            (self.random.one_of(&processes).clone(), sent)
        };
        let sent_at = Instant::now();
        if signal(victim.pid, sent) {
            *self.result.kills.entry(victim.role).or_default() += 1;
        }
        if sent == Signal::INT {
            self.end_of(child, sent_at)?;
            self.result.longest_interrupt = self.result.longest_interrupt.max(sent_at.elapsed());
        }
        Ok(())
    }

    /// Copies what has been written so far, but not the ring: what is in it was not flushed.
    fn keep_flushed(&mut self) -> anyhow::Result<()> {
        let Some(source) = self.scenario.flushed().map(|below| self.place.path().join(below)) else { return Ok(()) };
        if !source.exists() || self.flushed.is_some() {
            return Ok(());
        }
        let target = self.lab.path().join(format!("{}-flushed", self.place.mark));
        copy_tree(&source, &target)?;
        self.flushed = Some(target);
        Ok(())
    }

    /// Waits for the end; one that does not come is a finding.
    fn end_of(&mut self, child: &mut Child, begin: Instant) -> anyhow::Result<Option<ExitStatus>> {
        let mut looked_at = Instant::now();
        while begin.elapsed() < LONGEST_COMMAND {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if looked_at.elapsed() >= MEMORY_LOOK {
                self.look_at_memory();
                looked_at = Instant::now();
            }
            thread::sleep(Duration::from_millis(2));
        }
        let processes = marked(&self.place.mark);
        self.result.findings.add(Fault::Stuck, format!("no end after {LONGEST_COMMAND:?}: {processes:?}"));
        end_all(&self.place.mark);
        child.wait()?;
        Ok(None)
    }

    fn look_at_memory(&mut self) {
        let of_dwell = marked(&self.place.mark).into_iter().filter(Process::is_of_dwell);
        let peak_bytes = of_dwell.map(|process| peak_bytes(process.pid)).max().unwrap_or(0);
        self.result.peak_bytes = self.result.peak_bytes.max(peak_bytes);
    }

    fn look_for_orphans(&mut self) {
        let left = left_after(&self.place.mark, LONGEST_ORPHAN);
        let orphans: Vec<_> = left.iter().filter(|process| !self.scenario.may_outlive(&process.role)).collect();
        if !orphans.is_empty() {
            self.result.findings.add(Fault::Orphan, format!("{orphans:?} outlive their command"));
            end_all(&self.place.mark);
        }
    }

    fn look_for_leftovers(&mut self) {
        let findings = &mut self.result.findings;
        for left in litter::found(self.place.path(), &self.place.temporary()) {
            findings.add(Fault::Litter, format!("{left:?} is left"));
        }
        findings.need(self.result.peak_bytes <= MEMORY_MAX_BYTES, Fault::Memory, || {
            format!("a process had {} MiB", self.result.peak_bytes >> 20)
        });
        findings.need(!self.place.said().contains("panicked at"), Fault::Panic, || "a panic".to_owned());
    }
}

/// A program that becomes another one in a namespace whose monotonic clocks are ahead (Linux 6.3).
fn set_forward(ahead_s: u64) -> Vec<String> {
    let words = ["unshare", "--time", &format!("--monotonic={ahead_s}"), &format!("--boottime={ahead_s}"), "--"];
    words.map(str::to_owned).to_vec()
}

/// The same command behind such a program.
fn behind(command: &Command, words: &[String]) -> Command {
    let mut behind = Command::new(words.first().map_or("env", String::as_str));
    behind.args(words.iter().skip(1)).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        value.iter().for_each(|value| _ = behind.env(name, value));
    }
    command.get_current_dir().into_iter().for_each(|dir| _ = behind.current_dir(dir));
    behind
}

/// Waits for a moment, or for the end of the command if that comes first.
fn wait_until(child: &mut Child, moment: Instant) {
    while Instant::now() < moment && matches!(child.try_wait(), Ok(None)) {
        thread::sleep(Duration::from_millis(1).min(moment.saturating_duration_since(Instant::now())));
    }
}

fn copy_tree(source: &Path, target: &Path) -> anyhow::Result<()> {
    if source.is_file() {
        fs::create_dir_all(target).with_context(|| format!("making {target:?}"))?;
        fs::copy(source, target.join(source.file_name().unwrap_or_default()))?;
        return Ok(());
    }
    fs::create_dir_all(target).with_context(|| format!("making {target:?}"))?;
    for entry in fs::read_dir(source)?.flatten() {
        let (from, to) = (entry.path(), target.join(entry.file_name()));
        let name = entry.file_name().to_string_lossy().into_owned();
        // Files come and go while they are copied.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => copy_tree(&from, &to)?,
            Ok(kind) if kind.is_file() && !name.contains(".ring") => _ = fs::copy(&from, &to),
            _ => {}
        }
    }
    Ok(())
}

/// The end of what commands said, for findings.
fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().rev().filter(|line| !line.trim().is_empty()).take(4).collect();
    let line =
        |line: &str| line.chars().rev().take(LINE_CHARS).collect::<Vec<_>>().into_iter().rev().collect::<String>();
    lines.into_iter().rev().map(line).collect::<Vec<_>>().join(" / ")
}
