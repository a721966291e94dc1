//! What came of trying whether something can be observed.

use serde::Serialize;

use crate::Basis;

/// What a probe is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeKind {
    /// A way of watching that dwell has.
    Collector,
    /// Something that the kernel offers.
    Facility,
    /// Something that the hardware measures.
    Sensor,
}

/// What came of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeStatus {
    /// It did what it should.
    Works,
    /// It did a part of it.
    Degraded,
    /// It is there and did not work.
    Fails,
    /// This machine does not have it.
    Absent,
}

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// Name, unique among the probes.
    pub name: &'static str,
    /// What it is about.
    pub kind: ProbeKind,
    /// What came of it.
    pub status: ProbeStatus,
    /// What was found, in words.
    pub found: String,
    /// A command that may change it.
    pub remedy: Option<String>,
    /// How the figures of a collector are obtained; `None` for anything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// What a collector costs, as measured; `None` for anything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<&'static str>,
}

impl Probe {
    /// Puts a probe's name to what came of it.
    pub fn new(name: &'static str, kind: ProbeKind, outcome: Outcome) -> Self {
        let Outcome { status, found, remedy } = outcome;
        Self { name, kind, status, found, remedy, basis: None, cost: None }
    }

    /// Whether all of it works.
    pub fn works(&self) -> bool {
        self.status == ProbeStatus::Works
    }

    /// Why it does not work at all; none if it does, if only in part.
    pub fn failure(&self) -> Option<String> {
        matches!(self.status, ProbeStatus::Fails | ProbeStatus::Absent).then(|| self.found.clone())
    }
}

/// What came of trying something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    status: ProbeStatus,
    found: String,
    remedy: Option<String>,
}

impl Outcome {
    /// It did what it should.
    pub fn works(found: impl Into<String>) -> Self {
        Self::new(ProbeStatus::Works, found)
    }

    /// It did a part of it.
    pub fn degraded(found: impl Into<String>) -> Self {
        Self::new(ProbeStatus::Degraded, found)
    }

    /// It is there and did not work.
    pub fn fails(found: impl Into<String>) -> Self {
        Self::new(ProbeStatus::Fails, found)
    }

    /// This machine does not have it.
    pub fn absent(found: impl Into<String>) -> Self {
        Self::new(ProbeStatus::Absent, found)
    }

    /// With a command that may change it.
    pub fn remedy(mut self, command: impl Into<String>) -> Self {
        self.remedy = Some(command.into());
        self
    }

    fn new(status: ProbeStatus, found: impl Into<String>) -> Self {
        Self { status, found: found.into(), remedy: None }
    }
}
