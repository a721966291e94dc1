//! Runs that an experiment planned and that its aggregates cannot be of, because they are not there.

use crate::{ExperimentEntry, RunResults};

/// One line for each of these experiments that lacks runs; `chosen` is the id or name of the one that is meant, if any is.
pub fn missing_runs(experiments: &[ExperimentEntry], chosen: Option<&str>, runs: &[RunResults]) -> Vec<String> {
    let is_chosen = |experiment: &&ExperimentEntry| {
        chosen.is_none_or(|chosen| experiment.experiment_id == chosen || experiment.name.as_deref() == Some(chosen))
    };
    experiments.iter().filter(is_chosen).filter_map(|experiment| missing_runs_of(experiment, runs)).collect()
}

fn missing_runs_of(experiment: &ExperimentEntry, runs: &[RunResults]) -> Option<String> {
    let is_there = |run: &&RunResults| run.is_finished() && run.is_of(&experiment.experiment_id);
    let (planned, found) = (experiment.planned_runs?, runs.iter().filter(is_there).count() as u64);
    // One whose runs were all moved elsewhere is not what is aggregated.
    (found > 0 && found < planned).then(|| {
        let id = &experiment.experiment_id;
        format!("experiment {id} planned {planned} runs, of which {} are missing here", planned - found)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use std::path::PathBuf;

    use super::*;
    use crate::EntryState;

    fn planning(planned_runs: u64) -> ExperimentEntry {
        ExperimentEntry {
            path: PathBuf::new(),
            experiment_id: "e1".to_owned(),
            name: Some("study".to_owned()),
            started_at_utc: String::new(),
            state: EntryState::Failed,
            planned_runs: Some(planned_runs),
            finished_runs: 0,
            failed_runs: 0,
        }
    }

    fn run(experiment_id: &str, state: &str) -> RunResults {
        let metadata = serde_json::json!({"state": state, "experiment": {"id": experiment_id}});
        RunResults { metadata: serde_json::from_value(metadata).unwrap(), ..RunResults::default() }
    }

    #[test]
    fn an_experiment_that_lacks_planned_runs_is_named() {
        let runs = [run("e1", "complete"), run("e1", "partial"), run("e1", "unfinished"), run("e2", "complete")];
        let said = |planned, chosen| missing_runs(&[planning(planned)], chosen, &runs);
        let expected = ["experiment e1 planned 4 runs, of which 2 are missing here"];
        assert_eq!(said(4, None), expected);
        assert_eq!((said(4, Some("study")), said(4, Some("e1"))), (expected.map(Into::into).into(), said(4, None)));
        assert!(said(4, Some("other")).is_empty() && said(2, None).is_empty());
        assert!(missing_runs(&[planning(4)], None, &[]).is_empty());
    }
}
