//! Which runs do not count, and why.

use std::collections::{BTreeMap, BTreeSet};

use dwell_analysis::quality::QualityStatus;
use dwell_analysis::validity::ValidityClass;
use dwell_events::RunKind;
use dwell_metadata::RunMetadata;
use serde::Serialize;

use crate::run_results::RunResults;

/// Why a run does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExclusionReason {
    /// It is being recorded, or was killed and not recovered.
    Unfinished,
    /// Its worker failed.
    Failed,
    /// Something that should be there is missing.
    Partial,
    /// It was run to warm the machine up.
    Warmup,
    /// It was run without recording, for comparison.
    Untraced,
    /// It holds the accesses of another run, labelled anew: counted beside that run, they would count twice.
    Relabelled,
    /// It was imported and holds nothing that could be averaged, such as allocations.
    NoFigures,
    /// Its tables failed the quality gate.
    QualityFail,
    /// The observer or the machine disturbed it.
    Contaminated,
}

impl ExclusionReason {
    /// Every reason. A run is counted under the first that applies.
    pub const ALL: [ExclusionReason; 9] = [
        ExclusionReason::Unfinished,
        ExclusionReason::Failed,
        ExclusionReason::Partial,
        ExclusionReason::Warmup,
        ExclusionReason::Untraced,
        ExclusionReason::Relabelled,
        ExclusionReason::NoFigures,
        ExclusionReason::QualityFail,
        ExclusionReason::Contaminated,
    ];

    /// The name used on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            ExclusionReason::Unfinished => "unfinished",
            ExclusionReason::Failed => "failed",
            ExclusionReason::Partial => "partial",
            ExclusionReason::Warmup => "warmup",
            ExclusionReason::Untraced => "untraced",
            ExclusionReason::Relabelled => "relabelled",
            ExclusionReason::NoFigures => "no_figures",
            ExclusionReason::QualityFail => "quality_fail",
            ExclusionReason::Contaminated => "contaminated",
        }
    }

    /// The name used in sentences.
    pub fn words(self) -> &'static str {
        match self {
            ExclusionReason::Warmup => "warm-up",
            ExclusionReason::NoFigures => "without figures",
            ExclusionReason::QualityFail => "failed the quality gate",
            other => other.name(),
        }
    }

    /// Whether such runs have figures that can be taken in on request.
    pub fn can_be_included(self) -> bool {
        self != ExclusionReason::Unfinished
    }

    /// Whether such a run repeats a measurement, though not as well as it should: its figures belong beside those of the
    /// others, if somebody wants them.
    pub fn is_of_flawed_repetition(self) -> bool {
        matches!(self, ExclusionReason::Partial | ExclusionReason::QualityFail | ExclusionReason::Contaminated)
    }

    /// Whether runs of this kind repeat no measurement: they may be published, and are in no average.
    pub(crate) fn is_of_no_repetition(self) -> bool {
        use ExclusionReason::{NoFigures, Relabelled, Untraced, Warmup};
        matches!(self, Warmup | Untraced | Relabelled | NoFigures)
    }

    /// Whether the reason applies to a run, and what exactly.
    fn applies_to(self, run: &RunResults) -> Option<String> {
        let metadata = &run.metadata;
        let if_so = |is_so: bool| is_so.then(String::new);
        match self {
            ExclusionReason::Unfinished => if_so(!run.is_finished()),
            ExclusionReason::Failed => metadata.failure.clone().or_else(|| if_so(metadata.state == "failed")),
            ExclusionReason::Partial => if_so(metadata.state == "partial"),
            ExclusionReason::Warmup => if_so(metadata.kind() == RunKind::Warmup),
            ExclusionReason::Untraced => if_so(metadata.kind() == RunKind::Untraced),
            ExclusionReason::Relabelled => if_so(metadata.relabelled.is_some()),
            ExclusionReason::NoFigures => if_so(metadata.import.is_some() && !run.has_figures()),
            ExclusionReason::QualityFail => failed_checks(metadata),
            ExclusionReason::Contaminated => contaminations(metadata),
        }
    }
}

/// A run that does not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Exclusion {
    /// The model.
    pub model_id: String,
    /// The run.
    pub run_id: String,
    /// Why.
    pub reason: ExclusionReason,
    /// What exactly; empty if the reason says it all.
    pub detail: String,
}

