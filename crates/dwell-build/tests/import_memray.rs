//! Captures of memray become tables of allocations: what memray records and reads here, dwell must read alike.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/skip.rs"]
mod skip;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, BooleanArray, RecordBatch};
use dwell_build::import::{self, ImportError, ImportReport, ImportRequest};
use dwell_decode::memray::Allocator;
use dwell_decode::testing::memray::CaptureFile;
use dwell_events::Hint;
use dwell_events::schema::Table;
use dwell_store::{RunState, number_at, open_table, text_at, verify};
use serde_json::{Value, json};
use skip::skip;

fn import(dir: &Path, files: Vec<PathBuf>) -> Result<ImportReport, ImportError> {
    let request = ImportRequest {
        files,
        results: dir.join("results"),
        model_id: "model".to_owned(),
        run_id: Some("run".to_owned()),
        options: Default::default(),
        command_line: vec!["dwell".to_owned()],
    };
    let importer = import::ALL.iter().copied().find(|importer| importer.name() == "memray").unwrap();
    let report = import::import(importer, &request, &[])?;
    let tables: Vec<Table> = Table::ALL.into_iter().chain(Table::OF_ALLOCATIONS).collect();
    assert!(verify(&report.run_dir, &tables).unwrap().is_ok());
    Ok(report)
}

fn import_bytes(dir: &Path, captures: &[Vec<u8>]) -> Result<ImportReport, ImportError> {
    let path = |number: usize| dir.join(format!("capture{number}.bin"));
    captures.iter().enumerate().for_each(|(number, bytes)| fs::write(path(number), bytes).unwrap());
    import(dir, (0..captures.len()).map(path).collect())
}

fn batches(run: &Path, table: Table) -> Vec<RecordBatch> {
    open_table(run, table).unwrap().map(Result::unwrap).collect()
}

/// The rows of a table, as a function sees each.
fn rows<T>(run: &Path, table: Table, row: impl Fn(&RecordBatch, usize) -> T) -> Vec<T> {
    let batches = batches(run, table);
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|at| row(batch, at)).collect::<Vec<_>>()).collect()
}

fn wide(batch: &RecordBatch, column: &str, row: usize) -> Option<u64> {
    number_at::<UInt64Type>(batch, column, row)
}

fn flag(batch: &RecordBatch, column: &str, row: usize) -> bool {
    batch.column_by_name(column).unwrap().as_any().downcast_ref::<BooleanArray>().unwrap().value(row)
}

/// A frame as memray writes it: function, file, line.
fn place(batch: &RecordBatch, row: usize) -> Value {
    let text = |column| text_at(batch, column, row).unwrap_or_default().to_owned();
    json!([text("function"), text("file"), number_at::<UInt32Type>(batch, "line", row).unwrap_or(0)])
}

/// Stacks by their number, from the innermost frame.
struct Stacks(HashMap<u64, (Option<u64>, Value)>);

impl Stacks {
    fn of(run: &Path) -> Self {
        let row = |batch: &RecordBatch, at| {
            let id = wide(batch, "stack_id", at).unwrap();
            (id, (wide(batch, "parent_id", at), place(batch, at)))
        };
        Self(rows(run, Table::AllocationStacks, row).into_iter().collect())
    }

    fn frames(&self, mut stack: Option<u64>) -> Vec<Value> {
        let mut frames = Vec::new();
        while let Some((parent, frame)) = stack.and_then(|stack| self.0.get(&stack)) {
            frames.push(frame.clone());
            stack = *parent;
        }
        frames
    }
}

/// A Python with memray; none if it is not installed.
fn python() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))?;
    let python = cache.join("dwell/venv-peer/bin/python");
    let works = Command::new(&python).args(["-c", "import memray"]).output().is_ok_and(|out| out.status.success());
    works.then_some(python)
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/memray").join(name)
}

/// Lets memray record the test's program; the capture, `None` without memray.
fn recorded(dir: &Path, options: &[&str], arguments: &[&str]) -> Option<PathBuf> {
    let capture = dir.join("capture.bin");
    let mut memray = Command::new(python()?);
    memray.args(["-m", "memray", "run", "--quiet", "--output"]).arg(&capture).args(options);
    let output = memray.arg(script("program.py")).args(arguments).output().unwrap();
    assert!(capture.is_file(), "{output:?}");
    Some(capture)
}

