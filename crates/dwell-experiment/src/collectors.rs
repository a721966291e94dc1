//! Which collectors work on this machine and with a model, and what takes the place of those that do not.

use std::path::Path;

use dwell_collectors::{CheckPlace, Choice, Reason, check, choose, collector, refused_by_engine};
use dwell_config::CollectorsConfig;
use dwell_events::CollectorName;
use dwell_host::Root;
use dwell_metadata::{Fallback, Refusal, RefusedAt};
use serde::Serialize;

use crate::{Finding, Model, run_small_model};

/// Whether a collector works here; tried, not guessed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CollectorStatus {
    /// The collector.
    pub collector: CollectorName,
    /// Why it does not work; none if it does.
    pub failure: Option<String>,
}

/// What an experiment is watched with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChosenCollectors {
    /// Collectors that are used.
    pub used: Vec<CollectorName>,
    /// Collectors that were wanted and do not work here.
    pub fallbacks: Vec<Fallback>,
    /// Every collector that was tried and refused, fallbacks too.
    pub refusals: Vec<Refusal>,
    /// Fallbacks that work here.
    #[serde(skip)]
    pub(crate) usable_fallbacks: Vec<CollectorName>,
}

impl ChosenCollectors {
    /// The same for the runs of one model, whose engine cannot be watched with every collector. Without a collector
    /// that takes the place of another, that is an error.
    pub(crate) fn for_model(&self, model: &Model) -> Result<Self, Vec<Finding>> {
        let choice = choose(&self.used, &self.usable_fallbacks, &mut |name| refused_by_engine(name, &model.target()));
        let finding = |(wanted, reason): (CollectorName, String)| {
            let (name, id) = (wanted.name(), &model.id);
            let message = format!("the collector {name} cannot watch the model {id:?}, and no fallback can: {reason}");
            Finding::error(message)
                .hint("name another collector under collectors.fallback, or leave this one out of collectors.use")
        };
        let Choice { used, fallbacks, refusals, unreplaced } = choice;
        if !unreplaced.is_empty() {
            return Err(unreplaced.into_iter().map(finding).collect());
        }
        Ok(Self {
            used,
            fallbacks: self.fallbacks.iter().cloned().chain(fallbacks).collect(),
            refusals: self.refusals.iter().cloned().chain(refusals).collect(),
            usable_fallbacks: self.usable_fallbacks.clone(),
        })
    }
}

/// Tries every collector that the experiment may use, in the folder that its results go to.
pub fn probe_collectors(config: &CollectorsConfig, results: &Path) -> Vec<CollectorStatus> {
    let mut wanted: Vec<CollectorName> = config.used.iter().chain(&config.fallback).copied().collect();
    wanted.sort_unstable();
    wanted.dedup();
    let place = CheckPlace { root: Root::default(), results, run_small_model: &run_small_model };
    let status = |name| CollectorStatus { collector: name, failure: check(collector(name), &place).failure() };
    wanted.into_iter().map(status).collect()
}

/// Chooses by what works: a collector that does not is replaced by the first fallback that does. Without one, that is
/// an error.
pub fn choose_collectors(
    config: &CollectorsConfig,
    statuses: &[CollectorStatus],
) -> Result<ChosenCollectors, Vec<Finding>> {
    let failure_of = |collector: CollectorName| -> Option<Reason> {
        let status = statuses.iter().find(|status| status.collector == collector);
        let failure = status.map_or(Some("it was not tried".to_owned()), |status| status.failure.clone());
        failure.map(|reason| (RefusedAt::Check, reason))
    };
    let Choice { used, fallbacks, refusals, unreplaced } =
        choose(&config.used, &config.fallback, &mut |name| failure_of(name));
    if !unreplaced.is_empty() {
        return Err(unreplaced.into_iter().map(|(wanted, reason)| not_working(wanted, &reason)).collect());
    }
    let usable_fallbacks =
        config.fallback.iter().copied().filter(|&collector| failure_of(collector).is_none()).collect();
    Ok(ChosenCollectors { used, fallbacks, refusals, usable_fallbacks })
}

fn not_working(wanted: CollectorName, reason: &str) -> Finding {
    let name = wanted.name();
    let message = format!("the collector {name} does not work here, and no fallback does: {reason}");
    Finding::error(message)
        .hint(format!("dwell doctor --collect {name}"))
        .hint("name another collector under collectors.fallback, or leave this one out of collectors.use")
}

#[cfg(test)]
mod tests {
    use dwell_config::{ProcessConfig, TensorOpsConfig};
    use dwell_events::engine::TimeResolution;

    use super::*;

    fn config(used: &[CollectorName], fallback: &[CollectorName]) -> CollectorsConfig {
        CollectorsConfig {
            used: used.to_vec(),
            fallback: fallback.to_vec(),
            tensor_ops: TensorOpsConfig { time_resolution: TimeResolution::Op },
            process: ProcessConfig { sample_interval_ms: 100 },
        }
    }

    fn statuses(tensor_ops: Option<&str>, process: Option<&str>) -> Vec<CollectorStatus> {
        let status =
            |collector, failure: Option<&str>| CollectorStatus { collector, failure: failure.map(str::to_owned) };
        vec![status(CollectorName::TENSOR_OPS, tensor_ops), status(CollectorName::PROCESS, process)]
    }

    const BOTH: [CollectorName; 2] = [CollectorName::TENSOR_OPS, CollectorName::PROCESS];

    #[test]
    fn all_that_are_wanted_are_used_where_they_work() {
        let chosen = choose_collectors(&config(&BOTH, &[CollectorName::PROCESS]), &statuses(None, None)).unwrap();
        assert_eq!(chosen.used, BOTH);
        assert!(chosen.fallbacks.is_empty());
    }

    #[test]
    fn a_fallback_takes_the_place_of_one_that_does_not_work_and_is_used_once() {
        let chosen =
            choose_collectors(&config(&BOTH, &[CollectorName::PROCESS]), &statuses(Some("no room"), None)).unwrap();
        assert_eq!(chosen.used, [CollectorName::PROCESS]);
        let expected = Fallback { wanted: "tensor_ops".into(), instead: "process".into(), reason: "no room".into() };
        assert_eq!(chosen.fallbacks, [expected]);
    }

    #[test]
    fn the_first_fallback_that_works_is_taken() {
        let config = config(&[CollectorName::TENSOR_OPS], &BOTH);
        let chosen = choose_collectors(&config, &statuses(Some("no room"), None)).unwrap();
        assert_eq!(chosen.used, [CollectorName::PROCESS]);
        let refused: Vec<&str> = chosen.refusals.iter().map(|refusal| refusal.collector.as_str()).collect();
        assert_eq!(refused, ["tensor_ops"]);
    }

    #[test]
    fn without_a_fallback_that_works_the_experiment_is_refused() {
        let findings = choose_collectors(&config(&BOTH, &[]), &statuses(Some("no room"), None)).unwrap_err();
        assert_eq!(findings.len(), 1);
        assert!(findings[0].message.contains("tensor_ops") && findings[0].message.contains("no room"));
        let both_fail = statuses(Some("no room"), Some("no /proc"));
        assert_eq!(choose_collectors(&config(&BOTH, &[CollectorName::PROCESS]), &both_fail).unwrap_err().len(), 2);
    }
}
