//! The preload library in an unmodified llama.cpp program: the program does what it did, and the trace of it obeys the
//! same arithmetic as that of the embedded engine.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{Workplace, cached, skip, text_of};
use arrow_array::RecordBatch;
use dwell_events::engine::KvType;
use dwell_gguf::{GgufFile, MakeSpec, ModelShape};
use dwell_label::{FileTensor, Labelled, Labeller, Output as Rows};
use dwell_records::split_frame;
use dwell_ring::Consumer;

/// Programs of the Debian package that `scripts/fetch-llama-tools.sh` puts into the cache.
fn llama_tools() -> Option<PathBuf> {
    cached("llama-tools/run-llama")
}

fn preload_library() -> PathBuf {
    let library = Path::new(env!("CARGO_BIN_EXE_dwell")).with_file_name("libdwell_preload.so");
    assert!(library.exists(), "build it first with `cargo build --release -p dwell-preload`: {library:?}");
    library
}

fn completion(tools: &Path, model: &Path, ring_dir: Option<&Path>) -> Output {
    let mut command = Command::new(tools);
    command.arg("llama-completion").arg("-m").arg(model);
    command.args([
        "-p",
        "abc",
        "-n",
        "6",
        "--temp",
        "0",
        "-no-cnv",
        "-c",
        "256",
        "-t",
        "1",
        "--no-warmup",
        "--ignore-eos",
    ]);
    if let Some(ring_dir) = ring_dir {
        command
            .env("DWELL_LLAMA_PRELOAD", preload_library())
            .env("DWELL_RING_DIR", ring_dir)
            .env("DWELL_OBSERVER_PID", std::process::id().to_string());
    }
    command.output().unwrap()
}

/// Runs the program until its text is whole. It writes from a thread that it does not wait for, so that, traced or not,
/// one run in ten ends before its last words are out.
fn completion_with_its_text(tools: &Path, model: &Path, ring_dir: Option<&Path>) -> String {
    for _ in 0..50 {
        if let Some(ring_dir) = ring_dir {
            let _ = std::fs::remove_dir_all(ring_dir);
            std::fs::create_dir(ring_dir).unwrap();
        }
        let output = completion(tools, model, ring_dir);
        assert!(output.status.success(), "{}", text_of(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.starts_with("abc") && text.ends_with("\n\n") {
            return text;
        }
    }
    panic!("the program never wrote its text to the end");
}

/// Labels everything that the program left in its ring.
fn labelled(ring_dir: &Path, model: &Path) -> (Labelled, RecordBatch, RecordBatch) {
    let ring = std::fs::read_dir(ring_dir).unwrap().flatten().next().expect("the program made a ring").path();
    let mut bytes = Vec::new();
    Consumer::open(&ring).unwrap().peek(0, &mut bytes);
    let file = GgufFile::open(model).unwrap();
    let tensors: Vec<FileTensor> = file
        .tensors()
        .iter()
        .map(|tensor| FileTensor { name: tensor.name.clone(), file_offset: tensor.file_offset })
        .collect();
    let mut labeller = Labeller::new(&tensors);
    let mut rows = Rows::new("run");
    let mut rest = &bytes[..];
    while let Some((frame, after)) = split_frame(rest).unwrap() {
        labeller.frame(&frame, &mut rows);
        rest = after;
    }
    assert!(rest.is_empty(), "the ring ends with a whole frame");
    let labelled = labeller.finish(&mut rows);
    (labelled, rows.trace.finish_batch(), rows.blocks.finish_batch())
}

fn sum_bytes(trace: &RecordBatch, region_type: &str, op_type: &str, step: u32) -> u64 {
    let is_it = |row: &usize| {
        crate::common::text(trace, "region_type", *row) == region_type
            && crate::common::text(trace, "op_type", *row) == op_type
            && crate::common::optional::<arrow_array::types::UInt32Type>(trace, "step", *row) == Some(step)
    };
    (0..trace.num_rows()).filter(is_it).map(|row| crate::common::wide(trace, "size_bytes", row)).sum()
}

#[test]
fn an_unmodified_program_is_traced_exactly_and_does_what_it_did() {
    let name = "an_unmodified_program_is_traced_exactly_and_does_what_it_did";
    let Some(tools) = llama_tools() else {
        return skip(name, "the llama.cpp programs are not in the cache (scripts/fetch-llama-tools.sh gets them)");
    };
    let place = Workplace::new();
    let model = place.model(MakeSpec {
        layers: 3,
        embedding: 128,
        feed_forward: 192,
        tied_output: false,
        ..MakeSpec::default()
    });
    let ring_dir = place.path().join("rings");
    let plain = completion_with_its_text(&tools, &model, None);
    let traced = completion_with_its_text(&tools, &model, Some(&ring_dir));
    assert_eq!(plain, traced);

    let (labelled, trace, blocks) = labelled(&ring_dir, &model);
    assert_eq!(labelled.outcome.refused, None);
    let losses: Vec<&str> = labelled.loss.iter().map(|row| row.kind.name()).collect();
    assert_eq!(losses, ["work_buffer"], "times match operations, all rules known");
    let file = GgufFile::open(&model).unwrap();
    let shape = ModelShape::from_gguf(&file).unwrap();
    let kv_bytes = shape.kv_bytes_per_token(KvType::F16, KvType::F16).unwrap();
    let embedding = file.tensor("token_embd.weight").unwrap();
    let weights = file.tensor_bytes() - embedding.size_bytes + embedding.size_bytes / embedding.dimensions[1];
    assert_eq!(sum_bytes(&trace, "kv_cache", "store", 0), 4 * kv_bytes, "a prompt of four tokens");
    for step in 1..=5 {
        assert_eq!(sum_bytes(&trace, "kv_cache", "store", step), kv_bytes, "step {step}");
        assert_eq!(sum_bytes(&trace, "kv_cache", "load", step), u64::from(4 + step) * kv_bytes, "step {step}");
        assert_eq!(sum_bytes(&trace, "weight", "load", step), weights, "step {step}");
    }
    assert_eq!(blocks.num_rows(), 3 * 2 * 9, "a key and a value per layer and position");
    let placed: Vec<&str> =
        labelled.regions.iter().filter(|row| row.file_offset.is_some()).map(|row| row.origin).collect();
    assert!(!placed.is_empty() && placed.iter().all(|origin| *origin == "mapped"));
}

#[test]
fn without_an_observer_the_library_leaves_the_program_alone() {
    let name = "without_an_observer_the_library_leaves_the_program_alone";
    let Some(tools) = llama_tools() else {
        return skip(name, "the llama.cpp programs are not in the cache (scripts/fetch-llama-tools.sh gets them)");
    };
    let place = Workplace::new();
    let model = place.model(MakeSpec::default());
    let missing_dir = place.path().join("nowhere");
    let output = completion(&tools, &model, Some(&missing_dir));
    assert!(output.status.success(), "{}", text_of(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.matches("dwell: making the recorder's ring").count(), 1, "{said}");
}
