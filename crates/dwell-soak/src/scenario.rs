//! What is disturbed: a command of dwell, what must be left of it, and how that is checked.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::finding::Findings;
use crate::lab::{Lab, Place};

/// A command and what must come of it, whatever happens to its processes.
pub(crate) trait Scenario: Sync + Send {
    /// Its name in tables.
    fn name(&self) -> &'static str;

    /// The command. `attempt` counts those of a trial that came before; `behind` are words of a program that sets limits.
    fn command(&self, lab: &Lab, place: &Place, behind: &[String], attempt: u32) -> Command;

    /// How long it takes undisturbed.
    fn duration(&self) -> Duration;

    /// How often it may be disturbed before it is left to end: more than once if it resumes.
    fn attempts(&self) -> u32 {
        1
    }

    /// What is copied just before a signal, to know later what had been flushed; below the trial's folder.
    fn flushed(&self) -> Option<&Path> {
        None
    }

    /// Whether this process may outlive the command by design, until it ends by itself.
    fn may_outlive(&self, _role: &str) -> bool {
        false
    }

    /// Every how many signals one is Ctrl-C.
    fn interrupted_once_in(&self) -> u64 {
        10
    }

    /// Bytes of a disk on which it ends well; none if it is not tried on a small disk.
    fn disk_bytes(&self) -> Option<u64> {
        None
    }

    /// Commands that bring in order what was interrupted; they may be disturbed too.
    fn repair(&self, _lab: &Lab, _place: &Place) -> Option<Command> {
        None
    }

    /// Looks at what is left. `flushed` is a copy of what had been flushed.
    fn check(&self, lab: &Lab, place: &Place, flushed: Option<&Path>, findings: &mut Findings);
}
