use std::time::Duration;

use dwell_events::schema::memory::MemoryRow;

use crate::error::ProcessError;
use crate::group::{Group, ProcessName, Reach};
use crate::rollup::{RollupPolicy, RollupSchedule};
use crate::system::{Newcomers, Reader, Target};

/// Takes samples of processes, each alone or with all its descendants.
pub struct Sampler {
    groups: Vec<Group>,
    /// `None` as long as no tree is watched.
    newcomers: Option<Newcomers>,
    reader: Reader,
    rollup: RollupSchedule,
    gone: Vec<ProcessName>,
    samples_left: Option<u64>,
}

impl Default for Sampler {
    fn default() -> Self {
        Self::empty()
    }
}

impl Sampler {
    /// A sampler of nothing yet.
    pub fn empty() -> Self {
        Self {
            groups: Vec::new(),
            newcomers: None,
            reader: Reader::new(),
            rollup: RollupSchedule::default(),
            gone: Vec::new(),
            samples_left: None,
        }
    }

    /// A sampler of these processes, each with its role in the run. All must be there now.
    pub fn new(processes: &[(&str, u32)]) -> Result<Self, ProcessError> {
        let mut sampler = Self::empty();
        processes.iter().try_for_each(|&(label, pid)| sampler.watch(label, pid))?;
        Ok(sampler)
    }

    /// The same with another rule for `pss` and `uss`.
    pub fn with_rollup_policy(mut self, policy: RollupPolicy) -> Self {
        self.rollup.policy = policy;
        self
    }

    /// The same, for this many samples alone.
    pub fn with_most_samples(mut self, samples: u64) -> Self {
        self.samples_left = Some(samples);
        self
    }

    /// Adds a process alone.
    pub fn watch(&mut self, label: &str, pid: u32) -> Result<(), ProcessError> {
        self.add(label, Reach::Processes, Target::open(label, pid)?);
        Ok(())
    }

    /// Adds a process with all its descendants, those that it has and those that it will have.
    ///
    /// Each gives a row under this label, and a row `<label>:total` with process id 0 sums them up. Several roots with
    /// one label are summed up together. Not followed is a process whose parent ended before either was seen.
    pub fn watch_tree(&mut self, label: &str, pid: u32) -> Result<(), ProcessError> {
        self.add(label, Reach::Trees, Target::open(label, pid)?);
        Ok(())
    }

    /// Adds all children of this process to the trees of a label. If it was made the reaper of orphans, descendants
    /// whose parent ended become its children.
    pub fn watch_own_children(&mut self, label: &str) {
        self.group(label, Reach::Trees).takes_own_children = true;
    }

    pub(crate) fn add(&mut self, label: &str, reach: Reach, target: Target) {
        self.group(label, reach).add(target);
    }

    fn group(&mut self, label: &str, reach: Reach) -> &mut Group {
        if reach == Reach::Trees {
            // A scan of all processes comes first and finds the descendants that there are.
            self.newcomers = Some(Newcomers::new(&mut self.reader));
        }
        let known = self.groups.iter().position(|group| group.label == label && group.reach == reach);
        let index = known.unwrap_or_else(|| {
            self.groups.push(Group::new(label, reach));
            self.groups.len() - 1
        });
        &mut self.groups[index]
    }

    /// Walks the page tables in the next sample, however short ago that was; not if they are never walked.
    pub fn walk_next(&mut self) {
        self.rollup.make_due();
    }

    /// Appends one row for each process that is still there, and one for each label of trees.
    pub fn sample_into(&mut self, rows: &mut Vec<MemoryRow>) {
        self.find_descendants();
        self.reader.begin_sample(self.groups.iter().flat_map(Group::pids));
        let with_walks = self.rollup.is_due();
        let mut walks = Duration::ZERO;
        for group in &mut self.groups {
            walks += group.sample_into(rows, &mut self.reader, with_walks);
            group.remove_gone(&mut self.gone);
        }
        if with_walks {
            self.rollup.walked(walks);
        }
        if let Some(left) = &mut self.samples_left {
            *left = left.saturating_sub(1);
        }
    }

    /// Whether as many samples were taken as may be.
    pub(crate) fn has_all_samples(&self) -> bool {
        self.samples_left == Some(0)
    }

    fn find_descendants(&mut self) {
        let Some(newcomers) = &mut self.newcomers else { return };
        if self.groups.iter().any(Group::needs_scan) {
            newcomers.look_at_all_next();
        }
        let found = newcomers.look(&mut self.reader);
        for group in self.groups.iter_mut().filter(|group| group.reach == Reach::Trees) {
            group.adopt(newcomers, &found, &mut self.reader);
        }
    }

    /// Whether a process was found to have ended when it was last sampled. One that was never watched is gone.
    pub fn is_gone(&self, pid: u32) -> bool {
        !self.groups.iter().any(|group| group.has(pid))
    }

    /// Whether every process that was given has ended, with all its descendants. With none given yet it is not so.
    pub fn are_all_gone(&self) -> bool {
        !self.groups.is_empty() && self.groups.iter().all(Group::is_over)
    }

    pub(crate) fn gone(&self) -> &[ProcessName] {
        &self.gone
    }

    /// Every process that was sampled, with the program that it ran last.
    pub(crate) fn names(&self) -> Vec<ProcessName> {
        self.gone.iter().cloned().chain(self.groups.iter().flat_map(Group::names)).collect()
    }
}
