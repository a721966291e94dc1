//! Which of the kernel's signals goes with slow tokens.

use serde::Serialize;

use crate::correlation::{Correlation, correlation};
use crate::histogram::Distribution;
use crate::line::Line;

/// Fewer intervals say nothing about a correlation.
const LEAST_INTERVALS: usize = 12;
/// Intervals that a signal may come before a slow token, or after.
const LAGS: std::ops::RangeInclusive<i32> = -2..=2;
/// Chance that any of the intervals of all signals and lags leaves out 0 by accident.
const FAMILY_ERROR: f64 = 0.05;

/// When a token was computed, on CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenTime {
    /// Begin of its computation.
    pub begin_ns: u64,
    /// End of its computation.
    pub end_ns: u64,
}

/// What goes with slow tokens.
#[derive(Clone, Debug, Serialize)]
pub struct SlowTokens {
    /// Tokens of the run.
    pub tokens: usize,
    /// Tokens that end in an observed interval.
    pub joined_tokens: usize,
    /// Intervals with tokens.
    pub intervals: usize,
    /// Intervals that are needed for a correlation.
    pub intervals_needed: usize,
    /// Confidence of each interval, so that all of them together have 95 %.
    pub confidence: f64,
    /// Signals, the strongest first; none with too few intervals.
    pub signals: Vec<SignalReport>,
}

/// One signal against the time per token.
#[derive(Clone, Debug, Serialize)]
pub struct SignalReport {
    /// Name of the signal.
    pub signal: &'static str,
    /// What it is.
    pub meaning: &'static str,
    /// Intervals that the signal comes before the tokens, at the strongest correlation.
    pub lag_intervals: i32,
    /// That correlation.
    pub strongest: Correlation,
    /// Whether it is told from none at all.
    pub is_clear: bool,
    /// Every lag.
    pub lags: Vec<LagReport>,
}

/// A correlation at one lag.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LagReport {
    /// Intervals that the signal comes before the tokens.
    pub lag_intervals: i32,
    /// Pairs of intervals.
    pub pairs: usize,
    /// The correlation.
    pub correlation: Correlation,
}

/// A number of each interval.
struct Signal {
    name: &'static str,
    meaning: &'static str,
    value: fn(&Line) -> Option<f64>,
}

/// Everything that may explain a slow token. A new one is a line here.
const SIGNALS: [Signal; 8] = [
    Signal { name: "off_cpu", meaning: "time off the processor per second", value: off_cpu },
    Signal { name: "run_queue", meaning: "time on the run queue per second", value: run_queue },
    Signal { name: "page_faults", meaning: "page faults per second", value: page_faults },
    Signal { name: "io_p95", meaning: "95th percentile of the latency of block requests", value: io_p95 },
    Signal { name: "io_requests", meaning: "block requests per second", value: io_requests },
    Signal { name: "psi_cpu", meaning: "share of time stalled for a processor", value: |line| pressure(line, "cpu") },
    Signal { name: "psi_io", meaning: "share of time stalled for I/O", value: |line| pressure(line, "io") },
    Signal { name: "psi_memory", meaning: "share of time stalled for memory", value: |line| pressure(line, "memory") },
];

fn off_cpu(line: &Line) -> Option<f64> {
    Some(line.off_cpu_ns.as_ref()?.values().sum::<u64>() as f64 / line.interval_s)
}

fn run_queue(line: &Line) -> Option<f64> {
    Some(line.run_queue.as_ref()?.wait_ns as f64 / line.interval_s)
}

fn page_faults(line: &Line) -> Option<f64> {
    Some(line.page_faults.as_ref()?.values().sum::<u64>() as f64 / line.interval_s)
}

fn io(line: &Line) -> Option<Distribution> {
    let mut all = Distribution::default();
    line.latency_histogram.as_ref()?.iter().for_each(|device| all.add(&device.buckets));
    Some(all)
}

fn io_p95(line: &Line) -> Option<f64> {
    Some(io(line)?.percentile(95.0).map_or(0.0, |percentile| percentile.estimate_us))
}

fn io_requests(line: &Line) -> Option<f64> {
    Some(io(line)?.total() as f64 / line.interval_s)
}

fn pressure(line: &Line, resource: &str) -> Option<f64> {
    let stalled_us = line.pressure.as_ref()?.get(resource)?.get("some")?.stalled_us?;
    // The kernel adds a stall when it ends or is read, which may be a little after the interval.
    Some((stalled_us as f64 / 1e6 / line.interval_s).min(1.0))
}

/// A signal in each of some lines, by its name; nothing where it was not observed.
pub fn signal_values(name: &str, lines: &[Line]) -> Vec<Option<f64>> {
    let signal = SIGNALS.iter().find(|signal| signal.name == name);
    lines.iter().map(|line| (signal?.value)(line)).collect()
}

