//! `dwell import memray`, and what other commands make of a run without accesses.

use std::path::{Path, PathBuf};

use crate::common::{Workplace, cached, dwell, skip, text_of};
use serde_json::Value;

/// A capture with known records, which the fuzz targets begin with.
fn capture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/memray").join(name)
}

fn imported(place: &Workplace, name: &str) -> (Option<i32>, PathBuf, String) {
    let results = place.path().join("results");
    let mut command = dwell();
    command.args(["import", "memray"]).arg(capture(name)).arg("-o").arg(&results).args(["--run-id", name]);
    let output = command.output().unwrap();
    (output.status.code(), results.join("imported").join(name), text_of(&output))
}

#[test]
fn a_run_of_allocations_says_what_it_holds_and_what_it_cannot_tell() {
    let place = Workplace::new();
    let (code, run, said) = imported(&place, "compressed");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("2 allocations of 8.10 KiB, 2 frees; processes: 1"), "{said}");
    let show = |argument: &[&str]| dwell().arg("show").arg(&run).args(argument).output().unwrap();
    let shown = show(&[]);
    assert_eq!(shown.status.code(), Some(0), "{}", text_of(&shown));
    let text = text_of(&shown);
    for line in [
        "allocated 2 allocations of 8.10 KiB, 2 frees, in 1 process",
        "times     1 sample of the resident memory",
        "seen      no accesses: memray records what is allocated",
        "lost      nothing",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("observer"), "nobody watched: {text}");
    let json: Value = serde_json::from_slice(&show(&["--json"]).stdout).unwrap();
    assert_eq!(json["allocations"]["captures"][0]["frees"], 2);
    assert_eq!(json["accesses"], 0);
    assert_eq!(dwell().arg("verify").arg(&run).status().unwrap().code(), Some(0));
    // Nothing can be computed of accesses that are not there.
    let analysed = dwell().arg("analyse").arg(&run).output().unwrap();
    assert_eq!(analysed.status.code(), Some(2), "{}", text_of(&analysed));
    assert!(text_of(&analysed).contains("trace.parquet"), "{}", text_of(&analysed));
}

#[test]
fn a_capture_of_a_killed_process_is_imported_with_loss() {
    let place = Workplace::new();
    let (code, run, said) = imported(&place, "killed");
    assert_eq!(code, Some(1), "{said}");
    let shown = text_of(&dwell().arg("show").arg(&run).output().unwrap());
    assert!(
        shown.contains("1 × undecodable_records") && shown.contains("was killed, or its capture was cut"),
        "{shown}"
    );
    assert!(shown.contains("partial run: "), "{shown}");
}

#[test]
fn sql_has_the_tables_of_allocations() {
    let Some(duckdb) = cached("venv-peer/bin/duckdb") else {
        return skip("sql_has_the_tables_of_allocations", "DuckDB is not in the cache");
    };
    let place = Workplace::new();
    let (_, run, _) = imported(&place, "native");
    let asked = "select allocator, function, size_bytes, freed_bytes, unix_ms from allocations left join allocation_samples \
                 using (run, sample_id) order by ordinal";
    let mut command = dwell();
    let output = command.arg("sql").arg(&run).args([asked, "--format", "csv"]).arg("--duckdb").arg(duckdb).output();
    let output = output.unwrap();
    let rows: Vec<String> = String::from_utf8(output.stdout.clone()).unwrap().lines().map(str::to_owned).collect();
    let expected = [
        "allocator,function,size_bytes,freed_bytes,unix_ms",
        "malloc,main,100,NULL,NULL",
        "mmap,main,8192,NULL,1700000000010",
        "munmap,NULL,4096,4096,1700000000010",
        "free,NULL,NULL,100,1700000000010",
    ];
    assert_eq!(rows, expected, "{}", text_of(&output));
}
