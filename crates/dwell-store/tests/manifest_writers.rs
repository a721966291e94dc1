//! Several processes write one `manifest.csv`, and some of them are killed.
//!
//! The writers are this test binary, started again with a task in its environment.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use dwell_store::{ManifestRow, ResultsManifest};

const WRITERS: u64 = 8;
const ROWS_EACH: u64 = 200;

/// Variable with what a writer is told: results directory, number of the writer, rows; a line each.
const TASK: &str = "DWELL_TEST_MANIFEST_WRITER";

/// The test that is a writer if it finds a task.
const WRITING_TEST: &str = "eight_processes_write_two_hundred_rows_each_and_none_is_lost";

fn row(writer: u64, number: u64) -> ManifestRow {
    ManifestRow {
        run_id: format!("run-{number}"),
        model_id: format!("model-{writer}"),
        total_output_tokens: Some(writer * 1_000_000 + number),
        cpu_model: "Prüfling, \"schnell\"".to_owned(),
        validity_reasons: "x".repeat((number % 97) as usize * 11),
        path: format!("model-{writer}/run-{number}"),
        ..ManifestRow::default()
    }
}

fn start_writer(results: &Path, writer: u64, rows: u64) -> Child {
    let task = format!("{}\n{writer}\n{rows}", results.display());
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", WRITING_TEST])
        .env(TASK, task)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Records rows and says of each that it was recorded. Every seventh row is recorded twice, so that files are replaced
/// too.
fn write_rows(task: &str) {
    let words: Vec<&str> = task.lines().collect();
    let (writer, rows): (u64, u64) = (words[1].parse().unwrap(), words[2].parse().unwrap());
    let manifest = ResultsManifest::open(Path::new(words[0]));
    for number in 0..rows {
        manifest.record(&row(writer, number)).unwrap();
        if number % 7 == 0 {
            manifest.record(&row(writer, number)).unwrap();
        }
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "\nrecorded {number}").unwrap();
        stdout.flush().unwrap();
    }
}

fn recorded(line: &str) -> Option<u64> {
    line.strip_prefix("recorded ")?.parse().ok()
}

/// Every line of the file is one whole row; the rows by writer and number.
fn check_lines(manifest: &ResultsManifest) -> BTreeMap<u64, BTreeSet<u64>> {
    let text = fs::read_to_string(manifest.path()).unwrap();
    assert!(text.ends_with('\n'));
    let rows = manifest.rows().unwrap();
    assert_eq!(text.lines().count(), rows.len() + 1);
    let mut found = BTreeMap::<u64, BTreeSet<u64>>::new();
    for row_found in rows {
        let tokens = row_found.total_output_tokens.unwrap();
        let (writer, number) = (tokens / 1_000_000, tokens % 1_000_000);
        assert_eq!(row_found, row(writer, number));
        assert!(found.entry(writer).or_default().insert(number), "row {number} of writer {writer} is there twice");
    }
    found
}

#[test]
fn eight_processes_write_two_hundred_rows_each_and_none_is_lost() {
    if let Ok(task) = std::env::var(TASK) {
        return write_rows(&task);
    }
    let dir = tempfile::tempdir().unwrap();
    let manifest = ResultsManifest::open(dir.path());
    let mut writers: Vec<Child> = (0..WRITERS).map(|writer| start_writer(dir.path(), writer, ROWS_EACH)).collect();
    // A reader at the same time sees whole rows only.
    let mut seen = 0;
    while writers.iter_mut().any(|writer| writer.try_wait().unwrap().is_none()) {
        let rows = manifest.rows().unwrap();
        assert!(rows.len() >= seen, "rows vanished");
        seen = rows.len();
        for found in rows {
            let tokens = found.total_output_tokens.unwrap();
            assert_eq!(found, row(tokens / 1_000_000, tokens % 1_000_000));
        }
    }
    for writer in writers {
        assert!(writer.wait_with_output().unwrap().status.success());
    }
    let expected = (0..WRITERS).map(|writer| (writer, (0..ROWS_EACH).collect())).collect();
    assert_eq!(check_lines(&manifest), expected);
}

#[test]
fn threads_of_one_process_do_not_disturb_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = ResultsManifest::open(dir.path());
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let manifest = &manifest;
            scope.spawn(move || (0..50).for_each(|number| manifest.record(&row(writer, number)).unwrap()));
        }
    });
    assert_eq!(check_lines(&manifest), (0..4).map(|writer| (writer, (0..50).collect())).collect());
}

#[test]
fn killed_writers_leave_whole_rows_and_every_row_that_they_confirmed() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = ResultsManifest::open(dir.path());
    let mut confirmed = BTreeMap::<u64, BTreeSet<u64>>::new();
    for round in 0..25 {
        let ids = [round * 2, round * 2 + 1];
        let mut writers = ids.map(|id| start_writer(dir.path(), id, u64::MAX));
        for (turn, writer) in writers.iter_mut().enumerate() {
            let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines().map_while(Result::ok);
            let wanted = 1 + (round * 5 + turn as u64 * 3) % 17;
            let last = lines.by_ref().filter_map(|line| recorded(&line)).find(|&number| number + 1 >= wanted).unwrap();
            writer.kill().unwrap();
            writer.wait().unwrap();
            let last = lines.filter_map(|line| recorded(&line)).last().unwrap_or(last);
            confirmed.insert(ids[turn], (0..=last).collect());
        }
        // The next writer mends what the killed ones left, if anything.
        manifest.record(&row(900, round)).unwrap();
        let found = check_lines(&manifest);
        for (id, numbers) in &confirmed {
            assert!(found[id].is_superset(numbers), "writer {id} confirmed {numbers:?}, there are {:?}", found[id]);
        }
    }
    assert_eq!(check_lines(&manifest)[&900].len(), 25);
}