/// Joins tokens to the intervals that they end in, and correlates the mean time per token with each signal.
pub(crate) fn slow_tokens(lines: &[Line], tokens: &[TokenTime]) -> SlowTokens {
    let times = times_per_interval(lines, tokens);
    let intervals = times.iter().filter(|times| !times.is_empty()).count();
    let confidence = 1.0 - FAMILY_ERROR / (SIGNALS.len() * LAGS.count()) as f64;
    let mut signals: Vec<SignalReport> = match intervals >= LEAST_INTERVALS {
        true => SIGNALS.iter().filter_map(|signal| signal_report(signal, lines, &times, confidence)).collect(),
        false => Vec::new(),
    };
    let strength = |report: &SignalReport| (report.is_clear, report.strongest.rho.abs());
    signals.sort_by(|one, other| {
        let ((one_clear, one), (other_clear, other)) = (strength(one), strength(other));
        other_clear.cmp(&one_clear).then(other.total_cmp(&one))
    });
    SlowTokens {
        tokens: tokens.len(),
        joined_tokens: times.iter().map(Vec::len).sum(),
        intervals,
        intervals_needed: LEAST_INTERVALS,
        confidence,
        signals,
    }
}

/// Seconds per token, of the tokens that end in each interval.
fn times_per_interval(lines: &[Line], tokens: &[TokenTime]) -> Vec<Vec<f64>> {
    let ends_in = |line: &Line, token: &TokenTime| (line.begin_ns..line.end_ns).contains(&token.end_ns);
    let seconds = |token: &TokenTime| token.end_ns.saturating_sub(token.begin_ns) as f64 / 1e9;
    lines.iter().map(|line| tokens.iter().filter(|token| ends_in(line, token)).map(seconds).collect()).collect()
}

fn signal_report(signal: &Signal, lines: &[Line], times: &[Vec<f64>], confidence: f64) -> Option<SignalReport> {
    let lags: Vec<LagReport> = LAGS.filter_map(|lag| lag_report(signal, lines, times, lag, confidence)).collect();
    let strongest =
        lags.iter().max_by(|one, other| one.correlation.rho.abs().total_cmp(&other.correlation.rho.abs()))?;
    Some(SignalReport {
        signal: signal.name,
        meaning: signal.meaning,
        lag_intervals: strongest.lag_intervals,
        strongest: strongest.correlation,
        is_clear: strongest.correlation.is_clear(),
        lags: lags.clone(),
    })
}

fn lag_report(
    signal: &Signal,
    lines: &[Line],
    times: &[Vec<f64>],
    lag_intervals: i32,
    confidence: f64,
) -> Option<LagReport> {
    let pair = |at: usize| {
        let times = times.get(at).filter(|times| !times.is_empty())?;
        let before = lines.get(at.checked_add_signed(-(lag_intervals as isize))?)?;
        Some(((signal.value)(before)?, times.iter().sum::<f64>() / times.len() as f64))
    };
    let pairs: Vec<(f64, f64)> = (0..lines.len()).filter_map(pair).collect();
    if pairs.len() < LEAST_INTERVALS {
        return None;
    }
    Some(LagReport { lag_intervals, pairs: pairs.len(), correlation: correlation(&pairs, confidence)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// One interval a second; faults that follow a saw tooth, and tokens that take longer one interval after many faults.
    fn made(intervals: u64, lag: u64) -> (Vec<Line>, Vec<TokenTime>) {
        let faults = |at: u64| (at * 7) % 13 * 100;
        let line = |at: u64| Line {
            begin_ns: at * SECOND,
            end_ns: (at + 1) * SECOND,
            interval_s: 1.0,
            page_faults: Some([(7, faults(at))].into()),
            off_cpu_ns: Some([(7, 5)].into()),
            ..Line::default()
        };
        let token = |at: u64| {
            let end_ns = at * SECOND + SECOND / 2;
            TokenTime { begin_ns: end_ns - 1_000_000 - faults(at.saturating_sub(lag)) * 1000, end_ns }
        };
        ((0..intervals).map(line).collect(), (1 + lag..intervals).map(token).collect())
    }

    #[test]
    fn the_signal_that_slows_tokens_is_found_with_its_lag() {
        let (lines, tokens) = made(60, 1);
        let found = slow_tokens(&lines, &tokens);
        assert_eq!((found.tokens, found.joined_tokens, found.intervals), (58, 58, 58));
        let first = &found.signals[0];
        assert_eq!((first.signal, first.lag_intervals, first.is_clear), ("page_faults", 1, true));
        assert!((first.strongest.rho - 1.0).abs() < 1e-9, "{first:?}");
        // A signal that does not change explains nothing, and one that is not there is left out.
        assert!(found.signals.iter().all(|signal| signal.signal != "off_cpu" && signal.signal != "psi_io"));
    }

    #[test]
    fn too_few_tokens_are_said_to_be_too_few() {
        let (lines, tokens) = made(60, 0);
        let few = slow_tokens(&lines, &tokens[..8]);
        assert_eq!((few.intervals, few.intervals_needed, few.signals.len()), (8, LEAST_INTERVALS, 0));
        let elsewhere: Vec<TokenTime> = tokens
            .iter()
            .map(|token| TokenTime { begin_ns: token.begin_ns + 1000 * SECOND, end_ns: token.end_ns + 1000 * SECOND })
            .collect();
        assert_eq!(slow_tokens(&lines, &elsewhere).joined_tokens, 0);
    }
}
