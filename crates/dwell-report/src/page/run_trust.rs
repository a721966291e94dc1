//! How far a run can be trusted, in words, with the reason of each.

use dwell_analysis::overview::Overview;
use dwell_analysis::quality::{Quality, QualityStatus};
use dwell_analysis::validity::ValidityClass;
use dwell_metadata::Agreement;

use super::run::RunFiles;
use super::{Level, Statement};
use crate::LossSummary;
use crate::numbers::{bytes, count, seconds, three_digits};
use crate::text::counted;
use crate::watched::{agreement_line, basis_lines, refusal_lines};

/// Share of unknown rows from which on labels are worth a note.
const UNKNOWN_SHARE_NOTED: f64 = 0.001;
/// The same for a warning.
const UNKNOWN_SHARE_BAD: f64 = 0.05;
/// Share of what two collectors see below which their agreement is worth a note.
const AGREEMENT_NOTED: f64 = 0.95;
/// Share of speed below which watching is worth a note.
const SPEED_SHARE_NOTED: f64 = 0.98;
/// The same for a warning.
const SPEED_SHARE_BAD: f64 = 0.9;
/// Share of speed above which two runs differ by noise that hides what watching cost.
const SPEED_SHARE_NOISE: f64 = 2.0 - SPEED_SHARE_NOTED;

/// What decides how far a run can be trusted, in the order in which a reader asks.
pub(super) fn trust(files: &RunFiles<'_>, overview: &Overview) -> Vec<Statement> {
    let statements = [
        failure(files),
        Some(basis(files, overview)),
        clock(files),
        labels(files, overview),
        watched(files),
        agreement(files),
        Some(loss(&files.losses)),
        Some(overhead(files)),
        Some(validity(files)),
        files.metadata.quality.as_ref().map(quality),
    ];
    statements.into_iter().flatten().collect()
}

/// What of it can be said of a run that goes on, and that it does.
pub(super) fn trust_while_recording(statements: Vec<Statement>) -> Vec<Statement> {
    const JUDGED_AT_THE_END: [&str; 3] = ["overhead", "validity", "quality"];
    let text = "This run is being recorded: everything here is of what was written to disk so far.";
    let known = statements.into_iter().filter(|statement| !JUDGED_AT_THE_END.contains(&statement.topic));
    [statement("recording", Level::Note, text)].into_iter().chain(known).collect()
}

fn statement(topic: &'static str, level: Level, text: impl Into<String>) -> Statement {
    Statement { topic, level, text: text.into(), reasons: Vec::new() }
}

fn failure(files: &RunFiles<'_>) -> Option<Statement> {
    let failure = files.metadata.failure.as_ref()?;
    let reasons = files.metadata.failure_hints.clone();
    Some(Statement { reasons, ..statement("failure", Level::Bad, format!("The run failed: {failure}.")) })
}

fn basis(files: &RunFiles<'_>, overview: &Overview) -> Statement {
    if overview.rows == 0 {
        let server = files.metadata.server.as_ref();
        let reason = server.and_then(|server| server.untraced_because.clone());
        let unused = match files.metadata.is_imported() {
            true => "the recording that was imported has none",
            false => "the collector tensor_ops was not used",
        };
        let reasons = vec![reason.unwrap_or_else(|| unused.to_owned())];
        return Statement { reasons, ..statement("basis", Level::Bad, "No access was recorded.") };
    }
    let window = overview.last_ns.saturating_sub(overview.first_ns);
    let window = match files.metadata.time_unit() {
        Some(unit) => format!("{} {unit}", count(window)),
        None => seconds(window as f64 / 1e9),
    };
    let seen = format!("{} accesses over {window}", count(overview.rows));
    let bases: Vec<&str> = files.metrics.iter().filter_map(|line| line.name("basis")).collect();
    if bases.contains(&"sampled") {
        return Statement {
            reasons: vec!["what happened between two samples was not seen".to_owned()],
            ..statement("basis", Level::Note, format!("Sampled: {seen}."))
        };
    }
    let inferred = files.metrics.iter().filter(|line| line.number("inferred_share").is_some_and(|share| share > 0.0));
    let reasons = inferred.map(|line| {
        let share = line.number("inferred_share").unwrap_or(0.0);
        format!(
            "of {}, {} % of the data was stored where nobody saw it, and its life is taken to begin then",
            line.region_type,
            three_digits(share * 100.0)
        )
    });
    let timed = files.metadata.time_resolution.map_or_else(String::new, |by| format!(", timed by {}", by.name()));
    Statement {
        reasons: reasons.collect(),
        ..statement("basis", Level::Good, format!("Exact: every access of the computed graphs, {seen}{timed}."))
    }
}

