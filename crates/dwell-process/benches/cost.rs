//! What sampling costs: CPU time of one sample, and the share of one core at a pace.
//!
//! `cargo bench -p dwell-process --bench cost -- [mebibytes of the watched process] [its threads]`. The program
//! watches itself, after taking that much memory and starting that many threads.

#![allow(clippy::unwrap_used, reason = "a step that fails ends the measurement")]

use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;

use dwell_process::{Pace, RollupPolicy, Sampler, SamplerThread};

const SAMPLES: u32 = 2_000;
const WATCH_SECS: u64 = 15;

fn main() {
    let mut numbers = std::env::args().filter_map(|text| text.parse::<usize>().ok());
    let mib = numbers.next().unwrap_or(0);
    let threads = numbers.next().unwrap_or(4);
    println!("own memory before: {} MiB resident", resident_mib());
    let memory = vec![1_u8; mib << 20];
    (0..threads).for_each(|_| {
        drop(thread::spawn(|| {
            loop {
                thread::park()
            }
        }))
    });
    println!("watching {mib} MiB and {threads} threads");
    one_sample();
    for interval in [100, 5] {
        at_pace(Duration::from_millis(interval));
    }
    drop(memory);
    println!("own memory after giving that back: {} MiB resident", resident_mib());
}

fn sampler() -> Sampler {
    Sampler::new(&[("self", std::process::id())]).unwrap()
}

fn one_sample() {
    for (name, policy) in [
        ("cheap fields", RollupPolicy::never()),
        ("with pss and uss", RollupPolicy { least_interval: Duration::ZERO, most_time_share: f64::MAX }),
    ] {
        let mut sampler = sampler().with_rollup_policy(policy);
        let mut rows = Vec::new();
        sampler.sample_into(&mut rows);
        let count = if policy == RollupPolicy::never() { SAMPLES } else { SAMPLES / 50 };
        let least = (0..5)
            .map(|_| {
                let begin = thread_cpu();
                for _ in 0..count {
                    rows.clear();
                    sampler.sample_into(&mut rows);
                }
                (thread_cpu() - begin) / count
            })
            .min();
        println!("one sample, {name}: {:?} of CPU", least.unwrap());
    }
}

fn at_pace(interval: Duration) {
    let sampling = SamplerThread::start(sampler(), Pace::every(interval), |_| ControlFlow::Continue(())).unwrap();
    thread::sleep(Duration::from_secs(WATCH_SECS));
    let summary = sampling.stop();
    let share = summary.own_cpu_ns as f64 / (WATCH_SECS as f64 * 1e9) * 100.0;
    println!(
        "every {interval:?}: {share:.3} % of one core, {} samples, {} missed, {:.1} µs of CPU each with waking up",
        summary.samples,
        summary.missed,
        summary.own_cpu_ns as f64 / summary.samples as f64 / 1e3
    );
}

fn thread_cpu() -> Duration {
    Duration::from_nanos(dwell_clock::thread_cpu_ns())
}

fn resident_mib() -> u64 {
    let mut rows = Vec::new();
    sampler().sample_into(&mut rows);
    rows[0].rss_bytes >> 20
}
