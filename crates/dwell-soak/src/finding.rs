//! What is wrong after a trial.

/// A kind of fault; none may occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// Rows that were flushed before a kill are gone.
    Lost,
    /// A run says that it is complete and is not.
    FalselyComplete,
    /// What was recovered is not what the undisturbed run recorded.
    Differs,
    /// A command did not end.
    Stuck,
    /// A process outlives its command.
    Orphan,
    /// A file that nobody needs is left.
    Litter,
    /// What was written cannot be read or differs from its manifest.
    Damaged,
    /// A panic.
    Panic,
    /// More memory than any input may cost.
    Memory,
}

impl Fault {
    /// All of them, in the order of the table.
    pub(crate) const ALL: [Self; 9] = [
        Self::Lost,
        Self::FalselyComplete,
        Self::Differs,
        Self::Stuck,
        Self::Orphan,
        Self::Litter,
        Self::Damaged,
        Self::Panic,
        Self::Memory,
    ];

    /// Its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::FalselyComplete => "falsely complete",
            Self::Differs => "differs",
            Self::Stuck => "stuck",
            Self::Orphan => "orphan",
            Self::Litter => "litter",
            Self::Damaged => "damaged",
            Self::Panic => "panic",
            Self::Memory => "memory",
        }
    }
}

/// Something that is wrong.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) fault: Fault,
    pub(crate) what: String,
}

/// What is known after a trial.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) list: Vec<Finding>,
    /// How what was recorded ended: `complete`, `partial`, `refused`, `never began`.
    pub(crate) outcome: &'static str,
}

impl Findings {
    /// Notes a fault.
    pub(crate) fn add(&mut self, fault: Fault, what: impl Into<String>) {
        self.list.push(Finding { fault, what: what.into() });
    }

    /// Notes a fault unless this holds.
    pub(crate) fn need(&mut self, holds: bool, fault: Fault, what: impl FnOnce() -> String) {
        if !holds {
            self.add(fault, what());
        }
    }
}
