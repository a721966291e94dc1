//! Model files: good ones that the tests share, and bad ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use dwell_gguf::{MakePlan, MakeSpec, Overwrite, make};

use crate::common::Workplace;
use crate::outcome::{assert_nothing_is_left, assert_refused};

/// Makes a model once for all runs of the tests; it is the same for the same spec.
fn shared(path: &OnceLock<PathBuf>, name: &str, spec: MakeSpec) -> PathBuf {
    path.get_or_init(|| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        make(&MakePlan::new(spec).unwrap(), &path, Overwrite::Allow, &mut |_| {}).unwrap();
        path
    })
    .clone()
}

/// A model that is through with a prompt in milliseconds.
pub fn small_model() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    shared(&PATH, "faults-small.gguf", MakeSpec { layers: 2, ..MakeSpec::default() })
}

/// A model that takes milliseconds for each token, so that it can be caught at work.
pub fn slow_model() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let spec = MakeSpec { layers: 2, embedding: 768, feed_forward: 3072, context: 8192, ..MakeSpec::default() };
    shared(&PATH, "faults-slow.gguf", spec)
}

/// A copy of a made model with one 32-bit value of its metadata replaced.
fn with_value(work: &Workplace, spec: MakeSpec, key: &str, value: [u8; 4]) -> PathBuf {
    let path = work.model(spec);
    let mut bytes = fs::read(&path).unwrap();
    let mut name = (key.len() as u64).to_le_bytes().to_vec();
    name.extend_from_slice(key.as_bytes());
    let key_at = bytes.windows(name.len()).position(|window| window == name).unwrap();
    // The type of the value lies between the key and the value.
    let value_at = key_at + name.len() + 4;
    bytes[value_at..value_at + 4].copy_from_slice(&value);
    fs::write(&path, bytes).unwrap();
    path
}

fn run_on(work: &Workplace, model: &Path) -> std::process::Output {
    work.run_command(model, &["--prompt", "hello", "--max-tokens", "2"]).output().unwrap()
}

#[test]
fn a_file_that_is_no_whole_model_is_refused() {
    let work = Workplace::new();
    let whole = fs::read(small_model()).unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = work.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let cases = [
        (work.path().join("missing.gguf"), "opening the model: no such file", "check the path"),
        (work.path().to_owned(), "found a folder, needed a GGUF file", "give the path of a .gguf file"),
        (file("other.gguf", b"PK\x03\x04 something else"), "needed \"GGUF\"", "give a model in GGUF format"),
        (file("empty.gguf", b""), "needed 4 bytes, found 0", "copy or download the file again"),
        (file("header.gguf", &whole[..100]), "reading the metadata", "copy or download the file again"),
        (file("half.gguf", &whole[..whole.len() / 2]), "needed a file of", "copy or download the file again"),
    ];
    for (path, error, hint) in cases {
        assert_refused(&run_on(&work, &path), error, &[hint]);
        assert_nothing_is_left(&work);
    }
}

#[test]
fn a_name_that_is_neither_a_model_nor_a_file_is_answered_with_the_known_names() {
    let work = Workplace::new();
    let output = run_on(&work, Path::new("smollm2000"));
    assert_refused(&output, "\"smollm2000\" is neither a file nor a known model (smollm2)", &["path of a GGUF file"]);
    assert_nothing_is_left(&work);
}

#[test]
fn an_architecture_that_the_runtime_does_not_know_is_refused() {
    let work = Workplace::new();
    let path = work.path().join("model.gguf");
    let text = b"general.architecture";
    let mut bytes = fs::read(small_model()).unwrap();
    let key_at = bytes.windows(text.len()).position(|window| window == text).unwrap();
    // After the key: the type of the value and the length of the text.
    let value_at = key_at + text.len() + 4 + 8;
    bytes[value_at..value_at + 5].copy_from_slice(b"llamb");
    fs::write(&path, bytes).unwrap();
    let output = run_on(&work, &path);
    assert_refused(&output, "its architecture is \"llamb\"", &["use a model whose architecture"]);
    assert_nothing_is_left(&work);
}

#[test]
fn metadata_that_the_runtime_aborts_on_is_refused_before_it_starts() {
    let dense = || MakeSpec { layers: 2, ..MakeSpec::default() };
    let sparse = || MakeSpec { experts: 4, experts_used: 2, ..dense() };
    let cases = [
        (dense(), "llama.block_count", 0, "'llama.block_count' is 0, needed 1 to 512"),
        (dense(), "llama.block_count", 513, "'llama.block_count' is 513, needed 1 to 512"),
        (sparse(), "llama.expert_used_count", 5, "found 5 experts used of 4"),
        (sparse(), "llama.expert_used_count", 0, "found 0 experts used of 4"),
        (sparse(), "llama.expert_count", 1025, "found 1025 experts, needed at most 1024"),
    ];
    for (spec, key, value, error) in cases {
        let work = Workplace::new();
        let path = with_value(&work, spec, key, u32::to_le_bytes(value));
        assert_refused(&run_on(&work, &path), error, &["its metadata is damaged"]);
        assert_nothing_is_left(&work);
    }
}

#[test]
fn a_runtime_that_aborts_before_it_computed_is_told_with_its_own_words() {
    let work = Workplace::new();
    let key = "llama.attention.layer_norm_rms_epsilon";
    let path = with_value(&work, MakeSpec::default(), key, f32::to_le_bytes(-1.0));
    let output = run_on(&work, &path);
    let error = "the worker ended by signal 6 (SIGABRT) before it computed anything; it said: llama.cpp aborted";
    assert_refused(&output, error, &["DWELL_LLAMA_LOG=1"]);
    assert_nothing_is_left(&work);
}
