//! What the tests of the binary share: models of known shape, runs of them, and their tables.

#![allow(dead_code, unused_imports)] // Each test binary uses a part.

#[path = "../../../../tests/cached.rs"]
mod cached;
mod processes;
mod running_server;
#[path = "../../../../tests/skip.rs"]
mod skip;
mod small_disk;
#[path = "../../../../tests/waiting.rs"]
mod waiting;
#[path = "../../../../tests/workplace.rs"]
mod workplace;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
pub use cached::{cached, llama_program};
use dwell_events::schema::Table;
use dwell_store::open_table;
pub use processes::{wait_for_end_of, worker_of};
pub use running_server::{RunningServer, http_answer};
pub use skip::skip;
pub use small_disk::SmallDisk;
pub use waiting::{pid_of, send, wait_for};
pub use workplace::Workplace;

impl Workplace {
    /// `dwell run` on a model, into this folder.
    pub fn run_command(&self, model: &Path, arguments: &[&str]) -> Command {
        let mut command = dwell();
        command.arg("run").arg("--model").arg(model).arg("--output").arg(self.path().join("results"));
        command.args(["--run-id", "run"]);
        for (option, value) in [("--threads", "1"), ("--context-length", "256")] {
            if !arguments.contains(&option) {
                command.args([option, value]);
            }
        }
        command.args(arguments);
        command
    }

    /// Runs a model and opens what came of it; the run must succeed.
    pub fn run(&self, model: &Path, arguments: &[&str]) -> Run {
        let output = self.run_command(model, arguments).output().unwrap();
        assert!(output.status.success(), "{}", text_of(&output));
        self.opened_run(model)
    }

    /// The run that `run_command` makes.
    pub fn opened_run(&self, model: &Path) -> Run {
        let stem = model.file_stem().unwrap().to_ascii_lowercase();
        Run { dir: self.path().join("results").join(stem).join("run") }
    }
}

/// The binary.
pub fn dwell() -> Command {
    Command::new(env!("CARGO_BIN_EXE_dwell"))
}

/// Copies a program, to be executed from there. By a process of its own: a file that any thread of this one has open for
/// writing, a child that is forked just then included, cannot be executed.
pub fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success(), "{from:?} to {to:?}");
}

/// What a command wrote, for messages.
pub fn text_of(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A run directory.
pub struct Run {
    pub dir: PathBuf,
}

/// One row of the trace.
#[derive(Clone, Debug)]
pub struct Access {
    pub timestamp_ns: u64,
    pub phase: String,
    pub address: u64,
    pub size_bytes: u64,
    pub is_store: bool,
    pub op: String,
    pub region_type: String,
    pub region_id: u32,
    pub tensor: String,
    pub layer: Option<u16>,
    pub step: Option<u32>,
    pub token_index: Option<u32>,
}

/// One life of a KV block.
#[derive(Clone, Debug)]
pub struct Block {
    pub address: u64,
    pub write_ns: i64,
    pub last_read_ns: Option<i64>,
    pub evict_ns: Option<i64>,
    pub total_reads: i64,
    pub layer: u16,
    pub kind: String,
    pub position: Option<i32>,
    pub sequence: Option<i32>,
    pub bytes: u64,
    pub cell: u32,
    pub end_cause: String,
    pub begin_cause: String,
}

impl Run {
    pub fn batches(&self, table: Table) -> Vec<RecordBatch> {
        open_table(&self.dir, table).unwrap().map(Result::unwrap).collect()
    }

    pub fn accesses(&self) -> Vec<Access> {
        let rows = |batch: RecordBatch| {
            (0..batch.num_rows())
                .map(|row| Access {
                    timestamp_ns: wide(&batch, "timestamp_ns", row),
                    phase: text(&batch, "phase", row),
                    address: wide(&batch, "address", row),
                    size_bytes: wide(&batch, "size_bytes", row),
                    is_store: text(&batch, "op_type", row) == "store",
                    op: text(&batch, "symbol", row),
                    region_type: text(&batch, "region_type", row),
                    region_id: column(&batch, "region_id").as_primitive::<UInt32Type>().value(row),
                    tensor: text(&batch, "tensor", row),
                    layer: optional::<UInt16Type>(&batch, "layer", row),
                    step: optional::<UInt32Type>(&batch, "step", row),
                    token_index: optional::<UInt32Type>(&batch, "token_index", row),
                })
                .collect::<Vec<_>>()
        };
        self.batches(Table::Trace).into_iter().flat_map(rows).collect()
    }

    pub fn blocks(&self) -> Vec<Block> {
        let rows = |batch: RecordBatch| {
            (0..batch.num_rows())
                .map(|row| Block {
                    address: optional::<Int64Type>(&batch, "address", row).unwrap() as u64,
                    write_ns: optional::<Int64Type>(&batch, "write_ns", row).unwrap(),
                    last_read_ns: optional::<Int64Type>(&batch, "last_read_ns", row),
                    evict_ns: optional::<Int64Type>(&batch, "evict_ns", row),
                    total_reads: optional::<Int64Type>(&batch, "total_reads", row).unwrap(),
                    layer: optional::<UInt16Type>(&batch, "layer", row).unwrap(),
                    kind: text(&batch, "kind", row),
                    position: optional::<Int32Type>(&batch, "first_position", row),
                    sequence: optional::<Int32Type>(&batch, "sequence", row),
                    bytes: wide(&batch, "bytes", row),
                    cell: optional::<UInt32Type>(&batch, "cell", row).unwrap(),
                    end_cause: text(&batch, "end_cause", row),
                    begin_cause: text(&batch, "begin_cause", row),
                })
                .collect::<Vec<_>>()
        };
        self.batches(Table::KvBlockLifecycle).into_iter().flat_map(rows).collect()
    }

    /// Kinds and counts of the loss table.
    pub fn losses(&self) -> Vec<(String, u64)> {
        let rows = |batch: RecordBatch| {
            (0..batch.num_rows()).map(|row| (text(&batch, "kind", row), wide(&batch, "count", row))).collect::<Vec<_>>()
        };
        self.batches(Table::Loss).into_iter().flat_map(rows).collect()
    }

    pub fn metadata(&self) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.dir.join("metadata.json")).unwrap()).unwrap()
    }
}

pub fn column<'a>(batch: &'a RecordBatch, name: &str) -> &'a dyn Array {
    batch.column_by_name(name).unwrap_or_else(|| panic!("the table has no column {name}")).as_ref()
}

pub fn wide(batch: &RecordBatch, name: &str, row: usize) -> u64 {
    column(batch, name).as_primitive::<UInt64Type>().value(row)
}

pub fn optional<T: arrow_array::types::ArrowPrimitiveType>(
    batch: &RecordBatch,
    name: &str,
    row: usize,
) -> Option<T::Native> {
    let column = column(batch, name).as_primitive::<T>();
    column.is_valid(row).then(|| column.value(row))
}

pub fn text(batch: &RecordBatch, name: &str, row: usize) -> String {
    let column = column(batch, name);
    if let Some(words) = column.as_dictionary_opt::<Int32Type>() {
        return words.values().as_string::<i32>().value(words.key(row).unwrap()).to_owned();
    }
    column.as_string::<i32>().value(row).to_owned()
}
