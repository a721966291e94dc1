//! Output of valgrind's lackey becomes a run that claims no times.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/skip.rs"]
mod skip;

use std::fs;
use std::path::Path;

use arrow_array::types::UInt64Type;
use dwell_build::import::{self, ImportError, ImportReport, ImportRequest};
use dwell_events::Hint;
use dwell_events::schema::Table;
use dwell_store::{RunState, number_at, open_table, text_at, verify};
use skip::skip;

fn import(dir: &Path, texts: &[&str]) -> Result<ImportReport, ImportError> {
    let mut files = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        files.push(dir.join(format!("lackey{number}.txt")));
        fs::write(&files[number], text).unwrap();
    }
    let request = ImportRequest {
        files,
        results: dir.join("results"),
        model_id: "model".to_owned(),
        run_id: Some("run".to_owned()),
        options: Default::default(),
        command_line: vec!["dwell".to_owned()],
    };
    let importer = import::ALL.iter().copied().find(|importer| importer.name() == "lackey").unwrap();
    import::import(importer, &request, &[])
}

fn rows(run: &Path) -> Vec<(u64, String, u64, u64)> {
    let mut found = Vec::new();
    for batch in open_table(run, Table::Trace).unwrap() {
        let batch = batch.unwrap();
        let number = |column, row| number_at::<UInt64Type>(&batch, column, row).unwrap();
        found.extend((0..batch.num_rows()).map(|row| {
            let op = text_at(&batch, "op_type", row).unwrap().to_owned();
            (number("timestamp_ns", row), op, number("address", row), number("size_bytes", row))
        }));
    }
    found
}

#[test]
fn accesses_are_rows_in_order_and_nothing_is_said_in_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let text = "==9== Lackey\nI  0400,3\n S 1ffe0,8\nI  0403,3\n M 1ffe0,4\nout\nI  0406,3\n L 1ffe0,8\n";
    let report = import(dir.path(), &[text, " S 2000,1\n"]).unwrap();
    let row = |ordinal, op: &str, address, size| (ordinal, op.to_owned(), address, size);
    let expected = [
        row(1, "store", 0x1ffe0, 8),
        row(2, "load", 0x1ffe0, 4),
        row(2, "store", 0x1ffe0, 4),
        row(3, "load", 0x1ffe0, 8),
        row(3, "store", 0x2000, 1),
    ];
    assert_eq!(rows(&report.run_dir), expected);
    assert_eq!(report.state, RunState::Complete);
    assert!(verify(&report.run_dir, &Table::ALL).unwrap().is_ok());
    let timestamps = report.metadata.timestamps.as_ref().unwrap();
    assert_eq!((timestamps.clock.as_str(), timestamps.unit.as_str()), ("ordinal", "instructions"));
    assert_eq!(report.metadata.tables["trace"].basis, "exact");
    assert_eq!(report.found["skipped"]["other_text"]["first"][0]["text"], "out");

    let metrics = fs::read_to_string(report.run_dir.join("metrics.csv")).unwrap();
    let mut lines = metrics.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let values: Vec<&str> = lines.next().unwrap().split(',').collect();
    let times: Vec<_> = names.iter().zip(&values).filter(|(name, _)| name.ends_with("_s")).collect();
    assert!(times.len() > 10 && times.iter().all(|(_, value)| value.is_empty()), "{times:?}");
    let bytes = names.iter().position(|name| *name == "loads").unwrap();
    assert_eq!(values[bytes], "2");
}

#[test]
fn a_recording_that_was_cut_off_is_partial_and_says_where() {
    let dir = tempfile::tempdir().unwrap();
    let report = import(dir.path(), &[" S 2000,1\n L 20x0,1\n L 2000"]).unwrap();
    assert_eq!((report.state, rows(&report.run_dir).len()), (RunState::Partial, 1));
    let loss = open_table(&report.run_dir, Table::Loss).unwrap().next().unwrap().unwrap();
    assert_eq!(text_at(&loss, "kind", 0), Some("undecodable_records"));
    let detail = text_at(&loss, "detail", 0).unwrap();
    assert_eq!(detail, "lines: bad_number 1, cut_off 1; first at byte 10: \" L 20x0,1\"");
}

#[test]
fn text_without_accesses_is_refused_by_its_first_line_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let refused = import(dir.path(), &["perf script says\nnothing of this\n"]).unwrap_err();
    assert!(refused.to_string().contains("2 lines, none of them an access"), "{refused}");
    assert!(refused.to_string().contains("\"perf script says\""), "{refused}");
    assert!(refused.hints()[0].contains("--tool=lackey"));
    assert!(!dir.path().join("results").exists());
}

#[test]
fn every_line_of_a_real_valgrind_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("real.txt");
    let mut valgrind = std::process::Command::new("valgrind");
    valgrind.args(["--tool=lackey", "--trace-mem=yes", "--basic-counts=yes"]);
    let ran = valgrind.arg(format!("--log-file={}", log.display())).arg("/bin/true").status();
    if !ran.is_ok_and(|status| status.success()) {
        return skip("every_line_of_a_real_valgrind_is_read", "valgrind is not installed");
    }
    let text = fs::read_to_string(&log).unwrap();
    let report = import(dir.path(), &[&text]).unwrap();
    let begin = |prefix: &str| text.lines().filter(|line| line.starts_with(prefix)).count() as u64;
    // valgrind counts instructions by itself and says so at the end.
    let counted = text.lines().find_map(|line| line.split_once("guest instrs:")).unwrap().1.trim().replace(',', "");
    assert_eq!(report.found["instructions"].to_string(), counted);
    let (loads, stores, modifications) = (begin(" L"), begin(" S"), begin(" M"));
    assert_eq!(report.found["loads"].as_u64(), Some(loads));
    assert_eq!(report.found["accesses"]["rows"].as_u64(), Some(loads + stores + 2 * modifications));
    assert_eq!(report.found["skipped"].as_object().unwrap().keys().collect::<Vec<_>>(), ["valgrind"]);
    assert_eq!(
        (report.state, rows(&report.run_dir).len() as u64),
        (RunState::Complete, loads + stores + 2 * modifications)
    );
}
