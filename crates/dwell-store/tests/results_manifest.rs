//! `manifest.csv`: one row per run, whoever else writes.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{peer_python, printed_by};
use dwell_events::Hint;
use dwell_store::{MANIFEST_COLUMNS, ManifestRow, ResultsManifest, StoreError};

fn row(model_id: &str, run_id: &str) -> ManifestRow {
    ManifestRow {
        run_id: run_id.to_owned(),
        model_id: model_id.to_owned(),
        context_length: Some(2048),
        peak_temp_c: Some(61.5),
        has_prompt_outputs: Some(true),
        cpu_model: "Some, \"CPU\"".to_owned(),
        state: "complete".to_owned(),
        path: format!("{model_id}/{run_id}"),
        ..ManifestRow::default()
    }
}

fn run_ids(manifest: &ResultsManifest) -> Vec<String> {
    manifest.rows().unwrap().into_iter().map(|row| row.run_id).collect()
}

fn text(manifest: &ResultsManifest) -> String {
    fs::read_to_string(manifest.path()).unwrap()
}

fn header_of(columns: usize) -> String {
    MANIFEST_COLUMNS[..columns].iter().map(|column| column.name).collect::<Vec<_>>().join(",")
}

/// What mrm-trace writes: its columns, with Python's words for truth values.
fn peer_file(results: &Path) {
    let rows = "old-1,box,m,perf_mem,4096,1,128,0,VALID,0.0,0,12.5,10.25,128,3.5,0.9,77,cpu,,Linux,6.1,True,2026-01-01\n\
                old-2,,org/m,,2048.0,,,,,,,,,,,,,\"a \"\"cpu\"\"\",,,,False,2026-01-02\n";
    fs::write(results.join("manifest.csv"), format!("{}\n{rows}", header_of(23))).unwrap();
}

#[test]
fn text_that_a_spreadsheet_would_calculate_is_marked_in_the_file_alone() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = ResultsManifest::open(dir.path());
    let row = |run_id: &str| ManifestRow { failure: "=1+1".to_owned(), os: "'=2".to_owned(), ..row("m", run_id) };
    ["a", "b", "a"].iter().for_each(|run_id| manifest.record(&row(run_id)).unwrap());
    assert_eq!(manifest.rows().unwrap(), [row("a"), row("b")]);
    assert_eq!(text(&manifest).matches(",'=1+1,").count(), 2, "{}", text(&manifest));
    assert_eq!(text(&manifest).matches(",''=2,").count(), 2, "{}", text(&manifest));
}

#[test]
fn rows_are_given_back_as_they_were_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = ResultsManifest::open(&dir.path().join("results"));
    assert!(manifest.rows().unwrap().is_empty());
    let rows = [row("m", "a"), row("m", "b"), ManifestRow { failure: "no, \"room\"".to_owned(), ..row("n", "a") }];
    rows.iter().for_each(|row| manifest.record(row).unwrap());
    assert_eq!(manifest.rows().unwrap(), rows);
    assert_eq!(text(&manifest).lines().next().unwrap(), header_of(MANIFEST_COLUMNS.len()));
    assert_eq!(text(&manifest).lines().count(), 4);
}

#[test]
fn what_is_not_known_is_an_empty_field() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = ResultsManifest::open(dir.path());
    let unknown = ManifestRow { run_id: "a".to_owned(), model_id: "m".to_owned(), ..ManifestRow::default() };
    manifest.record(&unknown).unwrap();
    assert_eq!(text(&manifest).lines().nth(1).unwrap(), format!("a,,m{}", ",".repeat(MANIFEST_COLUMNS.len() - 3)));
    assert_eq!(manifest.rows().unwrap(), [unknown]);
}

#[test]
fn a_run_that_is_recorded_again_replaces_its_row_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = ResultsManifest::open(dir.path());
    for (model, run) in [("m", "a"), ("m", "b"), ("n", "a")] {
        manifest.record(&row(model, run)).unwrap();
    }
    manifest.record(&ManifestRow { state: "partial".to_owned(), ..row("m", "a") }).unwrap();
    let states: Vec<String> = manifest.rows().unwrap().into_iter().map(|row| row.state).collect();
    assert_eq!(states, ["partial", "complete", "complete"]);
    assert_eq!(run_ids(&manifest), ["a", "b", "a"]);
}

#[test]
fn a_torn_last_line_is_never_read_and_is_cut_off_by_the_next_writer() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = ResultsManifest::open(dir.path());
    let last = ManifestRow { failure: "ein \"Stück\", größer".to_owned(), ..row("m,ü", "bé") };
    manifest.record(&row("m", "a")).unwrap();
    let begin = fs::read(manifest.path()).unwrap().len();
    manifest.record(&last).unwrap();
    let whole = fs::read(manifest.path()).unwrap();
    for end in begin + 1..whole.len() {
        fs::write(manifest.path(), &whole[..end]).unwrap();
        let is_all_but_the_break = end == whole.len() - 1;
        let found = run_ids(&manifest);
        // The closing quote of the last field tells nothing more.
        if end < whole.len() - 2 {
            assert_eq!(found, ["a"], "cut at {end} of {}", whole.len());
        }
        assert!(found.len() == 2 || !is_all_but_the_break, "a row that lacks only its line break is whole");
        manifest.record(&row("m", "c")).unwrap();
        assert_eq!(run_ids(&manifest).len(), found.len() + 1, "cut at {end}");
        assert!(text(&manifest).ends_with('\n') && text(&manifest).lines().count() == found.len() + 2);
    }
}

