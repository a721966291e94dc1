//! The commands of README run as they are written, one after the other, as a reader would type them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip::skip;

const TEST: &str = "readme_runs";
/// What stands before a block that is not run, with the reason behind it.
const NOT_RUN: &str = "<!-- not run: ";
/// What commands say on a machine that does something else too: its runs then do not count.
const NOTHING_COUNTS: [&str; 3] = ["found none that counts", "and none to export", "no run of the experiment counts"];

/// A block of shell commands.
struct Block {
    commands: Vec<String>,
    not_run_because: Option<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn shell_blocks(text: &str) -> Vec<Block> {
    let mut lines = text.lines();
    let (mut blocks, mut before) = (Vec::new(), "");
    while let Some(line) = lines.next() {
        if line == "```sh" {
            let commands = lines.by_ref().take_while(|line| *line != "```").map(str::to_owned).collect();
            let reason = before.strip_prefix(NOT_RUN).and_then(|reason| reason.strip_suffix(" -->"));
            blocks.push(Block { commands, not_run_because: reason.map(str::to_owned) });
        }
        before = line;
    }
    blocks
}

/// A folder with what a checkout has that commands name, and a shell that finds `dwell`.
fn shell(place: &Path, command: &str) -> std::process::Output {
    let program = Path::new(env!("CARGO_BIN_EXE_dwell"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    Command::new("bash").args(["-c", command]).current_dir(place).env("PATH", path).output().unwrap()
}

#[test]
fn commands_of_the_readme_run_as_written() {
    if std::env::var_os("DWELL_QUICK").is_some_and(|quick| quick == "1") {
        return skip(TEST, "runs models (DWELL_QUICK)");
    }
    let blocks = shell_blocks(&fs::read_to_string(root().join("README.md")).unwrap());
    let is_explained = |block: &Block| block.not_run_because.as_ref().is_none_or(|reason| reason.len() > 5);
    assert!(blocks.iter().all(is_explained), "a block that is not run says why");
    assert!(
        blocks.iter().filter(|block| block.not_run_because.is_none()).count() >= 1,
        "README has a shell block that is run"
    );
    let place = tempfile::tempdir().unwrap();
    symlink(root().join("config"), place.path().join("config")).unwrap();
    if !shell(place.path(), "dwell model pull").status.success() {
        return skip(TEST, "the default model is neither in the cache nor reachable");
    }
    for block in blocks.iter().filter(|block| block.not_run_because.is_none()) {
        for command in &block.commands {
            let output = shell(place.path(), command);
            let said = String::from_utf8_lossy(&output.stderr);
            if NOTHING_COUNTS.iter().any(|sign| said.contains(sign)) {
                skip(&format!("{TEST}: {command}"), "the machine was busy, so that no run counts");
                continue;
            }
            assert_eq!(output.status.code(), Some(0), "{command}: {said}");
        }
    }
}
