//! What the kernel was seen doing during a run, from files of `dwell observe`.

use dwell_observe::{Line, signal_values};
use serde::Serialize;

use super::run_timeline::{Clock, MOST_POINTS, Samples, Series};

/// Signals that share an axis.
struct Group {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    /// Name, title, and what a value is multiplied with.
    signals: &'static [(&'static str, &'static str, f64)],
}

const GROUPS: [Group; 4] = [
    Group {
        name: "observed_pressure",
        title: "Kernel: time spent waiting",
        unit: "percent",
        signals: &[
            ("psi_cpu", "for a processor", 100.0),
            ("psi_io", "for storage", 100.0),
            ("psi_memory", "for memory", 100.0),
        ],
    },
    Group {
        name: "observed_run_queue",
        title: "Kernel: threads on the run queue",
        unit: "",
        signals: &[("run_queue", "waiting", 1e-9)],
    },
    Group {
        name: "observed_io",
        title: "Kernel: latency of block requests",
        unit: "ms",
        signals: &[("io_p95", "95th percentile", 1e-3)],
    },
    Group {
        name: "observed_rates",
        title: "Kernel: events",
        unit: "/s",
        signals: &[("io_requests", "block requests", 1.0), ("page_faults", "page faults", 1.0)],
    },
];

/// Samples of the kernel that share an axis.
#[derive(Debug, Serialize)]
pub(crate) struct ObservedSamples {
    name: &'static str,
    title: &'static str,
    samples: Samples,
}

/// Those intervals that lie between the begin of a run and its end, as samples at their begins. None if there are no such intervals.
pub(super) fn observed(mut lines: Vec<Line>, clock: Clock, end_s: f64) -> Option<Vec<ObservedSamples>> {
    lines.retain(|line| line.end_ns > clock.begin_ns && clock.seconds(line.begin_ns) < end_s);
    lines.sort_by_key(|line| line.begin_ns);
    let stride = (lines.len() as u64).div_ceil(MOST_POINTS).max(1) as usize;
    let lines: Vec<Line> = lines.into_iter().step_by(stride).collect();
    (!lines.is_empty()).then(|| GROUPS.iter().filter_map(|group| samples_of(group, &lines, clock)).collect())
}

fn samples_of(group: &Group, lines: &[Line], clock: Clock) -> Option<ObservedSamples> {
    let series = group.signals.iter().filter_map(|&(name, title, factor)| {
        let values: Vec<Option<f64>> =
            signal_values(name, lines).into_iter().map(|value| value.map(|value| value * factor)).collect();
        values.iter().any(|value| value.is_some_and(|value| value > 0.0)).then_some(Series { name, title, values })
    });
    let series: Vec<Series> = series.collect();
    let time_s = lines.iter().map(|line| clock.seconds(line.begin_ns)).collect();
    let (name, title) = (group.name, group.title);
    (!series.is_empty()).then_some(ObservedSamples {
        name,
        title,
        samples: Samples { unit: group.unit, time_s, series },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn line(begin_s: u64, faults: u64) -> Line {
        Line {
            begin_ns: begin_s * SECOND,
            end_ns: (begin_s + 2) * SECOND,
            interval_s: 2.0,
            page_faults: Some([(7, faults)].into()),
            ..Line::default()
        }
    }

    #[test]
    fn intervals_of_the_run_become_samples_and_others_do_not() {
        let clock = Clock { begin_ns: 101 * SECOND };
        // Before the run, over its begin, in it, and after its end.
        let lines = vec![line(104, 60), line(98, 5), line(100, 30), line(111, 7)];
        let found = observed(lines.clone(), clock, 10.0).unwrap();
        assert_eq!(found.len(), 1, "what was not observed has no lane");
        let samples = &found[0].samples;
        assert_eq!((found[0].name, samples.unit, samples.time_s.as_slice()), ("observed_rates", "/s", &[0.0, 3.0][..]));
        assert_eq!((samples.series[0].name, &samples.series[0].values), ("page_faults", &vec![Some(15.0), Some(30.0)]));
        assert!(observed(lines, Clock { begin_ns: 200 * SECOND }, 10.0).is_none());
    }
}