/// Why a run does not count, unless the reason is among those to take in; none if it counts.
pub fn exclusion_of(run: &RunResults, included: &[ExclusionReason]) -> Option<Exclusion> {
    let reasons = ExclusionReason::ALL.into_iter().filter(|reason| !included.contains(reason));
    let (reason, detail) = reasons.filter_map(|reason| Some((reason, reason.applies_to(run)?))).next()?;
    let metadata = &run.metadata;
    Some(Exclusion { model_id: metadata.model_id.clone(), run_id: metadata.run_id.clone(), reason, detail })
}

/// `3 runs excluded: 2 warm-up, 1 contaminated (observer CPU 34 % ≥ 20 %)`.
pub fn exclusions_text(exclusions: &[Exclusion]) -> String {
    match exclusions.len() {
        0 => "no run excluded".to_owned(),
        1 => format!("1 run excluded: {}", reasons_text(exclusions)),
        count => format!("{count} runs excluded: {}", reasons_text(exclusions)),
    }
}

/// The same with the runs that were taken in though they usually are not.
pub(crate) fn exclusions_and_inclusions_text(excluded: &[Exclusion], included: &[Exclusion]) -> String {
    let text = exclusions_text(excluded);
    match included {
        [] => text,
        included => format!("{text}; taken in on request: {}", reasons_text(included)),
    }
}

/// How many runs there are of each reason. Of several details of a reason, the first.
fn reasons_text(exclusions: &[Exclusion]) -> String {
    let part = |(reason, runs): (&ExclusionReason, &Vec<&Exclusion>)| {
        format!("{} {}{}", runs.len(), reason.words(), first_detail(runs))
    };
    by_reason(exclusions).iter().map(part).collect::<Vec<_>>().join(", ")
}

/// What to say of runs that are taken in though they usually would not be: one sentence per reason, however many there are.
pub(crate) fn taken_in_texts(exclusions: &[Exclusion]) -> Vec<String> {
    let text = |(reason, runs): (ExclusionReason, Vec<&Exclusion>)| {
        let (why, detail) = (reason.words(), first_detail(&runs));
        match runs.as_slice() {
            [run] => format!("run {} is in, though it is {why}{detail}", run.run_id),
            _ => format!("{} runs are in, though they are {why}{detail}: {}", runs.len(), first_names(&runs)),
        }
    };
    by_reason(exclusions).into_iter().map(text).collect()
}

fn by_reason(exclusions: &[Exclusion]) -> BTreeMap<ExclusionReason, Vec<&Exclusion>> {
    let mut by_reason: BTreeMap<ExclusionReason, Vec<&Exclusion>> = BTreeMap::new();
    exclusions.iter().for_each(|exclusion| by_reason.entry(exclusion.reason).or_default().push(exclusion));
    by_reason
}

