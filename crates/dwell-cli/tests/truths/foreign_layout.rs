//! A program whose ggml has another layout is left alone, with the reason on record.

use std::path::Path;
use std::process::Command;

use crate::common::{Workplace, text_of};
use dwell_records::{Kind, Refusal, split_frame};
use dwell_ring::Consumer;

fn compile(arguments: &[&str]) {
    let output = Command::new("cc").args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
}

/// Compiles and runs the program with the preload library; gives the kinds of its records and why it was refused.
fn records_of_program(more: &[&str]) -> (Vec<Kind>, Option<String>) {
    let place = Workplace::new();
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let source = |name: &str| format!("{}/tests/foreign_layout/{name}", env!("CARGO_MANIFEST_DIR"));
    let library = ["-shared", "-fPIC", "-o", &at("libggml-base.so"), &source("ggml.c")];
    compile(&[&library[..], more].concat());
    let rpath = format!("-Wl,-rpath,{}", place.path().display());
    compile(&["-o", &at("program"), &source("program.c"), &at("libggml-base.so"), &rpath]);
    let output = Command::new(at("program"))
        .env("LD_PRELOAD", Path::new(env!("CARGO_BIN_EXE_dwell")).with_file_name("libdwell_preload.so"))
        .env("DWELL_RING_DIR", place.path())
        .env("DWELL_OBSERVER_PID", std::process::id().to_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "computed 2 times\n");
    let entries = std::fs::read_dir(place.path()).unwrap().flatten().map(|entry| entry.path());
    let ring = entries.into_iter().find(|path| path.extension().is_some_and(|end| end == "ring")).unwrap();
    let mut bytes = Vec::new();
    Consumer::open(&ring).unwrap().peek(0, &mut bytes);
    let (mut kinds, mut refusal, mut rest) = (Vec::new(), None, &bytes[..]);
    while let Some((frame, after)) = split_frame(rest).unwrap() {
        let kind = Kind::from_number(frame.kind).unwrap();
        if kind == Kind::Refusal {
            refusal = Some(Refusal::decode(frame.payload).unwrap().reason);
        }
        kinds.push(kind);
        rest = after;
    }
    (kinds, refusal)
}

#[test]
fn a_known_layout_is_recorded() {
    let (kinds, refusal) = records_of_program(&[]);
    assert_eq!(kinds, [Kind::Hello, Kind::Graph, Kind::Step, Kind::Step]);
    assert_eq!(refusal, None);
}

#[test]
fn another_layout_is_refused_once_and_the_program_runs_on() {
    let (kinds, refusal) = records_of_program(&["-DOTHER_LAYOUT"]);
    assert_eq!(kinds, [Kind::Hello, Kind::Refusal]);
    let reason = refusal.unwrap();
    assert!(reason.contains("disagrees with the layout of ggml_tensor"), "{reason}");
    assert!(reason.contains("the program runs on untraced"), "{reason}");
}