/// That the recording had no clock.
fn clock(files: &RunFiles<'_>) -> Option<Statement> {
    let unit = files.metadata.time_unit()?;
    let text = format!("The recording has no times: timestamps count {unit}, and so do the axes of this page.");
    let reasons = vec!["nothing is given in seconds, and no memory is rated".to_owned()];
    Some(Statement { reasons, ..statement("clock", Level::Bad, text) })
}

fn labels(files: &RunFiles<'_>, overview: &Overview) -> Option<Statement> {
    let unknown = files.metrics.iter().find(|line| line.region_type == "unknown");
    let rows = |column| unknown.and_then(|line| line.number(column)).unwrap_or(0.0);
    let share = (overview.rows > 0).then(|| (rows("loads") + rows("stores")) / overview.rows as f64)?;
    let level = match share {
        share if share >= UNKNOWN_SHARE_BAD => Level::Bad,
        share if share >= UNKNOWN_SHARE_NOTED => Level::Note,
        _ => Level::Good,
    };
    let text = match share {
        0.0 => "Every access is labelled with the memory it belongs to.".to_owned(),
        share => format!(
            "{} % of the accesses are labelled with the memory they belong to.",
            three_digits((1.0 - share) * 100.0)
        ),
    };
    Some(statement("labels", level, text))
}

/// How each table was obtained, and which collectors were refused.
fn watched(files: &RunFiles<'_>) -> Option<Statement> {
    let collectors = &files.metadata.collectors;
    if collectors.used.is_empty() {
        return None;
    }
    let by = collectors.used.join(", ");
    let refusals = refusal_lines(collectors);
    let (level, text) = match refusals.len() {
        0 => (Level::Good, format!("Watched by {by}.")),
        number => (Level::Note, format!("Watched by {by}; refused: {}.", counted(number as u64, "collector"))),
    };
    let reasons = refusals.into_iter().chain(basis_lines(&files.metadata.tables)).collect();
    Some(Statement { reasons, ..statement("collectors", level, text) })
}

/// How far collectors agree that see the same.
fn agreement(files: &RunFiles<'_>) -> Option<Statement> {
    let agreements = &files.metadata.agreements;
    let least = agreements.iter().filter_map(Agreement::share).reduce(f64::min)?;
    let level = if least < AGREEMENT_NOTED { Level::Note } else { Level::Good };
    let text = format!("Collectors that see the same agree on at least {} % of it.", three_digits(least * 100.0));
    let reasons = agreements.iter().map(agreement_line).collect();
    Some(Statement { reasons, ..statement("agreement", level, text) })
}

fn loss(losses: &[LossSummary]) -> Statement {
    let (lost, outside): (Vec<_>, Vec<_>) = losses.iter().partition(|loss| loss.is_data_loss);
    let reason = |loss: &&LossSummary| {
        let size = loss.bytes.map_or_else(String::new, |size| format!(", {}", bytes(size)));
        format!("{} × {}{size}: {}", count(loss.count), loss.kind.replace('_', " "), loss.detail)
    };
    if lost.is_empty() {
        let reasons = outside.iter().map(reason).collect();
        return Statement { reasons, ..statement("loss", Level::Good, "No access was lost.") };
    }
    let reasons = lost.iter().chain(&outside).map(reason).collect();
    Statement { reasons, ..statement("loss", Level::Bad, "Something that should be here is missing.") }
}

fn overhead(files: &RunFiles<'_>) -> Statement {
    let effect = files.metadata.observer_effect.clone().unwrap_or_default();
    let slowdown = effect.slowdown.as_ref().and_then(|slowdown| slowdown.decode_speed_share);
    let mut reasons = Vec::new();
    if let Some(share) = effect.observer_cpu_share {
        reasons.push(format!("the observer took {} % of the worker's CPU time", three_digits(share * 100.0)));
    }
    if let Some(peak) = effect.observer_peak_rss_bytes.or(effect.observer.rss_peak_bytes) {
        reasons.push(format!("it took {} of memory at most", bytes(peak)));
    }
    reasons.push(format!("the worker waited {} for it", seconds(effect.worker_blocked_ns as f64 / 1e9)));
    let (level, text) = slowdown.map_or_else(unmeasured, |share| speed(share, class_of(files)));
    Statement { reasons, ..statement("overhead", level, text) }
}

