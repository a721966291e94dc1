//! Pages of runs, comparisons and experiments: what they hold is what the tables and metrics say, and what a browser draws.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dwell_events::schema::Table;
use dwell_gguf::MakeSpec;
use serde_json::Value;

use crate::common::{Run, Workplace, dwell, llama_program, skip, text, text_of, wide};

pub(crate) fn tiny_run(place: &Workplace, run_id: &str) -> Run {
    let (run, said) = tiny_run_with(place, run_id, &[]);
    assert!(said.ends_with("/report.html\n"), "the last line is where the page is: {said}");
    run
}

/// A run with more options, under a name that leaves room for others, and what it said.
pub(crate) fn tiny_run_with(place: &Workplace, run_id: &str, options: &[&str]) -> (Run, String) {
    let model = place.model(MakeSpec { layers: 2, embedding: 64, feed_forward: 128, ..MakeSpec::default() });
    let arguments = [&["--prompt", "abc", "--max-tokens", "4", "--ignore-end"], options].concat();
    // A program of llama.cpp may end before its last words are out, and its answer is then missing.
    let whole = (0..20).find_map(|_| {
        let output = place.run_command(&model, &arguments).output().unwrap();
        let is_cut = text_of(&output).contains("missing_answers");
        assert!(output.status.success() || is_cut, "{}", text_of(&output));
        let run = place.opened_run(&model);
        if is_cut {
            fs::remove_dir_all(&run.dir).unwrap();
        }
        (!is_cut).then_some((run, output))
    });
    let (run, output) = whole.expect("an answer that is not cut off");
    let dir = run.dir.with_file_name(run_id);
    fs::rename(&run.dir, &dir).unwrap();
    (Run { dir }, String::from_utf8(output.stdout).unwrap())
}

/// The same work by each runtime that is here: the embedded engine, and the programs of llama.cpp.
fn runs_of_runtimes(place: &Workplace) -> Vec<PathBuf> {
    let mut runs = vec![tiny_run(place, "llama_cpp").dir];
    for (engine, name) in [("llama_server", "llama-server"), ("llama_cli", "llama-completion")] {
        if let Some(program) = llama_program("comparison of three runtimes in a browser", name) {
            let options = ["--engine", engine, "--program", program.to_str().unwrap(), "--baseline-secs", "0"];
            runs.push(tiny_run_with(place, engine, &options).0.dir);
        }
    }
    runs
}

/// What a page shows.
pub(crate) fn page_in(file: &Path) -> Value {
    let html = fs::read_to_string(file).unwrap();
    let (_, after) = html.split_once("<script type=\"application/json\" id=\"page\">").unwrap();
    let (json, _) = after.split_once("</script>").unwrap();
    serde_json::from_str(json).unwrap()
}

fn written(arguments: &[&str], paths: &[&Path], file: &Path) -> Value {
    let output = dwell().arg("report").args(arguments).args(paths).arg("-o").arg(file).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    page_in(file)
}

/// The interfaces of the viewer: their fields, each with its type.
pub(crate) type Interfaces = BTreeMap<String, BTreeMap<String, String>>;

fn interfaces() -> Interfaces {
    interfaces_of(&["page.ts"])
}

/// Those of some of its files.
pub(crate) fn interfaces_of(files: &[&str]) -> Interfaces {
    let source = |file: &&str| fs::read_to_string(viewer().join("src").join(file)).unwrap();
    let source: String = files.iter().map(source).collect();
    let mut interfaces = BTreeMap::new();
    for part in source.split("\nexport interface ").skip(1) {
        let (head, body) = part.split_once(" {\n").unwrap();
        let body = body.split_once("\n}").unwrap().0;
        let field = |line: &str| {
            let line = line.trim();
            let (name, kind) = line.strip_suffix(';')?.split_once(": ")?;
            (!line.starts_with('*') && !line.starts_with('/')).then(|| (name.to_owned(), kind.to_owned()))
        };
        let mut fields: BTreeMap<String, String> = body.lines().filter_map(field).collect();
        let name = match head.split_once(" extends ") {
            Some((name, base)) => {
                let base: &BTreeMap<String, String> = &interfaces[base];
                fields.extend(base.clone());
                name
            }
            None => head,
        };
        interfaces.insert(name.to_owned(), fields);
    }
    interfaces
}

