//! SQL over runs by DuckDB's own command: the views hold the tables, and define the metrics as the analysis computes them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{Run, Workplace, cached, dwell, skip, text_of};
use crate::report::tiny_run_with;

/// Columns that a view computes and `dwell analyse` too, with the relative error that quantiles may have there.
const BY_DWELL: [(&str, &[&str], f64); 6] = [
    (
        "metric_read_frequency",
        &["loads", "stores", "bytes_read", "bytes_written", "read_write_ratio", "reads_per_write_mean"],
        1e-9,
    ),
    ("metric_working_set", &["distinct_bytes"], 0.0),
    ("metric_locality", &["sequential_share", "same_page_share", "stride_mean_bytes"], 1e-9),
    ("metric_inter_access_interval", &["interval_mean_ns"], 1e-9),
    ("metric_inter_access_interval", &["interval_p50_ns", "interval_p90_ns", "interval_p99_ns"], 0.008),
    (
        "metric_retention",
        &["life_bytes", "censored_share", "never_read_share", "inferred_share", "retention_max_s"],
        1e-9,
    ),
];
/// Columns by mrm-trace's definitions, with where `dwell analyse --json` has them in a region type.
const BY_MRM_TRACE: [(&str, &str); 8] = [
    ("n_regions", "/n_regions"),
    ("retention_p50_s", "/retention/p50_s"),
    ("retention_p90_s", "/retention/p90_s"),
    ("retention_p99_s", "/retention/p99_s"),
    ("retention_mean_s", "/retention/mean_s"),
    ("write_once_ratio_mean", "/write_once/ratio"),
    ("reads_per_write_mean", "/read_frequency/reads_per_write"),
    ("unique_pages_total", "/working_set/distinct_pages"),
];

fn duckdb() -> Option<PathBuf> {
    cached("venv-peer/bin/duckdb")
}

fn sql(duckdb: &Path, paths: &[&Path], arguments: &[&str]) -> Output {
    let mut command = dwell();
    command.arg("sql").args(paths).args(arguments).arg("--duckdb").arg(duckdb).output().unwrap()
}

