//! CPU time from a recording of perf to a run: `cargo bench -p dwell-build --bench import_perf -- perf-data FILE`, or
//! `perf-script FILE`. `cargo run -p dwell-decode --example make_recording` makes a recording; without a file nothing is
//! measured.

#![allow(clippy::unwrap_used, reason = "a step that fails ends the measurement")]

use dwell_build::import::{ALL, ImportRequest, import};
use dwell_store::RunDir;

fn main() {
    let arguments: Vec<String> = std::env::args().filter(|word| !word.starts_with("--")).collect();
    let [_, format, file] = &arguments[..] else { return };
    let importer = ALL.iter().find(|importer| importer.name() == format).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let request = ImportRequest {
        files: vec![file.into()],
        results: dir.path().to_owned(),
        model_id: "model".to_owned(),
        run_id: None,
        options: [("cpu-mhz", "3000".to_owned())].into(),
        command_line: Vec::new(),
    };
    let run = RunDir::create(dir.path(), "model", "20260203T040506Z-abcdef").unwrap();
    let (tables, tables_s) = cpu_s(|| importer.import(&request, &run).unwrap());
    println!("{format}: {tables_s:.3} CPU-s for {} rows: read, labelled, written", tables.found["rows"]);
    let (_, whole_s) = cpu_s(|| import(*importer, &request, &[]).unwrap());
    println!("{format}: {whole_s:.3} CPU-s for the whole run, with its metrics");
}

fn cpu_s<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let begin_ns = dwell_clock::process_cpu_ns();
    let result = work();
    (result, (dwell_clock::process_cpu_ns() - begin_ns) as f64 / 1e9)
}