#[test]
fn the_file_of_mrm_trace_gets_our_columns_and_keeps_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    peer_file(dir.path());
    let manifest = ResultsManifest::open(dir.path());
    let before = manifest.rows().unwrap();
    assert_eq!(before[0].working_set_pages_total, Some(77));
    assert_eq!((before[0].has_prompt_outputs, before[1].has_prompt_outputs), (Some(true), Some(false)));
    assert_eq!((before[1].context_length, before[1].cpu_model.as_str()), (Some(2048), "a \"cpu\""));
    manifest.record(&row("m", "new")).unwrap();
    let after = manifest.rows().unwrap();
    assert_eq!(after[..2], before);
    assert_eq!(after[2], row("m", "new"));
    assert_eq!(text(&manifest).lines().next().unwrap(), header_of(MANIFEST_COLUMNS.len()));
    assert!(text(&manifest).contains("old-1,box,m,perf_mem,4096,1,128,0,VALID,0.0,0,12.5,10.25,"), "as it was written");
}

#[test]
fn a_file_with_other_columns_is_refused_and_not_touched() {
    let foreign = ["name,size\na,1\n", "run_id,model_id,run_id\na,b,c\n", "run_id,os\na,b\n"];
    for content in foreign {
        let dir = tempfile::tempdir().unwrap();
        let manifest = ResultsManifest::open(dir.path());
        fs::write(manifest.path(), content).unwrap();
        let error = manifest.record(&row("m", "a")).unwrap_err();
        assert!(matches!(error, StoreError::OtherResultsManifest { .. }), "{error}");
        assert!(error.hints()[0].contains("mv '"), "{:?}", error.hints());
        assert_eq!(text(&manifest), content);
        assert!(manifest.rows().is_err());
    }
}

#[test]
fn a_row_that_does_not_fit_is_named_by_its_line() {
    let unfit = [("a,,m\n", "3 fields"), (&format!("a,,m,,many{}\n", ",".repeat(32)), "\"many\" is no whole number")];
    for (line, reason) in unfit {
        let dir = tempfile::tempdir().unwrap();
        let manifest = ResultsManifest::open(dir.path());
        manifest.record(&row("m", "a")).unwrap();
        fs::write(manifest.path(), text(&manifest) + line).unwrap();
        let error = manifest.rows().unwrap_err();
        assert!(matches!(error, StoreError::UnfitManifestRow { line: 3, .. }), "{error:?}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn mrm_trace_itself_adds_rows_before_and_after_ours() {
    let Some(python) = peer_python("mrm_trace_itself_adds_rows_before_and_after_ours") else { return };
    let dir = tempfile::tempdir().unwrap();
    let manifest = ResultsManifest::open(dir.path());
    let script = "import sys; from mrm_trace.reporter.dataset_manifest import append_manifest_row as add\n\
                  add(sys.argv[1], sys.argv[2], {'model': {'id': 'm'}, 'generation': {'context_length': 512}}, {})";
    let add = |run_id: &str| printed_by(Command::new(&python).args(["-c", script]).arg(manifest.path()).arg(run_id));
    add("theirs-1");
    manifest.record(&row("m", "ours-1")).unwrap();
    add("theirs-2");
    manifest.record(&row("m", "ours-2")).unwrap();
    assert_eq!(run_ids(&manifest), ["theirs-1", "ours-1", "theirs-2", "ours-2"]);
    assert_eq!(manifest.rows().unwrap()[2].context_length, Some(512));
}

#[test]
fn pandas_reads_the_file() {
    let Some(python) = peer_python("pandas_reads_the_file") else { return };
    let dir = tempfile::tempdir().unwrap();
    let manifest = ResultsManifest::open(dir.path());
    manifest.record(&row("m", "a")).unwrap();
    manifest.record(&ManifestRow { failure: "one,\ntwo \"2\"".to_owned(), ..row("m", "b") }).unwrap();
    let script = "import sys, pandas; frame = pandas.read_csv(sys.argv[1])\n\
                  print(*frame.columns, sep=',')\n\
                  print(frame.shape, frame.context_length.sum(), frame.peak_temp_c[0], frame.has_prompt_outputs.all())\n\
                  print(frame.failure[1], frame.cpu_model[0], frame.slowdown.isna().all(), sep='|')";
    let printed = printed_by(Command::new(python).args(["-c", script]).arg(manifest.path()));
    let expected = "(2, 37) 4096 61.5 True\none, / two \"2\"|Some, \"CPU\"|True\n";
    assert_eq!(printed, format!("{}\n{expected}", header_of(MANIFEST_COLUMNS.len())));
}
