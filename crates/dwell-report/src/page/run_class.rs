//! Why a kind of memory has its class, or has none: the number that decided.

use dwell_analysis::SuitabilityThresholds;

use crate::numbers::{seconds, three_digits};
use crate::run_results::MetricsLine;
use crate::run_summary::{decided_by, decisive_steps};

/// The class in words.
pub(super) fn class_title(class: &str, reason: Option<&str>) -> String {
    match (class, reason) {
        ("high_mrm", _) => "suits managed-retention memory well".to_owned(),
        ("medium_mrm", _) => "suits managed-retention memory in part".to_owned(),
        ("low_mrm", _) => "does not suit managed-retention memory".to_owned(),
        ("not_estimable", _) => "cannot be rated from samples".to_owned(),
        (_, Some("window_too_short")) => "not rated: the run ended before its data did".to_owned(),
        (_, Some("unknown_memory")) => "not rated: nobody knows what it holds".to_owned(),
        (_, Some("never_read")) => "not rated: it was never read".to_owned(),
        (_, Some("incomplete_trace")) => "not rated: accesses are missing from the trace".to_owned(),
        (_, Some("contaminated_run")) => "not rated: the run was disturbed".to_owned(),
        (_, Some("no_clock")) => "not rated: the trace has no time".to_owned(),
        _ => "not rated".to_owned(),
    }
}

/// The number that gave a class, and what a class needs it to be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Deciding {
    found: String,
    needs: String,
}

impl Deciding {
    /// As a sentence.
    pub(super) fn sentence(&self) -> String {
        format!("{} ({})", self.found, self.needs)
    }

    /// The same inside of parentheses.
    pub(super) fn within(&self) -> String {
        format!("{}, {}", self.found, self.needs)
    }
}

/// The number that gave the class, and what it would have to be for the next better class. None for samples and for the
/// definitions of mrm-trace, whose metrics lack the shares and times that classes are given by.
pub(super) fn deciding_number(line: &MetricsLine, thresholds: &SuitabilityThresholds) -> Option<Deciding> {
    match line.name("suitability")? {
        "high_mrm" => Some(kept(at_least(line.number("kept_low_share")?, line), thresholds)),
        "medium_mrm" => match line.number("kept_high_share")? {
            share if share < thresholds.high_write_once => Some(kept(at_most(share, line), thresholds)),
            _ => needed("all but 1 % of it", line.number("needed_p99_s")?, line, "high", thresholds.high_retention_s),
        },
        "low_mrm" => low(line, thresholds),
        _ => None,
    }
}

/// Memory is low if half of it is needed for too short a time. If it is not, too little of it stays: that share has no column.
fn low(line: &MetricsLine, thresholds: &SuitabilityThresholds) -> Option<Deciding> {
    let needed_s = line.number("needed_p50_s").or_else(|| line.number("needed_p50_low_s"))?;
    if needed_s < thresholds.medium_retention_s {
        return needed("half of it", line.number("needed_p50_s")?, line, "medium", thresholds.medium_retention_s);
    }
    let (share, time) = (percent(thresholds.medium_write_once), brief_seconds(thresholds.medium_retention_s));
    Some(Deciding {
        found: format!("less than {share} of what is stored stays {time}"),
        needs: format!("medium needs {share}"),
    })
}

fn kept(share: String, thresholds: &SuitabilityThresholds) -> Deciding {
    let time = brief_seconds(thresholds.high_retention_s);
    Deciding {
        found: format!("{share} of what is stored stays {time}"),
        needs: format!("high needs {}", percent(thresholds.high_write_once)),
    }
}

/// A share below which it cannot be; the share itself if nothing was left open.
fn at_least(share: f64, line: &MetricsLine) -> String {
    let bound = if line.number("kept_high_share") == Some(share) { "" } else { "at least " };
    format!("{bound}{}", percent(share))
}

fn at_most(share: f64, line: &MetricsLine) -> String {
    let bound = if line.number("kept_low_share") == Some(share) { "" } else { "at most " };
    format!("{bound}{}", percent(share))
}

fn needed(what: &str, needed_s: f64, line: &MetricsLine, class: &str, needs_s: f64) -> Option<Deciding> {
    let step_s = line.number("suitability_tokens_per_s").map(|tokens_per_s| 1.0 / tokens_per_s);
    let time = match (needed_s, step_s) {
        (0.0, Some(step_s)) => format!("less than {}", brief_seconds(step_s)),
        (0.0, None) => "no measurable time".to_owned(),
        (needed_s, _) => seconds(needed_s),
    };
    Some(Deciding {
        found: format!("{what} is needed for {time}"),
        needs: format!("{class} needs {}", brief_seconds(needs_s)),
    })
}