fn unmeasured() -> (Level, String) {
    let text = "How much watching slowed the run down was not measured; an experiment with measure_slowdown does.";
    (Level::Note, text.to_owned())
}

/// What the speed beside that of one unwatched run says. Two runs give no interval: a difference as small as that between any two
/// runs is not known to come from watching, and a watched run that was faster shows how large that difference is.
fn speed(share: f64, validity: ValidityClass) -> (Level, String) {
    let said = format!("Watched, it ran at {} % of the speed of one unwatched run", three_digits(share * 100.0));
    let is_disturbed = validity == ValidityClass::Contaminated;
    match share {
        share if share < SPEED_SHARE_BAD => (Level::Bad, format!("{said}.")),
        share if share < SPEED_SHARE_NOTED => (Level::Note, format!("{said}.")),
        share if share > SPEED_SHARE_NOISE => (
            Level::Note,
            format!(
                "{said}. Watching does not make a run faster: the difference is noise, so how much watching slowed it down is \
                 not known."
            ),
        ),
        _ if is_disturbed => (
            Level::Note,
            format!("{said}. The machine was disturbed, so how much watching slowed it down is not known."),
        ),
        _ => (Level::Good, format!("{said}: no difference beyond the noise between two runs.")),
    }
}

fn class_of(files: &RunFiles<'_>) -> ValidityClass {
    files.metadata.validity.as_ref().map_or(ValidityClass::Unknown, |validity| validity.class)
}

fn validity(files: &RunFiles<'_>) -> Statement {
    let validity = files.metadata.validity.as_ref();
    let (level, text) = match class_of(files) {
        ValidityClass::Clean => (Level::Good, "Nothing else disturbed the machine."),
        ValidityClass::Contaminated => (
            Level::Bad,
            "The machine was disturbed: times in seconds may be too long, counts and steps are not affected.",
        ),
        ValidityClass::Unknown => (Level::Note, "Whether the machine was disturbed is not known."),
        _ => (Level::Note, "The machine was disturbed a little."),
    };
    let reasons = validity.into_iter().flat_map(|validity| &validity.reasons).map(ToString::to_string).collect();
    Statement { reasons, ..statement("validity", level, text) }
}

fn quality(quality: &Quality) -> Statement {
    let (level, text) = match quality.status {
        QualityStatus::Pass => (Level::Good, "The trace holds what its collector is expected to give."),
        QualityStatus::Warn => (Level::Note, "The trace holds a little less than its collector is expected to give."),
        QualityStatus::Fail => {
            (Level::Bad, "The trace holds less than its collector is expected to give; suitability is not rated.")
        }
    };
    let failed = quality.checks.iter().filter(|check| check.status.is_some_and(|status| status != QualityStatus::Pass));
    let reasons = failed.map(|check| {
        let share = check.share.map_or_else(|| "none".to_owned(), |share| format!("{} %", three_digits(share * 100.0)));
        format!("{}: {share}", check.name.name().replace('_', " "))
    });
    Statement { reasons: reasons.collect(), ..statement("quality", level, text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watched_run_that_was_faster_shows_noise_and_is_not_good() {
        let (level, text) = speed(1.08, ValidityClass::Clean);
        assert_eq!(level, Level::Note);
        assert!(text.contains("108 %") && text.contains("noise") && text.contains("not known"), "{text}");
    }

    #[test]
    fn the_same_speed_is_good_unless_the_machine_was_disturbed() {
        assert_eq!(speed(0.99, ValidityClass::Clean).0, Level::Good);
        let (level, text) = speed(0.99, ValidityClass::Contaminated);
        assert!(level == Level::Note && text.contains("disturbed"), "{text}");
        assert_eq!(speed(0.95, ValidityClass::Clean).0, Level::Note);
        assert_eq!(speed(0.5, ValidityClass::Contaminated).0, Level::Bad);
    }
}
