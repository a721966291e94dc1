//! What files of observations say: devices over time, and what goes with slow tokens.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::histogram::{Distribution, Percentile};
use crate::line::{DeviceLatency, DiskCounts, Line};
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
    /// Mean number of requests with the device: from the sum of their latencies, or as the kernel counts it.
    pub queue_depth: Option<f64>,
    /// Mean latency.
    pub latency_ms_mean: Option<f64>,
    /// Percentiles of all intervals together; none if the kernel's counters were all that there was.
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
    let mut counted: BTreeMap<String, Vec<(&Line, &DiskCounts)>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.latency_histogram.is_none()) {
        for disk in line.disks.iter().flatten() {
            counted.entry(disk.device_name.clone()).or_default().push((line, disk));
        }
    }
    counted.retain(|name, _| !devices.contains_key(name));
    let counted = counted.into_iter().map(|(name, seen)| counted_device(name, &seen, begin_s, span_s));
    let mut devices: Vec<DeviceReport> =
        devices.into_iter().map(|(name, seen)| device_report(name, &seen, begin_s, span_s)).chain(counted).collect();
    devices.sort_by(|one, other| one.name.cmp(&other.name));
    ObservationReport {
        lines: lines.len(),
        span_s,
        lost: lines.iter().map(|line| line.lost.total()).sum(),
        devices,
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
        bytes: seen.iter().map(|(_, device)| device.moved_bytes()).sum(),
        iops: per_second(all.total() as f64, span_s),
        queue_depth: latency_s.map(|latency_s| per_second(latency_s, span_s)),
        latency_ms_mean: latency_s.filter(|_| all.total() > 0).map(|latency_s| latency_s * 1e3 / all.total() as f64),
        percentiles: PERCENTS.into_iter().filter_map(|percent| all.percentile(percent)).collect(),
        intervals: seen.iter().map(|(line, device)| interval(line, device, begin_s)).collect(),
        name,
    }
}

/// A device of which the kernel's counters are all that is known.
fn counted_device(name: String, seen: &[(&Line, &DiskCounts)], begin_s: f64, span_s: f64) -> DeviceReport {
    let requests = seen.iter().map(|(_, disk)| disk.reads + disk.writes).sum();
    let latency_ms: f64 = seen.iter().map(|(_, disk)| counted_latency_ms(disk)).sum();
    let queue_s: f64 = seen.iter().map(|(line, disk)| disk.queue_depth * line.interval_s).sum();
    DeviceReport {
        name,
        requests,
        bytes: seen.iter().map(|(_, disk)| disk.read_bytes + disk.written_bytes).sum(),
        iops: per_second(requests as f64, span_s),
        queue_depth: Some(per_second(queue_s, span_s)),
        latency_ms_mean: (requests > 0).then(|| latency_ms / requests as f64),
        percentiles: Vec::new(),
        intervals: seen.iter().map(|(line, disk)| counted_interval(line, disk, begin_s)).collect(),
    }
}

fn counted_latency_ms(disk: &DiskCounts) -> f64 {
    let all_ms = |count: u64, mean_ms: Option<f64>| count as f64 * mean_ms.unwrap_or(0.0);
    all_ms(disk.reads, disk.read_ms_mean) + all_ms(disk.writes, disk.write_ms_mean)
}

fn counted_interval(line: &Line, disk: &DiskCounts, begin_s: f64) -> DeviceInterval {
    DeviceInterval {
        begin_s: begin_of(line) - begin_s,
        length_s: line.interval_s,
        slots: Vec::new(),
        iops: per_second((disk.reads + disk.writes) as f64, line.interval_s),
        queue_depth: Some(disk.queue_depth),
        inflight: inflight_of(line, &disk.device_name),
    }
}

fn inflight_of(line: &Line, device_name: &str) -> Option<u64> {
    line.inflight.iter().flatten().find(|inflight| inflight.device_name == device_name).map(|inflight| inflight.count)
}

/// Sum of the latencies; other writers than dwell do not know it.
fn latency_s(device: &DeviceLatency) -> Option<f64> {
    let sum = device.operations.iter().map(|operation| operation.latency_ns as f64 / 1e9).sum();
    (!device.operations.is_empty()).then_some(sum)
}

fn interval(line: &Line, device: &DeviceLatency, begin_s: f64) -> DeviceInterval {
    let mut slots = Distribution::default();
    slots.add(&device.buckets);
    DeviceInterval {
        begin_s: begin_of(line) - begin_s,
        length_s: line.interval_s,
        slots: slots.counts().to_vec(),
        iops: per_second(slots.total() as f64, line.interval_s),
        queue_depth: latency_s(device).map(|latency_s| per_second(latency_s, line.interval_s)),
        inflight: inflight_of(line, &device.device_name),
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
        let write = OperationLatency {
            operation: "write".to_owned(),
            bytes: count * 4096,
            latency_ns: count * 1_000_000,
            ..Default::default()
        };
        // Bytes that a discard names are not moved.
        let discard = OperationLatency { operation: "other".to_owned(), bytes: 1 << 30, ..Default::default() };
        let device = DeviceLatency {
            device_name: "vda".to_owned(),
            total: count,
            buckets: buckets_of(&counts),
            operations: vec![write, discard],
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

    #[test]
    fn without_latencies_the_counters_of_the_kernel_are_reported() {
        let disk = |reads, writes| DiskCounts {
            device_name: "vda".to_owned(),
            reads,
            writes,
            read_bytes: reads * 4096,
            written_bytes: writes * 512,
            read_ms_mean: Some(2.0),
            write_ms_mean: (writes > 0).then_some(10.0),
            queue_depth: 0.5,
            ..DiskCounts::default()
        };
        let line = |timestamp, disk| Line { timestamp, interval_s: 2.0, disks: Some(vec![disk]), ..Line::default() };
        let report = observation_report(vec![line(102.0, disk(30, 10)), line(104.0, disk(60, 0))], None);
        let device = &report.devices[0];
        assert_eq!((device.requests, device.bytes, device.iops), (100, 90 * 4096 + 10 * 512, 25.0));
        // 90 reads of 2 ms and 10 writes of 10 ms.
        assert_eq!((device.queue_depth, device.latency_ms_mean), (Some(0.5), Some(2.8)));
        assert!(device.percentiles.is_empty() && device.intervals[1].iops == 30.0);
    }
}
