//! Which collectors watch a run, and how recording with each of them ended.

use std::collections::BTreeMap;

use dwell_events::{CollectorName, LossKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The collectors that watch a run, each with its settings, which it reads itself.
///
/// Names are texts, so that a run watched by a collector of a later version can still be opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Collectors(BTreeMap<String, Value>);

impl Collectors {
    /// Adds a collector.
    pub fn add(&mut self, name: CollectorName, settings: Value) {
        self.0.insert(name.name().to_owned(), settings);
    }

    /// The same without one.
    pub fn without(mut self, name: CollectorName) -> Self {
        self.0.remove(name.name());
        self
    }

    /// Whether a collector is used.
    pub fn has(&self, name: CollectorName) -> bool {
        self.0.contains_key(name.name())
    }

    /// Settings of a collector; none if it is not used.
    pub fn settings(&self, name: CollectorName) -> Option<&Value> {
        self.0.get(name.name())
    }
}

/// What a collector knew at its end that is not in its raw stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CollectorEnd {
    /// What it did not see.
    #[serde(default)]
    pub losses: Vec<CollectorLoss>,
    /// Time for which recorded processes waited for it.
    #[serde(default, skip_serializing_if = "is_none")]
    pub blocked_ns: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(time_ns: &u64) -> bool {
    *time_ns == 0
}

/// Something that a collector did not see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectorLoss {
    /// What is missing.
    pub kind: LossKind,
    /// How often.
    pub count: u64,
    /// What exactly, in words.
    pub detail: String,
}

impl CollectorEnd {
    /// Adds a loss, unless it happened 0 times.
    pub fn lost(&mut self, kind: LossKind, count: u64, detail: impl Into<String>) {
        if count > 0 {
            self.losses.push(CollectorLoss { kind, count, detail: detail.into() });
        }
    }
}
