//! CPU time from accesses of a made-up sampling profiler to a labelled `trace.parquet`.
//!
//! `cargo bench -p dwell-build --bench import_rates -- [rows]`. Addresses, functions and times are like those of `perf mem`
//! on a model that runs on the CPU: 200,000 addresses, 40 functions, latencies and cache levels.

#![allow(clippy::unwrap_used, reason = "a step that fails ends the measurement")]

use std::path::Path;

use dwell_build::import::ImportRequest;
use dwell_build::import::accesses::{AccessSink, AccessSource, RowOrder};
use dwell_events::schema::trace::TraceRow;
use dwell_events::{Basis, OpType};
use dwell_store::RunDir;

const SOURCE: &str = "made_up";

fn main() {
    let rows: u64 = std::env::args().find_map(|text| text.parse().ok()).unwrap_or(1_000_000);
    let functions: Vec<String> = (0..40).map(function).collect();
    let samples: Vec<TraceRow<'_>> = (0..rows).map(|row| sample(row, &functions)).collect();
    for (name, order) in [("by time", RowOrder::ByTime), ("nearly by time", RowOrder::NearlyByTime)] {
        let dir = tempfile::tempdir().unwrap();
        let (seconds, bytes) = measure(dir.path(), &samples, order);
        println!("{name}: {:.3} CPU-s for {rows} rows, {:.1} bytes per row", seconds, bytes as f64 / rows as f64);
    }
}

fn measure(dir: &Path, samples: &[TraceRow<'_>], order: RowOrder) -> (f64, u64) {
    let run = RunDir::create(dir, "model", "20260203T040506Z-abcdef").unwrap();
    let request = ImportRequest {
        files: Vec::new(),
        results: dir.to_owned(),
        model_id: "model".to_owned(),
        run_id: None,
        options: Default::default(),
        command_line: Vec::new(),
    };
    let begin = dwell_clock::process_cpu_ns();
    let source = AccessSource { name: SOURCE, basis: Basis::Sampled, order };
    let mut sink = AccessSink::create(&run, &request, source).unwrap();
    samples.iter().for_each(|sample| sink.push(sample).unwrap());
    let accesses = sink.finish().unwrap();
    let seconds = (dwell_clock::process_cpu_ns() - begin) as f64 / 1e9;
    println!("{:?}, {} regions", accesses.counts.region_types, accesses.counts.regions);
    (seconds, std::fs::metadata(run.path().join("trace.parquet")).unwrap().len())
}

/// Names that the built-in rules know, and others.
fn function(number: u64) -> String {
    let known = ["ggml_vec_dot_q4_0_q8_0", "ggml_compute_forward_set_rows", "ggml_compute_forward_soft_max", "memcpy"];
    match known.get(number as usize / 4) {
        Some(name) => format!("{name}_{number}"),
        None => format!("std::__detail::_Map_base<int, std::pair<int const, long> >::operator[]_{number}"),
    }
}

fn sample(row: u64, functions: &[String]) -> TraceRow<'_> {
    let random = (row + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let place = (random >> 20) % 200_000;
    // A function works in a part of the memory, as those that read weights do.
    let part = place / 5_000;
    TraceRow {
        timestamp_ns: 1_000_000_000 + row * 977 + (random >> 50) % 900,
        address: 0x7f00_0000_0000 + place * 320,
        size_bytes: 8,
        op_type: if random >> 62 == 0 { OpType::Store } else { OpType::Load },
        symbol: &functions[(part % 40) as usize],
        dso: "libggml-cpu.so",
        access_latency_ns: Some(20 + (random >> 40) as u32 % 300),
        cache_level: Some(["L1", "L2", "L3", "DRAM"][(random >> 33) as usize % 4]),
        cpu_id: Some((random >> 30) as u16 % 8),
        thread_id: Some(4242 + (random >> 30) as u32 % 8),
        source: SOURCE,
        period: 4000,
        ..TraceRow::EMPTY
    }
}
