//! A limit on the size of files (`ulimit -f`): an error, and not death by SIGXFSZ.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Workplace, dwell, text_of};
use crate::models::slow_model;
use crate::outcome::assert_refused;

/// Runs dwell where no file may be larger than so many blocks, of 512 bytes or, with some shells, of 1024.
fn limited(blocks: u32, arguments: &[&str], output: &Path) -> Output {
    let script = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(dwell().get_program()).args(arguments);
    command.args(["--prompt", "hello", "--ignore-end", "--threads", "1", "--max-tokens", "400", "--model"]);
    command.arg(slow_model()).arg("--output").arg(output).output().unwrap()
}

#[test]
fn a_capture_says_so_and_keeps_what_it_has() {
    let work = Workplace::new();
    let path = work.path().join("a.tensors");
    let arguments = ["capture", "--tensors", "*", "--codec", "none", "--checkpoint-every", "1"];
    let output = limited(4096, &arguments, &path);
    let recover = format!("dwell tensors recover '{}'", path.display());
    assert_refused(&output, "writing a tensor stream failed with File too large", &["ulimit -f", &recover]);
    let recovered = dwell().args(["tensors", "recover"]).arg(&path).output().unwrap();
    assert_eq!(recovered.status.code(), Some(0), "{}", text_of(&recovered));
    let verified = dwell().args(["tensors", "verify"]).arg(&path).output().unwrap();
    assert_eq!(verified.status.code(), Some(0), "{}", text_of(&verified));
}

#[test]
fn a_run_says_so() {
    let work = Workplace::new();
    let output = limited(2048, &["run"], &work.path().join("results"));
    assert_refused(&output, "File too large", &[]);
}