/// Every object has exactly the fields of its interface.
pub(crate) fn assert_fits(value: &Value, kind: &str, interfaces: &Interfaces, place: &str) {
    let kind = kind.trim_end_matches(" | null");
    if let (Some(items), Some(inner)) = (value.as_array(), kind.strip_suffix("[]")) {
        for item in items {
            assert_fits(item, inner, interfaces, place);
        }
    }
    let (Some(object), Some(fields)) = (value.as_object(), interfaces.get(kind)) else { return };
    let (found, expected): (BTreeSet<&String>, BTreeSet<&String>) = (object.keys().collect(), fields.keys().collect());
    assert_eq!(found, expected, "{place}: {kind}");
    for (name, kind) in fields {
        assert_fits(&object[name], kind, interfaces, &format!("{place}.{name}"));
    }
}

fn lines_of_metrics(run: &Run) -> Vec<BTreeMap<String, String>> {
    let text = fs::read_to_string(run.dir.join("metrics.csv")).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let header = lines.next().unwrap();
    lines.map(|line| header.iter().cloned().zip(line).collect()).collect()
}

#[test]
fn a_run_leaves_a_page_with_the_numbers_of_its_metrics_and_its_trace() {
    let place = Workplace::new();
    let run = tiny_run(&place, "a");
    let page = page_in(&run.dir.join("report.html"));
    assert_fits(&page, "Page", &interfaces(), "page");
    let shown = &page["runs"][0];
    let metrics = lines_of_metrics(&run);
    let regions = shown["regions"].as_array().unwrap();
    assert_eq!(regions.len(), metrics.len());
    for (region, line) in regions.iter().zip(&metrics) {
        assert_eq!(region["region_type"], line["region_type"].as_str());
        assert_eq!(region["read_bytes"].as_f64().unwrap(), line["bytes_read"].parse::<f64>().unwrap());
        assert_eq!(region["written_bytes"].as_f64().unwrap(), line["bytes_written"].parse::<f64>().unwrap());
        assert_eq!(region["suitability"], line["suitability"].as_str());
        let known = |name: &str| line[name].parse::<f64>().ok();
        assert_eq!(region["retention_p99_s"].as_f64(), known("retention_p99_s"));
    }
    assert_tiles_equal_the_trace(&run, &shown["overview"]);
    let overview: Value = serde_json::from_slice(&fs::read(run.dir.join("overview.json")).unwrap()).unwrap();
    assert_eq!(shown["overview"], overview);
    let tokens: usize = run.batches(Table::Tokens).iter().map(|batch| batch.num_rows()).sum();
    assert_eq!(shown["timeline"]["tokens"]["index"].as_array().unwrap().len(), tokens);
    let verified = dwell().arg("verify").arg(&run.dir).output().unwrap();
    assert_eq!(verified.status.code(), Some(0), "the manifest has the page: {}", text_of(&verified));
}

/// Bytes loaded and stored, by region type.
pub(crate) type BytesByType = BTreeMap<String, (u64, u64)>;

pub(crate) fn tile_bytes(overview: &Value) -> BytesByType {
    let mut found = BytesByType::new();
    let tiles = &overview["tiles"];
    for (cell, place) in tiles["place"].as_array().unwrap().iter().enumerate() {
        let place = &overview["places"][place.as_u64().unwrap() as usize];
        let sum = found.entry(place["region_type"].as_str().unwrap().to_owned()).or_default();
        sum.0 += tiles["read_bytes"][cell].as_u64().unwrap();
        sum.1 += tiles["written_bytes"][cell].as_u64().unwrap();
    }
    found
}

fn assert_tiles_equal_the_trace(run: &Run, overview: &Value) {
    let mut expected = BytesByType::new();
    for batch in run.batches(Table::Trace) {
        for row in 0..batch.num_rows() {
            let sum = expected.entry(text(&batch, "region_type", row)).or_default();
            let bytes = wide(&batch, "size_bytes", row);
            if text(&batch, "op_type", row) == "load" { sum.0 += bytes } else { sum.1 += bytes }
        }
    }
    assert_eq!(tile_bytes(overview), expected);
}

#[test]
fn a_run_without_an_overview_is_drawn_from_its_trace() {
    let place = Workplace::new();
    let run = tiny_run(&place, "a");
    let with = written(&[], &[&run.dir], &place.path().join("with.html"));
    fs::remove_file(run.dir.join("overview.json")).unwrap();
    let without = written(&[], &[&run.dir], &place.path().join("without.html"));
    assert_eq!(with, without);
}

