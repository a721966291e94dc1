//! Figures for papers: files of every format with the numbers that they show, and what cannot be drawn.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use dwell_gguf::MakeSpec;

use crate::common::{Run, Workplace, dwell, skip, text_of};

fn tiny_run(place: &Workplace) -> Run {
    let model = place.model(MakeSpec { layers: 2, embedding: 64, feed_forward: 128, ..MakeSpec::default() });
    let arguments = ["--prompt", "abc", "--max-tokens", "4", "--ignore-end"];
    let output = place.run_command(&model, &arguments).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    place.opened_run(&model)
}

fn figure(arguments: &[&str], path: &Path, output: &Path) -> Output {
    dwell().arg("figure").args(arguments).arg(path).arg("-o").arg(output).output().unwrap()
}

#[test]
fn every_figure_of_a_run_is_drawn_with_its_numbers() {
    let place = Workplace::new();
    let run = tiny_run(&place);
    let out = place.path().join("figures");
    let listed = dwell().args(["figure", "--list"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let names = listed.lines().filter(|line| line.contains(" a run ")).map(|line| line.split(' ').next().unwrap());
    let names: Vec<&str> = names.collect();
    assert!(names.len() >= 8 && names.contains(&"survival"), "{listed}");
    for name in names {
        let drawn = figure(&[name, "--format", "svg,pdf,png"], &run.dir, &out);
        assert_eq!(drawn.status.code(), Some(0), "{name}: {}", text_of(&drawn));
        let paths = String::from_utf8(drawn.stdout).unwrap();
        assert_eq!(paths.lines().count(), 4, "{paths}");
        assert!(paths.lines().all(|path| fs::metadata(path).unwrap().len() > 0), "{paths}");
        let svg = fs::read_to_string(out.join(format!("{name}.svg"))).unwrap();
        assert!(svg.contains("width=\"85mm\"") && svg.contains("@font-face"), "{name}");
        assert!(fs::read_to_string(out.join(format!("{name}.csv"))).unwrap().lines().count() > 1, "{name}");
    }
    let of_run = fs::read_to_string(run.dir.join("figures/survival.csv")).unwrap();
    assert_eq!(of_run, fs::read_to_string(out.join("survival.csv")).unwrap(), "the run has the same numbers");
    assert_layers_sum_to_the_metrics(&run, &fs::read_to_string(out.join("layers.csv")).unwrap());
}

/// Bytes loaded of all layers are those of the KV cache in `metrics.csv`, all of which belongs to layers. Stores are not compared: the
/// figure counts the clearing of the cache, which the metrics leave out.
fn assert_layers_sum_to_the_metrics(run: &Run, csv: &str) {
    let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let place = header.iter().position(|column| *column == "loaded_bytes").unwrap();
    let loaded = |line: &str| line.split(',').nth(place).unwrap().parse::<u64>().unwrap();
    let drawn: u64 = csv.lines().filter(|line| line.contains(",kv_cache,")).map(loaded).sum();
    let metrics = fs::read_to_string(run.dir.join("metrics.csv")).unwrap();
    let place = metrics.lines().next().unwrap().split(',').position(|column| column == "bytes_read").unwrap();
    let line = metrics.lines().find(|line| line.split(',').any(|field| field == "kv_cache")).unwrap();
    assert_eq!(line.split(',').nth(place), Some(drawn.to_string().as_str()));
}

#[test]
fn sizes_names_and_existing_files_are_heeded() {
    let place = Workplace::new();
    let run = tiny_run(&place);
    let file = place.path().join("mine.svg");
    let drawn = figure(&["retention", "--size", "120x60mm"], &run.dir, &file);
    assert_eq!(drawn.status.code(), Some(0), "{}", text_of(&drawn));
    assert!(fs::read_to_string(&file).unwrap().contains("width=\"120mm\" height=\"60mm\""));
    assert!(place.path().join("mine.csv").is_file());
    fs::write(&file, "mine").unwrap();
    let refused = figure(&["retention"], &run.dir, &file);
    assert_eq!(refused.status.code(), Some(2), "{}", text_of(&refused));
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine", "nothing is replaced without --force");
    assert_eq!(figure(&["retention", "--force"], &run.dir, &file).status.code(), Some(0));
    let missing = figure(&["retention"], &run.dir, &place.path().join("mistyped/mine.svg"));
    assert_eq!(missing.status.code(), Some(2), "{}", text_of(&missing));
    let other = figure(&["retention"], &run.dir, &place.path().join("mine.jpg"));
    assert_eq!(other.status.code(), Some(2), "{}", text_of(&other));
    assert!(text_of(&other).contains("found the ending jpg, and svg, pdf, png were needed"), "{}", text_of(&other));
    assert!(!place.path().join("mine.jpg").exists(), "no folder of that name");
    assert_eq!(figure(&["retention"], &run.dir, &place.path().join("for.paper/")).status.code(), Some(0));
    assert!(place.path().join("for.paper/retention.svg").is_file());
    assert!(!place.path().join("mistyped").exists() && text_of(&missing).contains("mkdir -p"), "{}", text_of(&missing));
}

#[test]
fn what_cannot_be_drawn_is_said_with_a_hint() {
    let place = Workplace::new();
    let run = tiny_run(&place);
    let out = place.path().join("out");
    let cases: [(&[&str], &Path, &str); 8] = [
        (&["survivle"], &run.dir, "did you mean `survival`?"),
        (&["curve"], &run.dir, "found no runs of one engine and model with two context lengths"),
        (&["survival"], run.dir.parent().unwrap(), "found a folder of runs"),
        (&["survival", "--metric", "x"], &run.dir, "which is one of a run, found a metric"),
        (&["survival", "--experiment", "x"], &run.dir, "which is one of a run, found a choice"),
        (&["speed", "--experiment", "x"], &run.dir, "experiment"),
        (&["experiment:nothing", "--include", "contaminated,quality_fail"], &run.dir, "one of these was needed"),
        (&["survival", "--size", "3x4mm"], &run.dir, "between 30 mm and 1200 mm"),
    ];
    for (arguments, path, said) in cases {
        let output = figure(arguments, path, &out);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text_of(&output));
        assert!(text_of(&output).contains(said), "{arguments:?}: {}", text_of(&output));
    }
    assert!(!out.exists());
}

#[test]
fn a_pdf_has_its_font_and_text_that_can_be_searched() {
    if Command::new("pdffonts").arg("-v").output().is_err() {
        return skip("fonts of figures as PDF", "no pdffonts in PATH (poppler-utils)");
    }
    let place = Workplace::new();
    let run = tiny_run(&place);
    let file = place.path().join("survival.pdf");
    let drawn = figure(&["survival", "--size", "page"], &run.dir, &file);
    assert_eq!(drawn.status.code(), Some(0), "{}", text_of(&drawn));
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).arg(&file).args(arguments).output().unwrap();
        assert!(output.status.success(), "{program}: {}", text_of(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let fonts = said("pdffonts", &[]);
    let words: Vec<&str> = fonts.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(words[..7], ["DWELLF+Inter-Regular", "CID", "TrueType", "Identity-H", "yes", "yes", "yes"], "{fonts}");
    let text = said("pdftotext", &["-"]);
    assert!(text.contains("Time from store to last load (s)") && text.contains("Activations"), "{text}");
    assert!(said("pdfinfo", &[]).contains("504.567 x"), "178 mm wide");
}
