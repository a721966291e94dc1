//! What is missing from a run as a whole, beside what the labeller counts.

use dwell_collectors::{MergedRecords, ProcessSamples, rings};
use dwell_events::LossKind;
use dwell_events::schema::loss::LossRow;
use dwell_label::Labelled;
use dwell_metadata::RecordingFacts;
use dwell_store::RunDir;

const TENSOR_OPS: &str = "tensor_ops";
const PROCESS: &str = "process";

/// Losses of the run. Without facts, its observer was killed while it recorded.
pub(crate) fn run_losses(
    run: &RunDir,
    facts: Option<&RecordingFacts>,
    labelled: &Labelled,
    samples: &ProcessSamples,
) -> Vec<LossRow> {
    let mut losses = Vec::new();
    let mut add = |kind, source, count, detail: String| {
        if count > 0 {
            losses.push(LossRow { kind, source, count, bytes: None, detail });
        }
    };
    let worker_failure = labelled.outcome.failed.as_ref().map(|(message, _)| message);
    if let Some(how) = worker_failure.or(facts.and_then(|facts| facts.worker_failure.as_ref())) {
        add(LossKind::WorkerDied, TENSOR_OPS, 1, how.clone());
    }
    if let Some(reason) = &labelled.outcome.refused {
        add(LossKind::UnrecordedGraphs, TENSOR_OPS, 1, reason.clone());
    }
    let rings = rings::damaged_count(run);
    add(LossKind::UndecodableRecords, TENSOR_OPS, rings, "rings that could not be read to their end".to_owned());
    let batches = samples.damaged_batches;
    add(LossKind::UndecodableRecords, PROCESS, batches, "batches of samples that are damaged or cut off".to_owned());
    match facts {
        None => add(LossKind::ObserverDied, TENSOR_OPS, 1, "the run was completed by recovery".to_owned()),
        Some(facts) => {
            let interruptions = u64::from(facts.is_interrupted);
            add(LossKind::Interrupted, TENSOR_OPS, interruptions, "the user interrupted the run".to_owned());
            add(LossKind::MissedSamples, PROCESS, facts.missed_samples, "samples that were due".to_owned());
            for reason in &facts.unsampled {
                add(LossKind::MissedSamples, PROCESS, 1, format!("all samples of a server: {reason}"));
            }
            if let Some(reason) = &facts.sampling_failure {
                add(LossKind::MissedSamples, PROCESS, 1, format!("all samples: {reason}"));
            }
        }
    }
    losses
}

/// The loss of programs that computed beside the one whose accesses are in the trace: each has addresses of its own.
pub(crate) fn unlabelled_programs(records: &MergedRecords) -> Option<LossRow> {
    let (count, bytes) = records.left_out();
    let detail = "programs beside the one that computed most, with the bytes of their records".to_owned();
    let kind = LossKind::UnlabelledPrograms;
    (count > 0).then_some(LossRow { kind, source: TENSOR_OPS, count, bytes: Some(bytes), detail })
}

/// The loss of records that were written and cannot be read, if there are any.
pub(crate) fn missing_records(count: u64) -> Option<LossRow> {
    let detail = "records that are missing from the raw streams, a torn end counted as one".to_owned();
    let kind = LossKind::UndecodableRecords;
    (count > 0).then_some(LossRow { kind, source: TENSOR_OPS, count, bytes: None, detail })
}