#[test]
fn observations_of_the_time_of_a_run_are_drawn_into_its_timeline() {
    let place = Workplace::new();
    let run = tiny_run(&place, "a");
    let begin_ns = page_in(&run.dir.join("report.html"))["runs"][0]["timeline"]["begin_ns"].as_u64().unwrap();
    let observed = |begin_ns: u64| {
        let file = place.path().join("o.jsonl");
        let end_ns = begin_ns + 2_000_000_000;
        let line = format!(
            r#"{{"timestamp":9.0,"interval_s":2.0,"begin_ns":{begin_ns},"end_ns":{end_ns},"page_faults":{{"7":50}}}}"#
        );
        fs::write(&file, line + "\n").unwrap();
        file
    };
    let observations = observed(begin_ns);
    let report = |page: &Path| {
        let mut command = dwell();
        command.arg("report").arg(&run.dir).arg("--observations").arg(&observations).arg("-o").arg(page);
        command.output().unwrap()
    };
    let file = place.path().join("with.html");
    let output = report(&file);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let page = page_in(&file);
    assert_fits(&page, "Page", &interfaces(), "page");
    let samples = &page["runs"][0]["timeline"]["observed"][0]["samples"];
    assert_eq!((&samples["unit"], &samples["series"][0]["values"][0]), (&"/s".into(), &25.0.into()));
    observed(begin_ns + 3_600_000_000_000);
    let output = report(&place.path().join("without.html"));
    assert_eq!(output.status.code(), Some(2));
    assert!(text_of(&output).contains("found none from the time of the run"), "{}", text_of(&output));
}

#[test]
fn several_runs_make_a_comparison_and_experiments_a_page_of_their_own() {
    let place = Workplace::new();
    let (first, second) = (tiny_run(&place, "a"), tiny_run(&place, "b"));
    let page = written(&[], &[&first.dir, &second.dir], &place.path().join("c.html"));
    assert_fits(&page, "Page", &interfaces(), "page");
    assert_eq!(page["kind"], "comparison");
    let rows: Vec<&Value> = page["comparison"]["sections"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|section| section["rows"].as_array().unwrap())
        .collect();
    let tokens = rows.iter().find(|row| row["label"] == "generated tokens").unwrap();
    assert_eq!(tokens["values"][0].as_f64(), Some(4.0));
    let existing = dwell().arg("report").arg(&first.dir).arg("-o").arg(place.path().join("c.html")).output().unwrap();
    assert_eq!(existing.status.code(), Some(2), "{}", text_of(&existing));
    assert_eq!(page_in(&place.path().join("c.html")), page, "nothing is replaced without --force");
}

#[test]
fn names_with_markup_stay_text() {
    let place = Workplace::new();
    let run = tiny_run(&place, "a");
    let metadata = run.dir.join("metadata.json");
    let hostile = fs::read_to_string(&metadata)
        .unwrap()
        .replace("\"run_id\": \"run\"", "\"run_id\": \"</script><img src=x onerror=alert(1)>\"");
    fs::write(&metadata, hostile).unwrap();
    // With it, that would be said.
    fs::remove_file(run.dir.join("manifest.json")).unwrap();
    let file = place.path().join("h.html");
    let page = written(&[], &[&run.dir], &file);
    assert_eq!(page["runs"][0]["run_id"], "</script><img src=x onerror=alert(1)>");
    let html = fs::read_to_string(&file).unwrap();
    assert!(!html.contains("<img"), "markup of a run is in the page");
    assert_eq!(html.matches("</script>").count(), 2);
}

#[test]
fn what_is_no_run_is_refused_with_a_hint() {
    let place = Workplace::new();
    let output = dwell().arg("report").arg(place.path().join("nothing")).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    assert!(text_of(&output).contains("hint:"), "{}", text_of(&output));
}

pub(crate) fn viewer() -> PathBuf {
    pages("viewer")
}

/// A folder of the repository that has web pages.
pub(crate) fn pages(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name).canonicalize().unwrap()
}

/// Whether the viewer's tools are installed; said as skipped if not.
pub(crate) fn has_viewer_tools(test: &str) -> bool {
    has_tools("viewer", test)
}

/// Whether what builds and tests the pages of a folder is installed; said as skipped if not.
pub(crate) fn has_tools(name: &str, test: &str) -> bool {
    let is_there = pages(name).join("node_modules/made-from").is_file();
    if !is_there {
        skip(test, &format!("the tools of {name}/ are not installed (scripts/fetch-node-tools.sh {name})"));
    }
    is_there
}

/// Whether there is a browser; said as skipped if not.
pub(crate) fn has_chromium(test: &str) -> bool {
    let is_there = Command::new("chromium").arg("--version").output().is_ok();
    if !is_there {
        skip(test, "no chromium in PATH");
    }
    is_there
}

fn node(arguments: &[&Path]) {
    node_output(arguments);
}

/// What a program of the viewer says; it must succeed.
pub(crate) fn node_output(arguments: &[&Path]) -> Vec<u8> {
    node_output_in(&viewer(), arguments)
}

/// What a program of a folder says; it must succeed.
pub(crate) fn node_output_in(folder: &Path, arguments: &[&Path]) -> Vec<u8> {
    let output = Command::new("node").args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    output.stdout
}

