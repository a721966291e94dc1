//! What files of observations say: devices over time, and what goes with slow tokens.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::histogram::{Distribution, Percentile};
use crate::line::{DeviceLatency, Line};
use crate::slow_tokens::{SlowTokens, TokenTime, slow_tokens};

const PERCENTS: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

/// What observations say.
#[derive(Clone, Debug, Serialize)]
pub struct ObservationReport {
    /// Intervals.
    pub lines: usize,
    /// Time from the begin of the first interval to the end of the last.
    pub span_s: f64,
    /// Events that are missing.
    pub lost: u64,
    /// Devices in the order of their names.
    pub devices: Vec<DeviceReport>,
    /// What goes with slow tokens, if a run was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_tokens: Option<SlowTokens>,
}

/// A device over all intervals.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceReport {
    /// Its name.
    pub name: String,
    /// Requests with a latency.
    pub requests: u64,
    /// Bytes of all requests.
    pub bytes: u64,
    /// Requests per second over the whole time.
    pub iops: f64,
    /// Mean number of requests with the device, from the sum of their latencies.
    pub queue_depth: Option<f64>,
    /// Percentiles of all intervals together.
    pub percentiles: Vec<Percentile>,
    /// The device in each interval.
    pub intervals: Vec<DeviceInterval>,
}

/// A device in one interval.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceInterval {
    /// Begin in seconds since the first interval.
    pub begin_s: f64,
    /// Length.
    pub length_s: f64,
    /// Requests by slot of latency.
    pub slots: Vec<u64>,
    /// Requests per second.
    pub iops: f64,
    /// Mean number of requests with the device.
    pub queue_depth: Option<f64>,
    /// Requests with the device at the end.
    pub inflight: Option<u64>,
}

/// Summarises lines, which are put in the order of time, and joins tokens of a run on the same clock.
pub fn observation_report(mut lines: Vec<Line>, tokens: Option<&[TokenTime]>) -> ObservationReport {
    lines.sort_by(|one, other| one.timestamp.total_cmp(&other.timestamp));
    let begin_s = lines.first().map_or(0.0, begin_of);
    let span_s = lines.last().map_or(0.0, |line| line.timestamp - begin_s);
    let mut devices: BTreeMap<String, Vec<(&Line, &DeviceLatency)>> = BTreeMap::new();
    for line in &lines {
        for device in line.latency_histogram.iter().flatten() {
            devices.entry(device.device_name.clone()).or_default().push((line, device));
        }
    }
    ObservationReport {
        lines: lines.len(),
        span_s,
        lost: lines.iter().map(|line| line.lost.total()).sum(),
        devices: devices.into_iter().map(|(name, seen)| device_report(name, &seen, begin_s, span_s)).collect(),
        slow_tokens: tokens.map(|tokens| slow_tokens(&lines, tokens)),
    }
}

fn begin_of(line: &Line) -> f64 {
    line.timestamp - line.interval_s
}

fn device_report(name: String, seen: &[(&Line, &DeviceLatency)], begin_s: f64, span_s: f64) -> DeviceReport {
    let mut all = Distribution::default();
    seen.iter().for_each(|(_, device)| all.add(&device.buckets));
    let latency_s: Option<f64> = seen.iter().map(|(_, device)| latency_s(device)).sum();
    DeviceReport {
        requests: all.total(),
        bytes: seen.iter().flat_map(|(_, device)| &device.operations).map(|operation| operation.bytes).sum(),
        iops: per_second(all.total() as f64, span_s),
        queue_depth: latency_s.map(|latency_s| per_second(latency_s, span_s)),
        percentiles: PERCENTS.into_iter().filter_map(|percent| all.percentile(percent)).collect(),
        intervals: seen.iter().map(|(line, device)| interval(line, device, begin_s)).collect(),
        name,
    }
}

/// Sum of the latencies; other writers than dwell do not know it.
fn latency_s(device: &DeviceLatency) -> Option<f64> {
    let sum = device.operations.iter().map(|operation| operation.latency_ns as f64 / 1e9).sum();
    (!device.operations.is_empty()).then_some(sum)
}

fn interval(line: &Line, device: &DeviceLatency, begin_s: f64) -> DeviceInterval {
    let mut slots = Distribution::default();
    slots.add(&device.buckets);
    let inflight = line.inflight.iter().flatten().find(|inflight| inflight.device_name == device.device_name);
    DeviceInterval {
        begin_s: begin_of(line) - begin_s,
        length_s: line.interval_s,
        slots: slots.counts().to_vec(),
        iops: per_second(slots.total() as f64, line.interval_s),
        queue_depth: latency_s(device).map(|latency_s| per_second(latency_s, line.interval_s)),
        inflight: inflight.map(|inflight| inflight.count),
    }
}

fn per_second(amount: f64, span_s: f64) -> f64 {
    if span_s > 0.0 { amount / span_s } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::buckets_of;
    use crate::line::{DeviceInflight, OperationLatency};

    fn line(timestamp: f64, slot: usize, count: u64) -> Line {
        let mut counts = [0; 12];
        counts[slot] = count;
        let operation = OperationLatency { bytes: count * 4096, latency_ns: count * 1_000_000, ..Default::default() };
        let device = DeviceLatency {
            device_name: "vda".to_owned(),
            total: count,
            buckets: buckets_of(&counts),
            operations: vec![operation],
            ..DeviceLatency::default()
        };
        let inflight = DeviceInflight { device_name: "vda".to_owned(), count: 3, ..DeviceInflight::default() };
        Line {
            timestamp,
            interval_s: 2.0,
            latency_histogram: Some(vec![device]),
            inflight: Some(vec![inflight]),
            ..Line::default()
        }
    }

    #[test]
    fn intervals_of_a_device_add_up_in_the_order_of_time() {
        // The second interval comes first in the file.
        let report = observation_report(vec![line(104.0, 10, 100), line(102.0, 7, 300)], None);
        assert_eq!((report.lines, report.span_s, report.slow_tokens.is_none()), (2, 4.0, true));
        let device = &report.devices[0];
        assert_eq!((device.requests, device.bytes, device.iops), (400, 400 * 4096, 100.0));
        assert_eq!(device.queue_depth, Some(0.1));
        let estimates: Vec<f64> = device.percentiles.iter().map(|percentile| percentile.estimate_us).collect();
        // 300 in 128 to 255 µs, 100 in 1024 to 2047 µs: ranks 200, 360, 380 and 396.
        let expected = [128.0 + 200.0 / 300.0 * 128.0, 1638.4, 1843.2, 2007.04];
        assert!(estimates.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-9), "{estimates:?}");
        let first = &device.intervals[0];
        assert_eq!((first.begin_s, first.iops, first.inflight, first.slots[7]), (0.0, 150.0, Some(3), 300));
    }
}
