//! What another engine computes from the same file.

use std::process::Command;

use crate::common::{cached, dwell, skip, text_of};

const MODEL: &str = "models/SmolLM2-135M-Instruct.Q4_1.gguf";
const PYTHON: &str = "venv-torch/bin/python";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/capture/compare_with_transformers.py");

#[test]
fn residuals_and_logits_are_those_of_transformers() {
    let test = "capture::residuals_and_logits_are_those_of_transformers";
    if std::env::var_os("DWELL_QUICK").is_some() {
        return skip(test, "DWELL_QUICK is set");
    }
    let (Some(python), Some(model)) = (cached(PYTHON), cached(MODEL)) else {
        return skip(test, "needs the Python environment of the tests and the model smollm2");
    };
    let imports = Command::new(&python).args(["-c", "import torch, transformers, gguf, pyarrow"]).output().unwrap();
    if !imports.status.success() {
        return skip(test, "the Python environment has no torch, transformers, gguf or pyarrow");
    }
    let folder = tempfile::tempdir().unwrap();
    let stream = folder.path().join("a.tensors");
    let captured = dwell()
        .args(["capture", "--prompt", "The capital of France is", "--chat-template", "off", "--max-tokens", "1"])
        .args(["--tensors", "residual,logits", "--all-positions", "--codec", "none", "--model"])
        .arg(&model)
        .arg("-o")
        .arg(&stream)
        .output()
        .unwrap();
    assert!(captured.status.success(), "{}", text_of(&captured));
    let compared = Command::new(&python).arg(SCRIPT).arg(&stream).arg(&model).output().unwrap();
    assert!(compared.status.success(), "{}", text_of(&compared));
}