/// What would decide, and what is known of the class already.
pub(super) fn what_would_decide(line: &MetricsLine, thresholds: &SuitabilityThresholds) -> String {
    let steps = line.number("steps").unwrap_or(0.0) as u64;
    let tokens_per_s = line.number("suitability_tokens_per_s");
    let decided_by = match decisive_steps(thresholds, tokens_per_s) {
        Some(decisive) if decisive > steps => format!("a run of {decisive} steps or more (--max-tokens {decisive})"),
        _ => decided_by(thresholds, tokens_per_s, steps),
    };
    let medium = if is_medium_at_least(line, thresholds) { "; at least medium" } else { "" };
    format!("{decided_by} would decide{medium}")
}

/// Whether the lower bounds give the medium class. The share that stays for its retention has no column of its own. It is at
/// least the share that stays for the longer retention of the high class, and at least the share that is needed so long:
/// half of what is read, by the median.
fn is_medium_at_least(line: &MetricsLine, thresholds: &SuitabilityThresholds) -> bool {
    let is_needed = line.number("needed_p50_low_s").is_some_and(|low| low >= thresholds.medium_retention_s);
    let needed_share = 0.5 * (1.0 - line.number("never_read_share").unwrap_or(1.0));
    let kept_share = match thresholds.high_retention_s >= thresholds.medium_retention_s {
        true => line.number("kept_low_share").unwrap_or(0.0),
        false => 0.0,
    };
    is_needed && needed_share.max(kept_share) >= thresholds.medium_write_once
}

fn percent(share: f64) -> String {
    format!("{} %", without_zeros(&three_digits(share * 100.0)))
}

fn brief_seconds(time_s: f64) -> String {
    let time = seconds(time_s);
    time.split_once(' ').map_or_else(|| time.clone(), |(number, unit)| format!("{} {unit}", without_zeros(number)))
}

/// Round numbers, as thresholds are, need no zeros after the point.
fn without_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use dwell_analysis::Value;

    use super::*;

    fn deciding(class: &str, numbers: &[(&str, f64)]) -> Option<String> {
        let numbers = numbers.iter().map(|(column, number)| ((*column).to_owned(), Value::Number(*number)));
        let class = [("suitability".to_owned(), Value::Text(class.to_owned()))];
        let line = MetricsLine { region_type: "weight".to_owned(), values: class.into_iter().chain(numbers).collect() };
        deciding_number(&line, &SuitabilityThresholds::default()).map(|deciding| deciding.sentence())
    }

    #[test]
    fn the_number_is_the_one_that_the_rule_stopped_at() {
        let kept = |low, high| vec![("kept_low_share", low), ("kept_high_share", high)];
        let of = |class, numbers: &[(&str, f64)]| deciding(class, numbers).unwrap();
        assert_eq!(of("high_mrm", &kept(1.0, 1.0)), "100 % of what is stored stays 10 s (high needs 80 %)");
        assert_eq!(of("high_mrm", &kept(0.852, 0.9)), "at least 85.2 % of what is stored stays 10 s (high needs 80 %)");
        assert_eq!(of("medium_mrm", &kept(0.2, 0.31)), "at most 31 % of what is stored stays 10 s (high needs 80 %)");
        let long_but_unread = [kept(0.9, 0.9), vec![("needed_p99_s", 2.5)]].concat();
        assert_eq!(of("medium_mrm", &long_but_unread), "all but 1 % of it is needed for 2.50 s (high needs 10 s)");
        let at_pace = |p50_s| [("suitability_tokens_per_s", 20.0), ("needed_p50_s", p50_s)];
        assert_eq!(of("low_mrm", &at_pace(0.0)), "half of it is needed for less than 50 ms (medium needs 1 s)");
        assert_eq!(of("low_mrm", &at_pace(3.0)), "less than 50 % of what is stored stays 1 s (medium needs 50 %)");
    }

    #[test]
    fn samples_have_no_such_number() {
        assert_eq!(deciding("low_mrm", &[]), None);
        assert_eq!(deciding("not_estimable", &[("kept_low_share", 0.5)]), None);
    }
}