/// What memray reads of a capture.
fn oracle(capture: &Path) -> Value {
    let output = Command::new(python().unwrap()).arg(script("oracle.py")).arg(capture).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A stack as memray shows it: without its own frames, which are the outermost of the main thread.
fn without_memray(report: &ImportReport, pid: u32, thread_id: u64, mut stack: Vec<Value>) -> Vec<Value> {
    let captures = report.found["captures"].as_array().unwrap();
    let capture = captures.iter().find(|capture| capture["pid"] == json!(pid)).unwrap();
    if capture["main_thread_id"] == json!(thread_id) {
        stack.truncate(stack.len().saturating_sub(capture["frames_of_memray"].as_u64().unwrap() as usize));
    }
    stack
}

/// Rows of `allocations`, each as the oracle has it.
fn calls(report: &ImportReport) -> Vec<Value> {
    let run = &report.run_dir;
    let stacks = Stacks::of(run);
    let row = |batch: &RecordBatch, at| {
        let thread_id = wide(batch, "thread_id", at).unwrap();
        let pid = number_at::<UInt32Type>(batch, "pid", at).unwrap();
        let stack = without_memray(report, pid, thread_id, stacks.frames(wide(batch, "stack_id", at)));
        assert!(stack.is_empty() || place(batch, at) == stack[0]);
        json!({
            "thread_id": thread_id,
            "thread": text_at(batch, "thread", at).unwrap_or_default(),
            "allocator": text_at(batch, "allocator", at),
            "address": wide(batch, "address", at),
            "size_bytes": wide(batch, "size_bytes", at).unwrap_or(0),
            "stack": stack,
        })
    };
    rows(run, Table::Allocations, row)
}

/// Every call in order with its stack, and the totals that `memray stats` shows, computed from the table.
fn compare_calls(report: &ImportReport, said: &Value) {
    let mut expected = said["calls"].as_array().unwrap().clone();
    expected.iter_mut().for_each(|call| drop(call.as_object_mut().unwrap().remove("native")));
    let found = calls(report);
    assert_eq!(found.len(), expected.len());
    for (found, mut expected) in found.iter().zip(expected) {
        // memray only knows the last name of a thread that had several; the table has the one at the time.
        expected["thread"] = found["thread"].clone();
        assert_eq!(*found, expected);
    }
    let is_free = |call: &Value| ["free", "munmap", "pymalloc_free"].contains(&call["allocator"].as_str().unwrap());
    let allocations: Vec<&Value> = found.iter().filter(|call| !is_free(call)).collect();
    let bytes = |call: &Value| call["size_bytes"].as_u64().unwrap();
    assert_eq!(json!(allocations.len()), said["allocations"]);
    assert_eq!(json!(allocations.iter().map(|call| bytes(call)).sum::<u64>()), said["allocated_bytes"]);
    let (mut by_allocator, mut by_size) = (BTreeMap::new(), BTreeMap::new());
    let mut places: HashMap<String, (u64, u64)> = HashMap::new();
    for call in &allocations {
        *by_allocator.entry(call["allocator"].as_str().unwrap()).or_insert(0_u64) += 1;
        *by_size.entry(bytes(call).to_string()).or_insert(0_u64) += 1;
        let unknown = json!(["<unknown>", "<unknown>", 0]);
        let sums = places.entry(call["stack"].get(0).unwrap_or(&unknown).to_string()).or_default();
        *sums = (sums.0 + bytes(call), sums.1 + 1);
    }
    assert_eq!(json!(by_allocator), said["by_allocator"]);
    assert_eq!(json!(by_size), said["by_size"]);
    let by_place = |key: &str| -> HashMap<String, u64> {
        let pairs = said[key].as_array().unwrap().iter();
        pairs.map(|pair| (pair[0].to_string(), pair[1].as_u64().unwrap())).collect()
    };
    assert_eq!(
        places.iter().map(|(it, sums)| (it.clone(), sums.0)).collect::<HashMap<_, _>>(),
        by_place("bytes_of_places")
    );
    assert_eq!(
        places.iter().map(|(it, sums)| (it.clone(), sums.1)).collect::<HashMap<_, _>>(),
        by_place("calls_of_places")
    );
}

/// The peak as `memray stats` defines it: an allocation whose end it missed counts to the end.
fn peak_of_memray(run: &Path) -> u64 {
    let step = |batch: &RecordBatch, at| {
        let freed = wide(batch, "freed_bytes", at).unwrap_or(0);
        match flag(batch, "is_free", at) {
            true => -(freed as i64),
            false => wide(batch, "size_bytes", at).unwrap() as i64,
        }
    };
    let mut heap = 0;
    rows(run, Table::Allocations, step).into_iter().fold(0, |peak, step| {
        heap += step;
        peak.max(heap as u64)
    })
}

/// Times and resident memory are memray's; what is allocated at each is computed from the calls before it.
fn compare_samples(run: &Path, said: &Value) {
    let row = |batch: &RecordBatch, at| {
        let unix_ms = number_at::<Int64Type>(batch, "unix_ms", at);
        json!([unix_ms, wide(batch, "rss_bytes", at), wide(batch, "heap_bytes", at)])
    };
    let found = rows(run, Table::AllocationSamples, row);
    assert!(!found.is_empty());
    assert_eq!(json!(found), said["samples"]);
}

/// Each call lies between the two samples that `sample_id` says: behind it, and before the next.
fn check_intervals(run: &Path) {
    let next_ordinals = rows(run, Table::AllocationSamples, |batch, at| wide(batch, "next_ordinal", at).unwrap());
    let of_calls =
        rows(run, Table::Allocations, |batch, at| (wide(batch, "ordinal", at).unwrap(), wide(batch, "sample_id", at)));
    for (ordinal, sample) in of_calls {
        let behind = next_ordinals.iter().filter(|next| **next <= ordinal).count() as u64;
        assert_eq!(sample, behind.checked_sub(1), "{ordinal}");
    }
}

fn compare_whole(options: &[&str], test: &str) -> Option<(tempfile::TempDir, ImportReport, Value)> {
    let dir = tempfile::tempdir().unwrap();
    let Some(capture) = recorded(dir.path(), options, &[]) else {
        skip(test, "memray is not installed");
        return None;
    };
    let (report, said) = (import(dir.path(), vec![capture.clone()]).unwrap(), oracle(&capture));
    compare_calls(&report, &said);
    compare_samples(&report.run_dir, &said);
    check_intervals(&report.run_dir);
    assert_eq!(json!(peak_of_memray(&report.run_dir)), said["peak_bytes"]);
    let origin = &report.found["captures"][0];
    assert_eq!((&origin["allocations"], &origin["pid"]), (&said["allocations"], &said["pid"]));
    assert_eq!(origin["command_line"], said["command_line"]);
    assert_eq!(report.state, RunState::Complete);
    assert!(!report.run_dir.join("trace.parquet").exists() && !report.run_dir.join("memory.parquet").exists());
    Some((dir, report, said))
}

#[test]
fn calls_and_totals_are_those_that_memray_reads() {
    let Some((_dir, report, said)) = compare_whole(&[], "calls_and_totals_are_those_that_memray_reads") else { return };
    assert_eq!(report.found["captures"][0]["peak_bytes"], said["peak_bytes"]);
    // The program's own truth: five hundred buffers of its thread, each named by function and thread.
    let of_worker = calls(&report).into_iter().filter(|call| call["size_bytes"] == json!(70_002));
    let of_worker: Vec<Value> = of_worker.collect();
    assert_eq!(of_worker.len(), 500);
    assert!(of_worker.iter().all(|call| call["thread"] == "worker-thread" && call["stack"][1][0] == "worker"));
}

#[test]
fn calls_of_pythons_own_allocator_and_uncompressed_captures_are_read() {
    let name = "calls_of_pythons_own_allocator_and_uncompressed_captures_are_read";
    let Some((_dir, report, _)) = compare_whole(&["--trace-python-allocators", "--no-compress"], name) else { return };
    assert!(report.found["allocators"]["pymalloc_malloc"]["calls"].as_u64().unwrap() > 1000);
    assert_eq!(report.found["captures"][0]["has_python_allocations"], true);
}

#[test]
fn native_stacks_are_those_of_memray_without_inlined_functions() {
    let name = "native_stacks_are_those_of_memray_without_inlined_functions";
    let Some((_dir, report, said)) = compare_whole(&["--native"], name) else { return };
    let stacks = Stacks::of(&report.run_dir);
    let native = rows(&report.run_dir, Table::Allocations, |batch, at| wide(batch, "native_stack_id", at));
    let mut named = 0;
    for (stack, call) in native.into_iter().zip(said["calls"].as_array().unwrap()) {
        // memray also reads which functions were inlined, from debug information. The order of the others must be the same.
        let mut expected = call["native"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
        // Of libraries whose debug information is installed apart, memray has other names for the same functions.
        let of_python = |frame: &Value| frame[1].as_str().unwrap().contains("python");
        for frame in stacks.frames(stack).into_iter().filter(of_python) {
            let function = frame[0].as_str().unwrap().split(['.', '@']).next().unwrap().to_owned();
            let is_there =
                function.is_empty() || expected.any(|it| it.split(['.', '@', '(']).next().unwrap() == function);
            assert!(is_there, "{function} of {:?} in {:?}", stacks.frames(stack), call["native"]);
            named += usize::from(!function.is_empty());
        }
    }
    assert!(named > 5_000, "{named}");
    assert!(report.found["libraries"]["named"].as_u64().unwrap() >= 2);
}

#[test]
fn sums_of_a_capture_are_a_table_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let Some(capture) = recorded(dir.path(), &["--aggregate"], &[]) else {
        return skip("sums_of_a_capture_are_a_table_of_their_own", "memray is not installed");
    };
    let (report, said) = (import(dir.path(), vec![capture.clone()]).unwrap(), oracle(&capture));
    let run = &report.run_dir;
    let stacks = Stacks::of(run);
    for (kind, calls, bytes) in
        [("peak", "peak_allocations", "peak_bytes"), ("leaked", "leaked_allocations", "leaked_bytes")]
    {
        let row = |batch: &RecordBatch, at| {
            let thread_id = wide(batch, "thread_id", at).unwrap();
            let pid = number_at::<UInt32Type>(batch, "pid", at).unwrap();
            json!({
                "thread_id": thread_id,
                "allocator": text_at(batch, "allocator", at),
                "calls": wide(batch, calls, at),
                "bytes": wide(batch, bytes, at),
                "stack": without_memray(&report, pid, thread_id, stacks.frames(wide(batch, "stack_id", at))),
            })
        };
        let sorted = |sites: Vec<Value>| {
            let mut texts: Vec<String> = sites.iter().map(Value::to_string).collect();
            texts.sort();
            texts
        };
        let found: Vec<Value> =
            rows(run, Table::AllocationSites, row).into_iter().filter(|site| site["calls"] != json!(0)).collect();
        // memray sums up the allocators of one stack and names one of them.
        let expected = sorted(merged(said[kind].as_array().unwrap().clone()));
        assert_eq!(sorted(merged(found)), expected, "{kind}");
    }
    compare_samples(run, &said);
    assert_eq!(report.found["captures"][0]["peak_bytes"], said["peak_bytes"]);
    assert_eq!(report.found["captures"][0]["form"], "sums");
    assert!(!run.join("allocations.parquet").exists(), "there are no calls");
}

/// Sums by thread and stack, whatever the allocator.
fn merged(sites: Vec<Value>) -> Vec<Value> {
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for site in sites {
        let sum = sums.entry(json!([site["thread_id"], site["stack"]]).to_string()).or_default();
        *sum = (sum.0 + site["calls"].as_u64().unwrap(), sum.1 + site["bytes"].as_u64().unwrap());
    }
    sums.into_iter().map(|(key, (_, bytes))| json!([key, bytes])).collect()
}

#[test]
fn a_forked_process_is_another_capture_of_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let Some(capture) = recorded(dir.path(), &["--follow-fork"], &["fork"]) else {
        return skip("a_forked_process_is_another_capture_of_the_run", "memray is not installed");
    };
    let mut files: Vec<PathBuf> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!((files.len(), &files[0]), (2, &capture));
    let report = import(dir.path(), files.clone()).unwrap();
    let mut found = calls(&report).into_iter();
    let pids =
        rows(&report.run_dir, Table::Allocations, |batch, at| number_at::<UInt32Type>(batch, "pid", at).unwrap());
    for file in &files {
        let said = oracle(file);
        for expected in said["calls"].as_array().unwrap() {
            let found = found.next().unwrap();
            assert_eq!((&found["address"], &found["stack"]), (&expected["address"], &expected["stack"]));
        }
        assert_eq!(
            pids.iter().filter(|pid| json!(pid) == said["pid"]).count(),
            said["calls"].as_array().unwrap().len()
        );
    }
    assert!(found.next().is_none());
    // The child frees what its parent allocated, of which its own capture knows nothing.
    assert!(report.found["captures"][1]["frees_of_unknown"].as_u64().unwrap() >= 30);
}