fn rows(duckdb: &Path, paths: &[&Path], query: &str) -> Vec<Value> {
    let output = sql(duckdb, paths, &[query, "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs with two context lengths, named by them.
fn two_runs(place: &Workplace) -> Vec<Run> {
    let run = |length: &str| tiny_run_with(place, length, &["--context-length", length]).0;
    vec![run("256"), run("512")]
}

/// The lines of a CSV file by region type.
fn csv(path: &Path) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let lines: Vec<BTreeMap<String, String>> = reader.deserialize().map(|line| line.unwrap()).collect();
    lines.into_iter().map(|line| (line["region_type"].clone(), line)).collect()
}

fn assert_equal(found: &Value, expected: &str, tolerance: f64, what: &str) {
    match (found.as_f64(), expected.parse::<f64>()) {
        (Some(found), Ok(expected)) => {
            assert!((found - expected).abs() <= tolerance * expected.abs(), "{what}: {found} and {expected}");
        }
        (found, _) => assert!(found.is_none() && expected.is_empty(), "{what}: {found:?} and {expected:?}"),
    }
}

#[test]
fn the_metrics_as_sql_are_those_of_the_analysis() {
    let Some(duckdb) = duckdb() else { return skip("sql", "no DuckDB in the cache") };
    let place = Workplace::new();
    for run in two_runs(&place) {
        let expected = csv(&run.dir.join("metrics.csv"));
        for (view, columns, tolerance) in BY_DWELL {
            let found = rows(&duckdb, &[&run.dir], &format!("select * from {view}"));
            assert_eq!(found.len(), expected.len(), "{view}");
            for row in found {
                let region_type = row["region_type"].as_str().unwrap();
                for column in columns {
                    let what = format!("{view}.{column} of {region_type}");
                    assert_equal(&row[column], &expected[region_type][*column], tolerance, &what);
                }
            }
        }
        for row in rows(&duckdb, &[&run.dir], "select * from metric_write_once") {
            let expected = &expected[row["region_type"].as_str().unwrap()]["write_once_ratio_mean"];
            assert_equal(&row["write_once_ratio"], expected, 1e-9, "write once");
        }
        let analysed =
            dwell().arg("analyse").arg(&run.dir).args(["--definitions", "mrm-trace", "--json"]).output().unwrap();
        let analysed: Value = serde_json::from_slice(&analysed.stdout).unwrap();
        let found = rows(&duckdb, &[&run.dir], "select * from mrm_trace_metrics");
        assert_eq!(found.len(), analysed["region_types"].as_array().unwrap().len());
        for expected in analysed["region_types"].as_array().unwrap() {
            let row = found.iter().find(|row| row["region_type"] == expected["region_type"]).unwrap();
            for (column, place) in BY_MRM_TRACE {
                let expected = expected.pointer(place).unwrap();
                let text = if expected.is_null() { String::new() } else { expected.to_string() };
                assert_equal(&row[column], &text, 1e-9, &format!("{column} of {}", row["region_type"]));
            }
        }
    }
}

#[test]
fn every_table_says_which_run_its_rows_are_of() {
    let Some(duckdb) = duckdb() else { return skip("sql", "no DuckDB in the cache") };
    let place = Workplace::new();
    let runs = two_runs(&place);
    let results = runs[0].dir.parent().unwrap().parent().unwrap();
    let query = "select run, any_value(context_length) as context_length, any_value(engine) as engine, count(*) as rows from trace group by run order by run";
    let found = rows(&duckdb, &[results, &runs[0].dir], query);
    let of_run = |run: &Run, context_length: u64| {
        serde_json::json!({"run": run.dir.file_name().unwrap().to_str(), "context_length": context_length, "engine": "llama_cpp",
            "rows": run.accesses().len()})
    };
    assert_eq!(found, [of_run(&runs[0], 256), of_run(&runs[1], 512)], "a run that is named twice counts once");
    // A table that neither run has is there all the same.
    assert_eq!(rows(&duckdb, &[results], "select count(*) as n from memory where pid < 0")[0]["n"], 0);
}

#[test]
fn results_are_written_whole_in_the_asked_format_or_not_at_all() {
    let Some(duckdb) = duckdb() else { return skip("sql", "no DuckDB in the cache") };
    let place = Workplace::new();
    let run = &two_runs(&place)[0];
    let out = place.path().join("tokens.parquet");
    let query = "select step, token_id from tokens order by step;";
    let to = |file: &Path, query: &str, arguments: &[&str]| {
        let file = file.to_str().unwrap();
        sql(&duckdb, &[&run.dir], &[&[query, "-o", file], arguments].concat())
    };
    let written = to(&out, query, &["--format", "parquet"]);
    assert_eq!(written.status.code(), Some(0), "{}", text_of(&written));
    assert!(fs::read(&out).unwrap().starts_with(b"PAR1"));

    let refused = to(&out, query, &["--format", "csv"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text_of(&refused));
    assert!(text_of(&refused).contains("--force"), "{}", text_of(&refused));
    let wrong = to(&out, "select nothing from nowhere", &["--format", "csv", "--force"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text_of(&wrong).contains("nowhere"), "{}", text_of(&wrong));
    assert!(fs::read(&out).unwrap().starts_with(b"PAR1"), "what is there stays if the query fails");
    let files = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(files.into_iter().all(|name| !name.starts_with(".tmp")), "nothing is left behind");

    let lines = to(&place.path().join("tokens.csv"), query, &["--format", "csv"]);
    assert_eq!(lines.status.code(), Some(0), "{}", text_of(&lines));
    let lines = fs::read_to_string(place.path().join("tokens.csv")).unwrap();
    assert!(lines.starts_with("step,token_id\n"), "{lines}");
}

#[test]
fn the_statements_work_in_another_client() {
    let Some(duckdb) = duckdb() else { return skip("sql", "no DuckDB in the cache") };
    let place = Workplace::new();
    let run = &two_runs(&place)[1];
    let views = dwell().arg("sql").arg(&run.dir).arg("--views").output().unwrap();
    assert_eq!(views.status.code(), Some(0), "{}", text_of(&views));
    let file = place.path().join("views.sql");
    fs::write(&file, views.stdout).unwrap();
    let read = format!(".read '{}'", file.display());
    let asked = Command::new(&duckdb)
        .args(["-no-init", "-csv", "-cmd", &read, "-c", "select context_length from runs"])
        .output();
    assert_eq!(String::from_utf8(asked.unwrap().stdout).unwrap(), "context_length\n512\n");
}

#[test]
fn without_duckdb_the_error_says_how_to_get_it() {
    let place = Workplace::new();
    let run = &two_runs(&place)[0];
    let empty = place.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let mut command = dwell();
    let output =
        command.arg("sql").arg(&run.dir).arg("select 1 as one").env("PATH", &empty).env("XDG_CACHE_HOME", &empty);
    let output = output.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    assert!(text_of(&output).contains("--fetch") && text_of(&output).contains("--views"), "{}", text_of(&output));
}
