//! What is missing from a run as a whole, beside what the labeller counts.

use dwell_collectors::MergedRecords;
use dwell_events::schema::loss::LossRow;
use dwell_events::{CollectorName, LossKind};
use dwell_label::Labelled;
use dwell_metadata::RecordingEnd;

/// Losses of the run. Without facts, its observer was killed while it recorded.
pub(crate) fn run_losses(facts: Option<&RecordingEnd>, labelled: &Labelled) -> Vec<LossRow> {
    let (mut losses, source) = (Vec::new(), CollectorName::TENSOR_OPS.name());
    let mut add = |kind, count, detail: String| {
        if count > 0 {
            losses.push(LossRow { kind, source, count, bytes: None, detail });
        }
    };
    let worker_failure = labelled.outcome.failed.as_ref().map(|(message, _)| message);
    if let Some(how) = worker_failure.or(facts.and_then(|facts| facts.worker_failure.as_ref())) {
        add(LossKind::WorkerDied, 1, how.clone());
    }
    if let Some(reason) = &labelled.outcome.refused {
        add(LossKind::UnrecordedGraphs, 1, reason.clone());
    }
    match facts {
        None => add(LossKind::ObserverDied, 1, "the run was completed by recovery".to_owned()),
        Some(facts) => {
            let interruptions = u64::from(facts.is_interrupted);
            add(LossKind::Interrupted, interruptions, "the user interrupted the run".to_owned());
        }
    }
    losses
}

/// The loss of processes that computed beside those whose accesses are in the trace.
pub(crate) fn unlabelled_programs(records: &MergedRecords) -> Option<LossRow> {
    let (count, bytes) = records.left_out();
    let detail = "processes beyond those with the most records, with the bytes of their records".to_owned();
    let kind = LossKind::UnlabelledPrograms;
    (count > 0).then_some(LossRow { kind, source: CollectorName::TENSOR_OPS.name(), count, bytes: Some(bytes), detail })
}

/// The loss of records that were written and cannot be read, if there are any.
pub(crate) fn missing_records(count: u64) -> Option<LossRow> {
    let detail = "records that are missing from the raw stream, a torn end counted as one".to_owned();
    let kind = LossKind::UndecodableRecords;
    (count > 0).then_some(LossRow { kind, source: CollectorName::TENSOR_OPS.name(), count, bytes: None, detail })
}