#[test]
fn the_capture_of_a_killed_process_is_a_partial_run_with_all_that_memray_reads() {
    let dir = tempfile::tempdir().unwrap();
    let Some(capture) = recorded(dir.path(), &[], &["die"]) else {
        let name = "the_capture_of_a_killed_process_is_a_partial_run_with_all_that_memray_reads";
        return skip(name, "memray is not installed");
    };
    let (report, said) = (import(dir.path(), vec![capture.clone()]).unwrap(), oracle(&capture));
    compare_calls(&report, &said);
    assert_eq!(report.state, RunState::Partial);
    let losses = rows(&report.run_dir, Table::Loss, |batch, at| {
        (text_at(batch, "kind", at).unwrap().to_owned(), text_at(batch, "detail", at).unwrap().to_owned())
    });
    assert_eq!((losses.len(), losses[0].0.as_str()), (1, "undecodable_records"));
    assert!(losses[0].1.contains("was killed, or its capture was cut"), "{}", losses[0].1);
    assert_eq!(report.found["captures"][0]["is_whole"], false);
}

fn made() -> CaptureFile {
    let mut file = CaptureFile { stated_calls: 4, ..CaptureFile::default() };
    file.thread(1);
    file.code(1, "main", "serve.py", 10);
    file.function_called(1, 0, true);
    file.call(Allocator::Malloc, 0x1000, 100, 0);
    file.memory(10, 1 << 20);
    file.call(Allocator::Malloc, 0x2000, 50, 0);
    file.call_at_recent(Allocator::Free, 1, 0, 0);
    file.call_at_recent(Allocator::Malloc, 0, 70, 0);
    file
}

