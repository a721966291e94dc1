//! This machine, against what its own tools say.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/skip.rs"]
mod skip;

use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use dwell_events::host::Host;
use dwell_host::{Root, SensorThread, measure_baseline, read_host};
use skip::skip;

/// What a tool says, or nothing, with a note, where it is not installed.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).env("LC_ALL", "C").output() {
        Ok(output) if output.status.success() => Some(String::from_utf8(output.stdout).unwrap()),
        _ => {
            skip(&format!("dwell-host against {program}"), "it does not run here");
            None
        }
    }
}

#[test]
fn processors_and_kernel_are_those_of_the_tools() {
    let facts = read_host();
    if let Some(text) = said("nproc", &[]) {
        assert_eq!(text.trim(), facts.cpus.to_string());
    }
    if let Some(text) = said("uname", &["-r"]) {
        assert_eq!(text.trim(), facts.kernel);
    }
    if let Some(text) = said("uname", &["-m"]) {
        assert_eq!(text.trim(), facts.architecture);
    }
    if let Some(text) = said("getconf", &["PAGESIZE"]) {
        assert_eq!(text.trim(), facts.page_bytes.to_string());
    }
}

#[test]
fn memory_is_that_of_free() {
    let Some(text) = said("free", &["-b"]) else { return };
    let total = |line: &str| {
        text.lines()
            .find(|found| found.starts_with(line))
            .unwrap()
            .split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let facts = read_host();
    assert_eq!(facts.memory_bytes, Some(total("Mem:")));
    assert_eq!(facts.memory.swap_bytes.available(), Some(&total("Swap:")));
}

#[test]
fn topology_is_that_of_lscpu() {
    let Some(text) = said("lscpu", &["-p=CPU,CORE,SOCKET,NODE"]) else { return };
    let rows: Vec<Vec<&str>> =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(',').collect()).collect();
    let distinct = |column: usize| {
        rows.iter().map(|row| row[column]).filter(|id| !id.is_empty()).collect::<std::collections::BTreeSet<_>>().len()
    };
    let topology = read_host().topology;
    let topology = topology.available().unwrap();
    assert_eq!(topology.threads as usize, rows.len());
    assert_eq!(topology.cores as usize, distinct(1));
    assert_eq!(topology.sockets as usize, distinct(2));
    assert_eq!(topology.numa_nodes.len(), distinct(3));
}

#[test]
fn caches_are_those_of_lscpu() {
    let Some(text) = said("lscpu", &["-C=NAME,ONE-SIZE,TYPE,LEVEL", "-B"]) else { return };
    let mut expected: Vec<(String, String, String)> = text
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .map(|cells| (cells[3].clone(), cells[2].clone(), cells[1].clone()))
        .collect();
    expected.sort();
    let topology = read_host().topology;
    let mut found: Vec<(String, String, String)> = topology
        .available()
        .unwrap()
        .caches
        .iter()
        .map(|cache| (cache.level.to_string(), cache.kind.clone(), cache.size_bytes.to_string()))
        .collect();
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn facts_survive_being_written_and_read() {
    let facts = read_host();
    let json = serde_json::to_string(&facts).unwrap();
    assert_eq!(serde_json::from_str::<Host>(&json).unwrap(), facts);
    assert_eq!(read_host().machine_id, facts.machine_id);
}

#[test]
fn a_record_from_before_the_new_facts_is_still_read() {
    let old =
        r#"{"cpu_model":"x","cpus":2,"memory_bytes":1,"page_bytes":4096,"kernel":"6","os":null,"architecture":"y"}"#;
    let facts: Host = serde_json::from_str(old).unwrap();
    assert_eq!(facts.cpus, 2);
    assert_eq!(facts.topology.reason(), Some("not recorded"));
}

/// Seconds of processor time that this process has used.
fn own_cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[test]
fn a_busy_processor_shows_in_the_baseline() {
    /// The kernel counts in ticks of a hundredth of a second, and a busy machine may look late.
    const COUNTED_SHARE: f64 = 0.5;
    const TICKS_S: f64 = 0.03;
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    let busy = std::thread::spawn(move || while !seen.load(std::sync::atomic::Ordering::Relaxed) {});
    let (begin, cpu_s_before) = (Instant::now(), own_cpu_s());
    let baseline = measure_baseline(Duration::from_millis(400), Duration::from_millis(100), &AtomicBool::new(false));
    let (cpu_s, elapsed_s) = (own_cpu_s() - cpu_s_before, begin.elapsed().as_secs_f64());
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    busy.join().unwrap();
    let mean_pct = *baseline.cpu_mean_pct.available().unwrap();
    let max_pct = *baseline.cpu_max_pct.available().unwrap();
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let cpus = stat.lines().filter(|line| line.starts_with("cpu")).count() as f64 - 1.0;
    // What this process used while the baseline was taken, however little a busy machine gave it, was used there.
    let outside_s = (elapsed_s - baseline.duration_s) * cpus;
    let least_s = COUNTED_SHARE * (cpu_s - outside_s) - TICKS_S;
    let seen_s = mean_pct / 100.0 * cpus * baseline.duration_s;
    assert!(seen_s >= least_s && mean_pct <= 100.0, "{seen_s} s seen, at least {least_s} s used; {baseline:?}");
    assert!(max_pct + 1e-9 >= mean_pct && max_pct <= 100.0, "{baseline:?}");
    assert!(baseline.intervals >= 1);
    assert!(baseline.tasks_running.available().is_some_and(|&tasks| tasks >= 1));
    assert!(baseline.memory_available_bytes.available() <= baseline.memory_total_bytes.available());
}

#[test]
fn every_sensor_of_this_machine_has_a_value_or_a_reason() {
    let thread = SensorThread::start(&Root::default(), Duration::from_millis(10)).unwrap();
    let summary = thread.stop();
    assert!(summary.samples >= 2, "{summary:?}");
    assert!(summary.own_cpu_ns > 0);
    let reasons = [
        summary.temperature.reason(),
        summary.frequency.reason(),
        summary.throttle_events.reason(),
        summary.energy.package_joules.reason(),
    ];
    assert!(
        reasons.iter().flatten().all(|reason| reason.contains('/')),
        "a reason names what was looked for: {reasons:?}"
    );
}
