//! An observation as text: what happened in one interval, a line for each group of fields.

use dwell_observe::{
    Bucket, CallUse, DeviceLatency, Distribution, Line, PressureLines, PressureValues, ProcessUse, SourceKind,
};

use super::{bytes, counted, seconds};

/// Calls that are shown of each group.
const SHOWN_CALLS: usize = 5;

/// What happened in one interval.
pub fn observation_text(line: &Line) -> String {
    let mut text = format!("{}  {}\n", line.iso_timestamp.get(11..19).unwrap_or_default(), seconds(line.interval_s));
    let mut add = |group: &str, value: String| {
        let mark = match line.sources.get(group).map(|source| source.source) {
            Some(SourceKind::Procfs) if group != "psi" => " (procfs)",
            _ => "",
        };
        text.push_str(&format!("{group:<9} {value}{mark}\n"));
    };
    disk_lines(line).into_iter().for_each(|disk| add("disk", disk));
    if line.page_faults.is_some() {
        add("mem", faults_text(processes(line)));
    }
    if line.off_cpu_ns.is_some() {
        add("sched", schedule_text(line));
    }
    line.syscalls.iter().for_each(|calls| add("syscalls", calls_text(calls)));
    line.sync.iter().for_each(|calls| add("sync", calls_text(calls)));
    if line.tcp.is_some() {
        add("net", net_text(line));
    }
    line.pressure.iter().for_each(|pressure| add("psi", pressure_text(pressure, line.interval_s)));
    if line.lost.total() > 0 {
        add("lost", counted(line.lost.total(), "event"));
    }
    text
}

fn processes(line: &Line) -> &[ProcessUse] {
    line.processes.as_deref().unwrap_or_default()
}

fn sum(processes: &[ProcessUse], value: fn(&ProcessUse) -> Option<u64>) -> u64 {
    processes.iter().filter_map(value).sum()
}

/// The process with the greatest value, if any has one.
fn most(processes: &[ProcessUse], value: fn(&ProcessUse) -> Option<u64>) -> Option<(&ProcessUse, u64)> {
    let found = processes.iter().filter_map(|process| Some((process, value(process)?)));
    found.max_by_key(|(_, value)| *value).filter(|(_, value)| *value > 0)
}

/// `p50 120 µs, p95 1.2 ms`, with the upper ends of the slots.
fn percentiles_text(buckets: &[Bucket]) -> String {
    let mut distribution = Distribution::default();
    distribution.add(buckets);
    let percentile = |percent: f64| {
        let found = distribution.percentile(percent)?;
        Some(format!("p{percent} {}", seconds(found.estimate_us / 1e6)))
    };
    [50.0, 95.0, 99.0].into_iter().filter_map(percentile).collect::<Vec<_>>().join(", ")
}

fn disk_lines(line: &Line) -> Vec<String> {
    let latencies = line.latency_histogram.as_deref().unwrap_or_default();
    let traced = latencies.iter().map(|device| traced_disk(device, line));
    let is_traced = line.latency_histogram.is_some();
    let counted_disks = line.disks.iter().flatten().filter(|disk| !is_traced && disk.reads + disk.writes > 0);
    let by_kernel = counted_disks.map(|disk| {
        let moved = bytes(disk.read_bytes + disk.written_bytes);
        let mean = |name: &str, mean: Option<f64>| mean.map(|ms| format!(", {name} {}", seconds(ms / 1e3)));
        let means = [mean("mean read", disk.read_ms_mean), mean("mean write", disk.write_ms_mean)];
        let means: String = means.into_iter().flatten().collect();
        let queue = disk.queue_depth;
        format!(
            "{} {}, {moved}{means}, queue {queue:.2}",
            disk.device_name,
            counted(disk.reads + disk.writes, "request")
        )
    });
    traced.chain(by_kernel).collect()
}

fn traced_disk(device: &DeviceLatency, line: &Line) -> String {
    let latency_ns: u64 = device.operations.iter().map(|operation| operation.latency_ns).sum();
    let inflight = line.inflight.iter().flatten().find(|inflight| inflight.device_id == device.device_id);
    let inflight = inflight.map_or(0, |inflight| inflight.count);
    let iops = device.total as f64 / line.interval_s;
    let queue = latency_ns as f64 / 1e9 / line.interval_s;
    let percentiles = percentiles_text(&device.buckets);
    format!(
        "{} {iops:.0} IOPS, {}/s, {percentiles}, queue {queue:.2}, {inflight} in flight",
        device.device_name,
        bytes((device.moved_bytes() as f64 / line.interval_s) as u64)
    )
}

fn faults_text(processes: &[ProcessUse]) -> String {
    let faults = counted(sum(processes, |process| process.page_faults), "page fault");
    match most(processes, |process| process.page_faults) {
        Some((process, most)) => format!("{faults}, most by {} {} ({most})", process.pid, process.name),
        None => faults,
    }
}