#[test]
fn what_a_call_frees_is_known_if_its_allocation_is() {
    let dir = tempfile::tempdir().unwrap();
    let report = import_bytes(dir.path(), &[made().file(), made().compressed().unwrap()]).unwrap();
    let found = rows(&report.run_dir, Table::Allocations, |batch, at| {
        (wide(batch, "ordinal", at).unwrap(), wide(batch, "freed_bytes", at), wide(batch, "sample_id", at))
    });
    // The last call of each allocates where an allocation is whose end was not recorded.
    let of_first = [(0, None, None), (1, None, Some(0)), (2, Some(100), Some(0)), (3, Some(50), Some(0))];
    let of_second = [(4, None, None), (5, None, Some(1)), (6, Some(100), Some(1)), (7, Some(50), Some(1))];
    assert_eq!(found, [of_first, of_second].concat());
    assert_eq!(report.found["captures"][0]["peak_bytes"], 150);
    assert_eq!(report.found["captures"][0]["left_bytes"], 70);
    assert_eq!(report.metadata.timestamps.as_ref().unwrap().clock, "ordinal");
    assert_eq!(report.metadata.tables["allocations"].rows, 8);
    // Stacks of both have numbers of their own.
    assert_eq!(Stacks::of(&report.run_dir).0.len(), 2);
}

