//! What the machine does before a run begins.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dwell_clock::monotonic_ns;
use dwell_events::host::{Baseline, Sensor};
use dwell_process::wait_until;

use crate::cpu_times::CpuWatch;
use crate::meminfo::Meminfo;
use crate::pressure::PressureWatch;
use crate::root::Root;

/// How long it takes at most until a request to stop is seen.
const STOP_LATENCY: Duration = Duration::from_millis(50);

/// Watches this machine for some time, looking at its processors at every interval. Setting `stop` ends it early;
/// it then speaks of the time until there.
pub fn measure_baseline(duration: Duration, interval: Duration, stop: &AtomicBool) -> Baseline {
    measure_baseline_at(&Root::default(), duration, interval, stop)
}

/// The same for a tree of files of the kernel.
pub fn measure_baseline_at(root: &Root, duration: Duration, interval: Duration, stop: &AtomicBool) -> Baseline {
    let mut buffer = vec![0; 4096];
    let begin = Instant::now();
    let mut cpu = CpuWatch::begin(root, &mut buffer);
    let pressure = PressureWatch::begin(root, &mut buffer);
    let mut intervals = 0;
    while begin.elapsed() < duration && !stop.load(Ordering::Relaxed) {
        let left = interval.min(duration.saturating_sub(begin.elapsed()));
        wait_until(monotonic_ns() + left.as_nanos() as u64, stop, STOP_LATENCY);
        cpu.look(&mut buffer);
        intervals += 1;
    }
    let shares = cpu.shares();
    let memory = Meminfo::read(root);
    Baseline {
        duration_s: begin.elapsed().as_secs_f64(),
        intervals,
        cpu_mean_pct: shares.clone().map(|(mean, _)| mean.busy_pct),
        cpu_max_pct: shares.clone().map(|(_, max_pct)| max_pct),
        steal_pct: shares.map(|(mean, _)| mean.steal_pct),
        memory_total_bytes: memory.bytes("MemTotal"),
        memory_available_bytes: memory.bytes("MemAvailable"),
        load_averages: load_averages(root),
        tasks_running: tasks_running(root),
        pressure: pressure.end(&mut buffer),
    }
}

fn load_averages(root: &Root) -> Sensor<[f64; 3]> {
    let averages = root.word("proc/loadavg").and_then(|text| {
        let mut words = text.split_ascii_whitespace().map(|word| word.parse().ok());
        Some([words.next()??, words.next()??, words.next()??])
    });
    Sensor::from_option(averages, "/proc/loadavg does not tell")
}

fn tasks_running(root: &Root) -> Sensor<u64> {
    let tasks = root
        .text("proc/stat")
        .ok()
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix("procs_running "))?.trim().parse().ok());
    Sensor::from_option(tasks, "/proc/stat does not tell")
}
