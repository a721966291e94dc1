//! The processes of one label: one alone, or trees of them.

use std::time::Duration;

use dwell_events::schema::memory::MemoryRow;

use crate::cpu_use::cpu_pct;
use crate::error::ProcessError;
use crate::relation::Relation;
use crate::system::{Newcomers, Reader, Sampled, Target};
use crate::total::{Counters, total};

/// How far a group goes beyond the processes that it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Not at all.
    Processes,
    /// To their descendants; a row sums them up.
    Trees,
}

/// A process and the program that it ran when it was last sampled: after an `exec`, the one that it became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessName {
    /// Process id.
    pub pid: u32,
    /// Short name of the program; empty if it was never sampled.
    pub name: String,
}

/// Processes that are sampled under one label.
pub(crate) struct Group {
    pub(crate) label: String,
    pub(crate) reach: Reach,
    /// Whether all children of this process belong to it.
    pub(crate) takes_own_children: bool,
    members: Vec<Member>,
    /// Samples since the last that found a member.
    empty_samples: u32,
    ended: Counters,
    /// Moment and CPU time of the total before.
    previous: Option<(u64, u64)>,
    /// Whether every process that belongs to it is a member.
    is_complete: bool,
}

struct Member {
    target: Target,
    counters: Counters,
}

impl Group {
    pub(crate) fn new(label: &str, reach: Reach) -> Self {
        Self {
            label: label.to_owned(),
            reach,
            takes_own_children: false,
            members: Vec::new(),
            empty_samples: 0,
            ended: Counters::default(),
            previous: None,
            is_complete: true,
        }
    }

    /// Adds a process. One that is a member already, as a descendant of another, stays what it is.
    pub(crate) fn add(&mut self, target: Target) {
        if self.has(target.pid) {
            return;
        }
        self.push(target);
        // Its CPU time until now is not of this interval.
        self.previous = None;
    }

    fn push(&mut self, target: Target) {
        self.members.push(Member { target, counters: Counters::default() });
    }

    pub(crate) fn has(&self, pid: u32) -> bool {
        self.members.iter().any(|member| member.target.pid == pid)
    }

    /// Whether there is nobody left, and nobody can come.
    ///
    /// A child of an ended member becomes a child of this process at that end, and is found by a look that begins later.
    pub(crate) fn is_over(&self) -> bool {
        self.members.is_empty() && (!self.takes_own_children || self.empty_samples > 1)
    }

    /// Whether all processes must be looked at, since it may seem empty and not be.
    pub(crate) fn needs_scan(&self) -> bool {
        self.takes_own_children && self.members.is_empty()
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.members.iter().map(|member| member.target.pid)
    }

    /// Takes in those of these processes that members began.
    pub(crate) fn adopt(&mut self, newcomers: &mut Newcomers, found: &[Relation], reader: &mut Reader) {
        self.is_complete = true;
        let own_pid = std::process::id();
        let is_new = |relation: &&Relation| relation.pid != own_pid && !self.has(relation.pid);
        let mut strangers: Vec<Relation> = found.iter().filter(is_new).copied().collect();
        // A child may come before its parent.
        loop {
            let count = strangers.len();
            strangers.retain(|&relation| !self.settle(relation, newcomers, reader));
            if strangers.len() == count {
                return;
            }
        }
    }

    /// Takes a process in if a member began it; whether there is nothing more to decide about it.
    fn settle(&mut self, relation: Relation, newcomers: &mut Newcomers, reader: &mut Reader) -> bool {
        let is_own_child = self.takes_own_children && relation.parent == std::process::id();
        let parent = self.members.iter().find(|member| member.target.pid == relation.parent);
        if parent.is_none() && !is_own_child {
            return false;
        }
        let target = match Target::open(&self.label, relation.pid) {
            Ok(target) => target,
            Err(ProcessError::NoSuchProcess { .. } | ProcessError::KernelThread { .. }) => return true,
            Err(_) => {
                self.is_complete = false;
                newcomers.look_again_at(relation.pid);
                return true;
            }
        };
        let parent = parent.map(|member| &member.target);
        if parent.is_some_and(|parent| !parent.is_parent_of(&target, reader)) {
            return true;
        }
        if parent.is_some_and(|parent| parent.lends_memory_to(&target, reader)) {
            newcomers.look_again_at(relation.pid);
            return true;
        }
        self.push(target);
        true
    }

    /// Appends one row for each process that is there, and the total; returns how long the walks took.
    pub(crate) fn sample_into(&mut self, rows: &mut Vec<MemoryRow>, reader: &mut Reader, with_walks: bool) -> Duration {
        let first = rows.len();
        let mut sampled: Vec<&mut Target> = Vec::with_capacity(self.members.len());
        let mut is_whole = self.is_complete;
        for Member { target, counters } in &mut self.members {
            match target.sample(reader) {
                Sampled::Row(row) => {
                    *counters = Counters::of(&row);
                    rows.push(row);
                    sampled.push(target);
                }
                Sampled::NoMemory => {}
                Sampled::Unknown => is_whole = false,
            }
        }
        let mut walks = Duration::ZERO;
        if with_walks {
            let walked = sampled.iter_mut().zip(&mut rows[first..]);
            walks = walked.map(|(target, row)| target.walk_into(row, reader)).sum();
        }
        if self.reach == Reach::Trees && is_whole && rows.len() > first {
            let cgroup_bytes = reader.cgroup_total_bytes(sampled.iter().map(|target| &**target));
            let counters = self.members.iter().map(|member| member.counters).fold(self.ended, Counters::plus);
            let mut sum = MemoryRow { cgroup_bytes, ..total(&self.label, &rows[first..], counters) };
            sum.cpu_pct = sum.cpu_ns.and_then(|cpu_ns| {
                let now = (sum.timestamp_ns, cpu_ns);
                cpu_pct(self.previous.replace(now), now)
            });
            rows.push(sum);
        }
        walks
    }

    /// Names of the programs that its processes run.
    pub(crate) fn names(&self) -> impl Iterator<Item = ProcessName> + '_ {
        self.members.iter().map(|member| ProcessName { pid: member.target.pid, name: member.target.name() })
    }

    /// Lets go of the processes that ended, and names them.
    pub(crate) fn remove_gone(&mut self, gone: &mut Vec<ProcessName>) {
        let ended = &mut self.ended;
        self.members.retain(|member| {
            if member.target.is_gone {
                *ended = ended.plus(member.counters);
                gone.push(ProcessName { pid: member.target.pid, name: member.target.name() });
            }
            !member.target.is_gone
        });
        self.empty_samples = if self.members.is_empty() { self.empty_samples + 1 } else { 0 };
    }
}