fn schedule_text(line: &Line) -> String {
    let ns = |ns: u64| seconds(ns as f64 / 1e9);
    let queue = line.run_queue.clone().unwrap_or_default();
    let percentiles = match percentiles_text(&queue.buckets) {
        text if text.is_empty() => String::new(),
        text => format!(" ({text})"),
    };
    let waits =
        format!("{} on the run queue, {} together{percentiles}", counted(queue.count, "wait"), ns(queue.wait_ns));
    match most(processes(line), |process| process.run_queue_ns) {
        Some((process, most)) => format!("{waits}, most by {} {} ({})", process.pid, process.name, ns(most)),
        None => waits,
    }
}

fn calls_text(calls: &[CallUse]) -> String {
    let mut calls: Vec<&CallUse> = calls.iter().collect();
    calls.sort_by_key(|call| std::cmp::Reverse(call.count));
    let call_text = |call: &&CallUse| {
        let mut distribution = Distribution::default();
        distribution.add(&call.buckets);
        let p95 = distribution.percentile(95.0).map_or(0.0, |percentile| percentile.estimate_us);
        // A slot reaches farther than the longest call in it.
        let p95 = if call.latency_max_ns > 0 { p95.min(call.latency_max_ns as f64 / 1e3) } else { p95 };
        let moved = if call.bytes > 0 { format!(", {}", bytes(call.bytes)) } else { String::new() };
        format!("{} {} (p95 {}{moved})", call.syscall, call.count, seconds(p95 / 1e6))
    };
    let shown: Vec<String> = calls.iter().take(SHOWN_CALLS).map(call_text).collect();
    if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
}

fn net_text(line: &Line) -> String {
    let processes = processes(line);
    let sent = bytes(sum(processes, |process| process.tcp_sent_bytes));
    let received = bytes(sum(processes, |process| process.tcp_received_bytes));
    let tcp = line.tcp.clone().unwrap_or_default();
    let segments = format!("{} sent again", counted(tcp.segments_retransmitted, "segment"));
    match processes.iter().any(|process| process.tcp_sent_bytes.is_some()) {
        true => format!("{sent} sent, {received} received, {segments}"),
        false => format!("{}, {segments}", counted(tcp.segments_sent + tcp.segments_received, "segment")),
    }
}

/// Shares of the interval; of the last 10 s where a file has no more.
fn pressure_text(pressure: &PressureLines, interval_s: f64) -> String {
    let share = |values: &PressureValues| match values.stalled_us {
        Some(stalled_us) => stalled_us as f64 / 1e4 / interval_s,
        None => values.avg10,
    };
    let resource = |(resource, lines): (&String, &std::collections::BTreeMap<String, _>)| {
        let value = |kind: &str| lines.get(kind).map_or(0.0, share);
        format!("{resource} {:.1} % some, {:.1} % full", value("some"), value("full"))
    };
    pressure.iter().map(resource).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_told_by_group_and_by_where_it_comes_from() {
        let line: Line = serde_json::from_str(
            r#"{"timestamp":1.0,"iso_timestamp":"2023-11-14T22:13:20.500000+00:00","interval_s":2.0,
                "sources":{"disk":{"source":"ebpf"},"mem":{"source":"procfs","reason":"x"}},
                "latency_histogram":[{"device_id":1,"device_name":"vda","total":200,
                    "buckets":[{"slot":7,"count":200,"bucket_low":128,"bucket_high":255}],
                    "operations":[{"operation":"read","requests":200,"bytes":819200,"latency_ns":40000000}]}],
                "inflight":[{"device_id":1,"device_name":"vda","count":3}],
                "page_faults":{"7":12},"processes":[{"pid":7,"name":"llama","page_faults":12}],
                "syscalls":[{"syscall":"poll","count":2,"latency_max_ns":2200000,
                    "buckets":[{"slot":11,"count":2,"bucket_low":2048,"bucket_high":4095}]}],
                "pressure":{"cpu":{"some":{"avg10":12.34,"avg60":0,"avg300":0,"total":1}},
                    "io":{"some":{"avg10":99.0,"avg60":0,"avg300":0,"total":1,"stalled_us":500000}}},"lost":{"threads":4}}"#,
        )
        .expect("a line");
        let text = observation_text(&line);
        let expected = "22:13:20  2.00 s\n\
                        disk      vda 100 IOPS, 400 KiB/s, p50 192 µs, p95 250 µs, p99 255 µs, queue 0.02, 3 in flight\n\
                        mem       12 page faults, most by 7 llama (12) (procfs)\n\
                        syscalls  poll 2 (p95 2.20 ms)\n\
                        psi       cpu 12.3 % some, 0.0 % full; io 25.0 % some, 0.0 % full\n\
                        lost      4 events\n";
        assert_eq!(text, expected);
    }
}
