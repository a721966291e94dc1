//! Pages that run models in the browser: what is kept of them is what their sources give, and what a real Chromium makes of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use dwell_gguf::MakeSpec;

use crate::common::Workplace;
use crate::report::{has_chromium, has_tools, node_output_in, pages, pictures};

const PROMPT: &str = "Once upon a time";
const GENERATED: usize = 8;

fn web(arguments: &[&Path]) {
    node_output_in(&pages("web"), arguments);
}

/// Models run in the browser of the viewer's tools.
fn can_browse(test: &str) -> bool {
    has_tools("web", test) && has_tools("viewer", test) && has_chromium(test)
}

fn names_in(folder: &Path) -> BTreeSet<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// A model whose text has no bytes outside characters at temperature 0: wllama tells nothing of such bytes.
fn readable_model(place: &Workplace) -> PathBuf {
    place.model(MakeSpec { layers: 3, embedding: 128, vocabulary: 8192, seed: 1, ..MakeSpec::default() })
}

/// What the embedded llama.cpp writes.
fn text_of_llama_cpp(place: &Workplace, model: &Path) -> String {
    let generated = GENERATED.to_string();
    let run = place.run(model, &["--prompt", PROMPT, "--max-tokens", &generated, "--ignore-end", "--temperature", "0"]);
    let mut table = csv::Reader::from_path(run.dir.join("tokens_memory.csv")).unwrap();
    let headers = table.headers().unwrap().clone();
    let place_of = |name: &str| headers.iter().position(|header| header == name).unwrap();
    let (is_generated, text) = (place_of("is_generated"), place_of("text"));
    let rows = table.records().map(Result::unwrap).filter(|row| &row[is_generated] == "true");
    rows.map(|row| row[text].to_owned()).collect()
}

#[test]
fn the_pages_that_are_kept_are_those_that_are_built() {
    if !has_tools("web", "web pages") || !has_tools("viewer", "web pages") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    web(&[Path::new("node_modules/typescript/bin/tsc"), Path::new("--noEmit")]);
    web(&[Path::new("build.mjs"), place.path()]);
    let dist = pages("web").join("dist");
    assert_eq!(names_in(place.path()), names_in(&dist), "run `npm run build` in web/");
    for name in names_in(&dist) {
        let is_same = fs::read(place.path().join(&name)).unwrap() == fs::read(dist.join(&name)).unwrap();
        assert!(is_same, "web/dist/{name} is not what its sources give: run `npm run build` in web/");
    }
    web(&[Path::new("../viewer/test/unit.mjs"), Path::new(".")]);
}

#[test]
fn a_browser_counts_known_allocations_exactly() {
    if can_browse("known allocations in a browser") {
        web(&[Path::new("test/known_truth.mjs")]);
    }
}

#[test]
fn models_run_in_the_browser_and_wllama_writes_what_llama_cpp_writes() {
    if !can_browse("models in a browser") {
        return;
    }
    let place = Workplace::new();
    let model = readable_model(&place);
    let text = text_of_llama_cpp(&place, &model);
    assert!(!text.is_empty());
    let other_place = Workplace::new();
    let of_bytes = other_place.model(MakeSpec::default());
    web(&[Path::new("test/runtimes.mjs"), &model, Path::new(&text), &of_bytes]);
}

#[test]
fn a_person_finds_the_cost_of_a_model_by_the_page() {
    if !can_browse("page for models in a browser") {
        return;
    }
    let place = Workplace::new();
    web(&[Path::new("test/page.mjs"), &pictures(&place), &readable_model(&place)]);
}
