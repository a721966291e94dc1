use dwell_events::schema::memory::MemoryRow;

use crate::error::ProcessError;
use crate::rollup::RollupPolicy;
use crate::target::{SampleContext, Target};

/// Takes samples of a few processes.
pub struct Sampler {
    targets: Vec<Target>,
    rollup_policy: RollupPolicy,
    buffer: Vec<u8>,
}

impl Sampler {
    /// A sampler of these processes, each with its role in the run. All must be there now.
    pub fn new(processes: &[(&str, u32)]) -> Result<Self, ProcessError> {
        let targets = processes.iter().map(|&(label, pid)| Target::open(label, pid)).collect::<Result<_, _>>()?;
        Ok(Self { targets, rollup_policy: RollupPolicy::default(), buffer: vec![0; 4096] })
    }

    /// The same with another rule for `pss` and `uss`.
    pub fn with_rollup_policy(mut self, policy: RollupPolicy) -> Self {
        self.rollup_policy = policy;
        self
    }

    /// Adds a process that began later.
    pub fn watch(&mut self, label: &str, pid: u32) -> Result<(), ProcessError> {
        self.targets.push(Target::open(label, pid)?);
        Ok(())
    }

    /// Appends one row for each process that is still there.
    pub fn sample_into(&mut self, rows: &mut Vec<MemoryRow>) {
        let live_targets = self.targets.iter().filter(|target| !target.is_gone).count();
        let mut context = SampleContext { buffer: &mut self.buffer, rollup_policy: &self.rollup_policy, live_targets };
        for target in self.targets.iter_mut().filter(|target| !target.is_gone) {
            rows.extend(target.sample(&mut context));
        }
    }

    /// Whether a process was found to have ended when it was last sampled. One that was never watched is gone.
    pub fn is_gone(&self, pid: u32) -> bool {
        !self.targets.iter().any(|target| target.pid == pid && !target.is_gone)
    }

    /// Whether nothing is left to sample.
    pub fn are_all_gone(&self) -> bool {
        self.targets.iter().all(|target| target.is_gone)
    }

    pub(crate) fn gone_pids(&self) -> Vec<u32> {
        self.targets.iter().filter(|target| target.is_gone).map(|target| target.pid).collect()
    }
}