/// Where pictures of pages are kept.
pub(crate) fn pictures(place: &Workplace) -> PathBuf {
    std::env::var_os("DWELL_SCREENSHOTS").map_or_else(|| place.path().join("pictures"), PathBuf::from)
}

#[test]
fn the_viewer_that_is_embedded_is_the_one_that_is_built() {
    if !has_viewer_tools("viewer bundle") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    node(&[Path::new("node_modules/typescript/bin/tsc"), Path::new("--noEmit")]);
    node(&[Path::new("build.mjs"), place.path()]);
    for name in ["report.js", "report.css", "view.js", "view.css"] {
        let (built, kept) =
            (fs::read(place.path().join(name)).unwrap(), fs::read(viewer().join("dist").join(name)).unwrap());
        assert!(built == kept, "viewer/dist/{name} is not what its sources give: run `npm run build` in viewer/");
    }
    node(&[Path::new("test/unit.mjs")]);
}

#[test]
fn a_browser_draws_the_pages_of_a_run_a_comparison_and_an_experiment() {
    if !has_viewer_tools("viewer in a browser") || !has_chromium("viewer in a browser") {
        return;
    }
    let place = Workplace::new();
    let runs = runs_of_runtimes(&place);
    let comparison = place.path().join("comparison.html");
    let page = written(&[], &runs.iter().map(PathBuf::as_path).collect::<Vec<_>>(), &comparison);
    assert_eq!(page["runs"].as_array().unwrap().len(), runs.len(), "each runtime is drawn");
    let experiment = place.path().join("experiment.html");
    experiment_of(&place, &place.path().join("drawn"));
    let reasons = "contaminated,quality_fail";
    written(&["--experiment", "drawn", "--include", reasons], &[&place.path().join("drawn")], &experiment);
    let run = runs[0].join("report.html");
    node(&[Path::new("test/browser.mjs"), &pictures(&place), &run, &comparison, &experiment]);
}

#[test]
fn a_page_that_chromium_prints_is_whole() {
    const TEST: &str = "printed page";
    for program in ["chromium", "pdftotext"] {
        if Command::new(program).arg("--version").output().is_err() {
            return skip(TEST, &format!("no {program} in PATH"));
        }
    }
    let place = Workplace::new();
    let run = tiny_run(&place, "printed");
    let page = page_in(&run.dir.join("report.html"));
    let printed = printed(&place, &run.dir.join("report.html"));
    let columns = page["runs"][0]["metrics"]["columns"].as_array().unwrap();
    let last = columns.last().unwrap()["name"].as_str().unwrap();
    for expected in [last, "How to read this page", "Written by dwell"] {
        assert!(printed.contains(expected), "{expected} is not on paper, which ends with {:?}", printed.lines().last());
    }
}

/// The text of a page that the command line of Chromium prints.
fn printed(place: &Workplace, page: &Path) -> String {
    let (pdf, profile) = (place.path().join("page.pdf"), place.path().join("profile"));
    let mut chromium = Command::new("chromium");
    chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
    chromium.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    chromium.arg(format!("--user-data-dir={}", profile.display())).arg(format!("--print-to-pdf={}", pdf.display()));
    let output = chromium.arg(format!("file://{}", page.display())).output().unwrap();
    assert!(pdf.is_file(), "{}", text_of(&output));
    let output = Command::new("pdftotext").arg(&pdf).arg("-").output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a small experiment into a results directory.
pub(crate) fn experiment_of(place: &Workplace, results: &Path) {
    let file = place.path().join("e.yaml");
    fs::write(&file, experiment_file(place, results)).unwrap();
    let ran = dwell().args(["run", "--config"]).arg(file).current_dir(place.path()).output().unwrap();
    // 1 if the machine was busy and no run counts.
    assert!(matches!(ran.status.code(), Some(0 | 1)), "{}", text_of(&ran));
}

fn experiment_file(place: &Workplace, results: &Path) -> String {
    // Heads of 32 keys, which q8_0 needs.
    let model = place.model(MakeSpec { layers: 2, embedding: 128, feed_forward: 128, ..MakeSpec::default() });
    format!(
        "experiment: {{name: drawn}}\nmodels: [{{id: m, path: {}}}]\nprompts: {{source: {}}}\n\
         sweep: {{context_lengths: [64, 128], kv_cache_types: [f16, q8_0], output_tokens: [4], repetitions: 1, warmup_runs: 0}}\n\
         telemetry: {{baseline_secs: 0.1, measure_slowdown: false}}\noutput: {{base_dir: {}}}\n",
        model.display(),
        viewer().join("../config/tiny_prompts.yaml").display(),
        results.display()
    )
}
