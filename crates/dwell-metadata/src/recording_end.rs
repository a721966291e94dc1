//! How recording ended.

use std::collections::BTreeMap;

use dwell_events::host::SensorSummary;
use dwell_events::{CollectorName, LossKind};
use serde::{Deserialize, Serialize};

use crate::CollectorEnd;

/// What recording found out that is in no raw stream: `raw/recorded.json`.
///
/// It is the last thing that recording writes: a run without it was not recorded to its end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "StoredRecordingEnd")]
pub struct RecordingEnd {
    /// How the worker ended, if not well.
    pub worker_failure: Option<String>,
    /// Time for which recorded processes waited for the observer.
    pub worker_blocked_ns: u64,
    /// What each collector knew at its end.
    pub collectors: BTreeMap<String, CollectorEnd>,
    /// Whether the user interrupted before all was done.
    pub is_interrupted: bool,
    /// What the machine's sensors said meanwhile.
    pub sensors: Option<SensorSummary>,
}

impl RecordingEnd {
    /// File name in `raw/`.
    pub const FILE_NAME: &str = "recorded.json";
}

/// The file as any version wrote it. Version 0.1 had keys for the one collector that could miss something.
#[derive(Deserialize)]
struct StoredRecordingEnd {
    worker_failure: Option<String>,
    worker_blocked_ns: u64,
    #[serde(default)]
    collectors: BTreeMap<String, CollectorEnd>,
    is_interrupted: bool,
    #[serde(default)]
    sensors: Option<SensorSummary>,
    #[serde(default)]
    missed_samples: u64,
    #[serde(default)]
    sampling_failure: Option<String>,
    #[serde(default)]
    unsampled: Vec<String>,
}

impl From<StoredRecordingEnd> for RecordingEnd {
    fn from(stored: StoredRecordingEnd) -> Self {
        let mut collectors = stored.collectors;
        let end = sampling_end(stored.missed_samples, &stored.unsampled, stored.sampling_failure.as_deref());
        if !end.losses.is_empty() {
            collectors.insert(CollectorName::PROCESS.name().to_owned(), end);
        }
        Self {
            worker_failure: stored.worker_failure,
            worker_blocked_ns: stored.worker_blocked_ns,
            collectors,
            is_interrupted: stored.is_interrupted,
            sensors: stored.sensors,
        }
    }
}

/// The end of sampling processes: samples that were missed, servers that could not be sampled, why nothing could.
pub fn sampling_end(missed: u64, refusals: &[String], failure: Option<&str>) -> CollectorEnd {
    let mut end = CollectorEnd::default();
    end.lost(LossKind::MissedSamples, missed, "samples that were due");
    for reason in refusals {
        end.lost(LossKind::MissedSamples, 1, format!("all samples of a server: {reason}"));
    }
    if let Some(reason) = failure {
        end.lost(LossKind::MissedSamples, 1, format!("all samples: {reason}"));
    }
    end
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn the_end_of_a_collector_is_read_as_it_was_written() {
        let mut facts = RecordingEnd { worker_blocked_ns: 7, is_interrupted: true, ..RecordingEnd::default() };
        facts.collectors.insert("process".to_owned(), sampling_end(3, &["gone".to_owned()], None));
        let text = serde_json::to_string(&facts).unwrap();
        let read: RecordingEnd = serde_json::from_str(&text).unwrap();
        assert_eq!(read.collectors, facts.collectors);
        assert_eq!((read.worker_blocked_ns, read.is_interrupted), (7, true));
        assert!(text.contains(r#""process":{"losses":[{"kind":"missed_samples","count":3,"#), "{text}");
    }

    #[test]
    fn what_version_0_1_knew_of_its_samples_is_the_end_of_the_process_collector() {
        let text = r#"{"worker_failure": null, "worker_blocked_ns": 5, "missed_samples": 2,
            "sampling_failure": "no /proc", "unsampled": ["not permitted"], "is_interrupted": false, "sensors": null}"#;
        let read: RecordingEnd = serde_json::from_str(text).unwrap();
        let losses = &read.collectors["process"].losses;
        let found: Vec<(u64, &str)> = losses.iter().map(|loss| (loss.count, loss.detail.as_str())).collect();
        let expected =
            [(2, "samples that were due"), (1, "all samples of a server: not permitted"), (1, "all samples: no /proc")];
        assert_eq!(found, expected);
        let oldest =
            r#"{"worker_failure": "it died", "worker_blocked_ns": 0, "missed_samples": 0, "is_interrupted": true}"#;
        let read: RecordingEnd = serde_json::from_str(oldest).unwrap();
        assert!(read.collectors.is_empty() && read.is_interrupted);
        assert_eq!(read.worker_failure.as_deref(), Some("it died"));
    }
}