#[test]
fn calls_that_the_header_counts_and_that_are_cut_off_are_lost() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = made().file();
    let report = import_bytes(dir.path(), &[bytes[..bytes.len() - 4].to_vec()]).unwrap();
    assert_eq!(report.state, RunState::Partial);
    let lost = rows(&report.run_dir, Table::Loss, |batch, at| wide(batch, "count", at).unwrap());
    assert_eq!(lost, [2]);
}

#[test]
fn other_files_and_versions_are_refused_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let refused = import_bytes(dir.path(), &[b"some text".to_vec()]).unwrap_err();
    assert!(refused.to_string().contains("no capture of memray"), "{refused}");
    assert!(refused.hints()[0].contains("memray run"));
    let old = CaptureFile { version: 11, ..made() };
    let refused = import_bytes(dir.path(), &[old.file()]).unwrap_err();
    assert!(refused.to_string().contains("in version 11 of its format, and versions 12 to 13 are read"), "{refused}");
    assert!(refused.hints()[0].contains("memray 1.20"));
    let mut damaged = made();
    damaged.records.push(9);
    damaged.records.push(9);
    let refused = import_bytes(dir.path(), &[damaged.file()]).unwrap_err();
    assert!(refused.to_string().contains("capture0.bin") && refused.to_string().contains("at byte"), "{refused}");
    assert!(!dir.path().join("results").exists());
}
