//! What watching the machine costs: CPU time of one sample and of the begin, and the share of one core at a pace.
//!
//! `cargo bench -p dwell-host --bench cost`

#![allow(clippy::unwrap_used, reason = "a step that fails ends the measurement")]

use std::thread;
use std::time::Duration;

use dwell_host::{Root, SensorThread};

const WATCH: Duration = Duration::from_secs(5);

fn main() {
    // Stopped at once: the begin, the first sample and the last.
    let begin_ns = (0..20).map(|_| watched(Duration::from_secs(1), Duration::ZERO).0).min().unwrap();
    println!("begin and end: {:.0} µs of CPU time", begin_ns as f64 / 1e3);
    for interval_ms in [500, 100, 10] {
        let (cpu_ns, samples) = watched(Duration::from_millis(interval_ms), WATCH);
        let watching_ns = cpu_ns.saturating_sub(begin_ns) as f64;
        let per_sample_us = watching_ns / 1e3 / samples.saturating_sub(2).max(1) as f64;
        let share_pct = watching_ns / WATCH.as_nanos() as f64 * 100.0;
        println!("every {interval_ms} ms: {per_sample_us:.0} µs for each sample, {share_pct:.3} % of one core");
    }
}

/// CPU time and samples of a watch that lasts this long.
fn watched(interval: Duration, time: Duration) -> (u64, u64) {
    let watch = SensorThread::start(&Root::default(), interval).unwrap();
    thread::sleep(time);
    let summary = watch.stop();
    (summary.own_cpu_ns, summary.samples)
}