/// As many names as a line holds, and how many more there are.
fn first_names(runs: &[&Exclusion]) -> String {
    const NAMES_MAX: usize = 3;
    let names: Vec<&str> = runs.iter().take(NAMES_MAX).map(|run| run.run_id.as_str()).collect();
    match runs.len().saturating_sub(NAMES_MAX) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

fn first_detail(runs: &[&Exclusion]) -> String {
    let details: BTreeSet<&str> = runs.iter().map(|run| run.detail.as_str()).filter(|text| !text.is_empty()).collect();
    match (details.first(), details.len()) {
        (None, _) => String::new(),
        (Some(detail), 1) => format!(" ({detail})"),
        (Some(detail), _) => format!(" (such as {detail})"),
    }
}

/// What contaminated the run; none if nothing did.
fn contaminations(metadata: &RunMetadata) -> Option<String> {
    let validity = metadata.validity.as_ref().filter(|validity| validity.class == ValidityClass::Contaminated)?;
    let reasons = validity.reasons.iter().filter(|reason| reason.lowers_to == ValidityClass::Contaminated);
    Some(reasons.map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

/// Checks that the tables failed; none if the gate was passed.
fn failed_checks(metadata: &RunMetadata) -> Option<String> {
    let quality = metadata.quality.as_ref().filter(|quality| quality.status == QualityStatus::Fail)?;
    let failed = quality.checks.iter().filter(|check| check.status == Some(QualityStatus::Fail));
    Some(failed.map(|check| check.name.name()).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn run(json: Value) -> RunResults {
        RunResults { metadata: serde_json::from_value(json).unwrap(), ..RunResults::default() }
    }

    fn reason_of(json: Value, included: &[ExclusionReason]) -> Option<ExclusionReason> {
        exclusion_of(&run(json), included).map(|exclusion| exclusion.reason)
    }

    #[test]
    fn each_reason_is_seen_and_an_old_run_counts() {
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let cases = [
            (r#"{"state":"complete"}"#, None),
            (r#"{"state":"unfinished"}"#, Some(ExclusionReason::Unfinished)),
            (r#"{"state":"partial","failure":"died"}"#, Some(ExclusionReason::Failed)),
            (r#"{"state":"partial"}"#, Some(ExclusionReason::Partial)),
            (r#"{"state":"complete","experiment":{"run_kind":"warmup"}}"#, Some(ExclusionReason::Warmup)),
            (r#"{"state":"complete","experiment":{"run_kind":"untraced"}}"#, Some(ExclusionReason::Untraced)),
            (r#"{"state":"complete","experiment":{"run_kind":"repetition"}}"#, None),
            (
                r#"{"state":"complete","quality":{"collector":"tensor_ops","status":"FAIL","checks":[]}}"#,
                Some(ExclusionReason::QualityFail),
            ),
            (r#"{"state":"complete","quality":{"collector":"tensor_ops","status":"WARN","checks":[]}}"#, None),
            (
                r#"{"state":"complete","validity":{"class":"contaminated","reasons":[]}}"#,
                Some(ExclusionReason::Contaminated),
            ),
            (r#"{"state":"complete","validity":{"class":"marginal","reasons":[]}}"#, None),
        ];
        for (text, expected) in cases {
            assert_eq!(reason_of(json(text), &[]), expected, "{text}");
        }
    }

    #[test]
    fn a_run_taken_in_for_one_reason_can_still_be_out_for_another() {
        let json = serde_json::json!({
            "state": "complete", "experiment": {"run_kind": "warmup"}, "validity": {"class": "contaminated", "reasons": []}});
        assert_eq!(reason_of(json.clone(), &[ExclusionReason::Warmup]), Some(ExclusionReason::Contaminated));
        assert_eq!(reason_of(json, &[ExclusionReason::Warmup, ExclusionReason::Contaminated]), None);
    }

    #[test]
    fn exclusions_read_as_a_sentence() {
        let contaminated =
            run(serde_json::json!({"state": "complete", "validity": {"class": "contaminated", "reasons": [
            {"what": "observer_cpu_pct", "found": 34.125, "limit": 20.0, "lowers_to": "contaminated"},
            {"what": "baseline_cpu_pct", "found": 16.0, "limit": 15.0, "lowers_to": "marginal"}]}}));
        let warmup = run(serde_json::json!({"state": "complete", "experiment": {"run_kind": "warmup"}}));
        let exclusions: Vec<Exclusion> =
            [&warmup, &contaminated, &warmup].iter().filter_map(|run| exclusion_of(run, &[])).collect();
        assert_eq!(
            exclusions_text(&exclusions),
            "3 runs excluded: 2 warm-up, 1 contaminated (observer CPU 34.1 % ≥ 20 %)"
        );
        assert_eq!(exclusions_text(&[]), "no run excluded");
    }

    #[test]
    fn runs_that_are_taken_in_are_one_sentence_per_reason() {
        let exclusion = |run_id: &str, reason, detail: &str| Exclusion {
            model_id: "m".to_owned(),
            run_id: run_id.to_owned(),
            reason,
            detail: detail.to_owned(),
        };
        let contaminated = |run_id, detail| exclusion(run_id, ExclusionReason::Contaminated, detail);
        let runs = [
            contaminated("a", "observer CPU 34 % ≥ 20 %"),
            exclusion("p", ExclusionReason::Partial, ""),
            contaminated("b", "observer CPU 30 % ≥ 20 %"),
            contaminated("c", "observer CPU 34 % ≥ 20 %"),
            contaminated("d", ""),
        ];
        assert_eq!(
            taken_in_texts(&runs),
            [
                "run p is in, though it is partial",
                "4 runs are in, though they are contaminated (such as observer CPU 30 % ≥ 20 %): a, b, c and 1 more",
            ]
        );
    }
}
