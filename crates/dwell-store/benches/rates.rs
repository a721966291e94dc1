//! Rows per second of the trace table and of the raw stream, and the memory that writing them takes.
//!
//! `cargo bench -p dwell-store --bench rates -- [rows]`. The rows are like those of a decode: sixteen layers,
//! the same tensors in every step, KV rows that advance. Times are CPU time of this process.

#![allow(clippy::unwrap_used, reason = "a step that fails ends the measurement")]

use std::time::Duration;

use dwell_events::schema::Table;
use dwell_events::schema::trace::{TraceBuilder, TraceRow};
use dwell_events::{OpType, Phase, RegionType};
use dwell_store::{
    RawCompression, RawReader, RawWriter, RecordsBuilder, TableWriter, open_table, open_table_columns, records_schema,
};

const LAYERS: u64 = 16;
const NODES: u64 = 25;
const BATCH_ROWS: usize = 16 * 1024;

fn main() {
    let rows: u64 = std::env::args().find_map(|text| text.parse().ok()).unwrap_or(4_000_000);
    let dir = tempfile::tempdir().unwrap();
    measure_trace(dir.path(), rows);
    measure_raw(dir.path(), rows / 4);
}

fn measure_trace(dir: &std::path::Path, rows: u64) {
    let mut decode = Decode::default();
    let mut builder = TraceBuilder::new("20260203T040506Z-abcdef");
    let mut writer = TableWriter::create(dir, Table::Trace).unwrap();
    let (mut building, mut writing) = (Duration::ZERO, Duration::ZERO);
    while builder.total_rows() < rows {
        let begin = cpu_time();
        (0..BATCH_ROWS).for_each(|_| decode.push_next(&mut builder));
        let batch = builder.finish_batch();
        let built = cpu_time();
        writer.write(&batch).unwrap();
        building += built - begin;
        writing += cpu_time() - built;
    }
    let begin = cpu_time();
    let rows = writer.finish().unwrap();
    writing += cpu_time() - begin;
    let bytes = std::fs::metadata(dir.join("trace.parquet")).unwrap().len();
    report("trace: build rows", rows, building);
    report("trace: write rows", rows, writing);
    println!("trace: {:.2} bytes per row, peak memory {} MiB", bytes as f64 / rows as f64, peak_mib());
    let begin = cpu_time();
    let read: usize = open_table(dir, Table::Trace).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
    report("trace: read all columns", read as u64, cpu_time() - begin);
    let columns = ["timestamp_ns", "address", "size_bytes", "op_type", "region_type"];
    let begin = cpu_time();
    let read: usize =
        open_table_columns(dir, Table::Trace, &columns).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
    report("trace: read five columns", read as u64, cpu_time() - begin);
}

fn measure_raw(dir: &std::path::Path, records: u64) {
    for (name, compression) in [("plain", RawCompression::None), ("zstd", RawCompression::Zstd)] {
        let path = dir.join(format!("{name}.arrows"));
        let mut writer = RawWriter::create(&path, records_schema(), compression).unwrap();
        let mut builder = RecordsBuilder::new();
        let begin = cpu_time();
        for sequence in 0..records {
            builder.push(sequence, 3, sequence * 1000, &[sequence as u8; 96]);
            if builder.payload_bytes() >= 1 << 20 {
                writer.write(&builder.finish_batch()).unwrap();
            }
        }
        writer.write(&builder.finish_batch()).unwrap();
        writer.finish().unwrap();
        report(&format!("raw {name}: build and write 96-byte records"), records, cpu_time() - begin);
        let begin = cpu_time();
        let read: usize = RawReader::open(&path).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
        report(&format!("raw {name}: read records"), read as u64, cpu_time() - begin);
    }
    println!("peak memory {} MiB", peak_mib());
}

/// Makes the accesses of a decode one by one.
#[derive(Default)]
struct Decode {
    access: u64,
    timestamp_ns: u64,
    names: Vec<String>,
}

impl Decode {
    fn push_next(&mut self, builder: &mut TraceBuilder) {
        if self.names.is_empty() {
            self.names = (0..LAYERS * NODES).map(|n| format!("blk.{}.node_{}.weight", n / NODES, n % NODES)).collect();
        }
        let operand = self.access % 3;
        let node = self.access / 3 % NODES;
        let layer = self.access / (3 * NODES) % LAYERS;
        let step = self.access / (3 * NODES * LAYERS);
        // All accesses of an operation complete when it does.
        if operand == 0 {
            self.timestamp_ns += 8_000 + self.access.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 4_096;
        }
        let (region_type, address, size_bytes) = match (operand, node) {
            (0, _) => (RegionType::Weight, 0x7f00_0000_0000 + (layer * NODES + node) * 2_359_296, 2_359_296),
            (1, 3..=6) => (RegionType::KvCache, 0x7e00_0000_0000 + layer * 4_194_304 + step * 512, 512),
            (1, _) => (RegionType::Activation, 0x5500_0000_0000 + node % 5 * 8_192, 4_096),
            _ => (RegionType::Activation, 0x5500_0000_0000 + (node + 1) % 5 * 8_192, 4_096),
        };
        builder.push(&TraceRow {
            timestamp_ns: self.timestamp_ns,
            phase: Some(Phase::Generation),
            address,
            size_bytes,
            op_type: if operand == 2 { OpType::Store } else { OpType::Load },
            symbol: ["MUL_MAT", "ADD", "RMS_NORM", "ROPE", "SOFT_MAX"][(node % 5) as usize],
            dso: "ggml",
            region_type,
            region_id: (layer * NODES + node) as u32 + 1,
            token_index: Some(step as u32),
            context_tokens: Some(step as u32 + 8),
            step: Some(step as u32),
            tensor: &self.names[(layer * NODES + node) as usize],
            layer: Some(layer as u16),
            source: "tensor_ops",
            period: 1,
            ..TraceRow::EMPTY
        });
        self.access += 1;
    }
}

fn cpu_time() -> Duration {
    Duration::from_nanos(dwell_clock::process_cpu_ns())
}

fn report(what: &str, rows: u64, cpu: Duration) {
    println!(
        "{what}: {:.2} M rows/s of CPU ({rows} rows in {:.2} s)",
        rows as f64 / cpu.as_secs_f64() / 1e6,
        cpu.as_secs_f64()
    );
}

fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}
