//! One archive, unpacked, and the commands that are run in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::answers::{Answer, assert_same};
use crate::tables;

/// A command that the earlier version was given.
pub struct AskedCommand {
    pub case: String,
    /// Name of the file with the answer.
    pub answer: String,
    arguments: Vec<String>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/v0.1.0").canonicalize().unwrap()
}

/// All commands, in order.
pub fn commands() -> Vec<AskedCommand> {
    let text = fs::read_to_string(folder().join("commands.txt")).unwrap();
    let command = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        AskedCommand { case: words.next().unwrap(), answer: words.next().unwrap(), arguments: words.collect() }
    };
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(command).collect()
}

/// An unpacked archive, removed when the test ends well.
pub struct Fixture {
    case: &'static str,
    dir: tempfile::TempDir,
}

impl Fixture {
    pub fn unpack(case: &'static str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let archive = folder().join(format!("{case}.tar.gz"));
        let unpacked = Command::new("tar").arg("-C").arg(dir.path()).arg("-xzf").arg(archive).status().unwrap();
        assert!(unpacked.success());
        Self { case, dir }
    }

    /// Where it lies, as dwell names it.
    fn path(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    /// Runs every command of the case, and compares the files that came of it.
    pub fn check(&self) {
        self.check_answers();
        if self.expected("tables").is_dir() {
            tables::assert_same(&self.expected("tables"), &self.run_dir());
        }
        if self.expected("gen.safetensors").is_file() {
            let elements = |path: PathBuf| fs::read(path).unwrap();
            assert!(elements(self.expected("gen.safetensors")) == elements(self.path().join("gen.safetensors")));
        }
        if self.expected("samples.parquet").is_file() {
            let [expected, found] = [self.expected(""), self.path()].map(|dir| dir.join("samples.parquet"));
            tables::assert_same_columns(&tables::read(&expected), &tables::read(&found), "samples");
        }
    }

    /// The only run of the model of the fixtures.
    fn run_dir(&self) -> PathBuf {
        let mut runs = fs::read_dir(self.path().join("results/tiny")).unwrap().map(|entry| entry.unwrap().path());
        let run = runs.next().unwrap();
        assert!(runs.next().is_none());
        run
    }

    /// A file that the earlier version made.
    fn expected(&self, name: &str) -> PathBuf {
        folder().join("expected").join(self.case).join(name)
    }

    /// Every command says what it said.
    fn check_answers(&self) {
        for command in commands().into_iter().filter(|command| command.case == self.case) {
            let expected = fs::read_to_string(self.expected(&format!("{}.txt", command.answer))).unwrap();
            let recorded_in = format!("/tmp/dwell-fixtures/answers/{}", self.case);
            let expected = Answer::recorded(&expected.replace(&recorded_in, self.path().to_str().unwrap()));
            let mut dwell = Command::new(env!("CARGO_BIN_EXE_dwell"));
            let output = dwell.args(&command.arguments).current_dir(self.path()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            let what = format!("{}: dwell {}: {said}", self.case, command.arguments.join(" "));
            assert_same(&expected, &Answer::of(&output), &command, &what);
        }
    }
}
