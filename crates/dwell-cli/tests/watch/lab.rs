//! Programs to watch, and what a watch left.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::common::{dwell, text_of, wait_for};

/// `dwell watch` with these arguments, every 10 ms unless they say otherwise.
pub fn watch(arguments: &[&str]) -> Command {
    let mut command = dwell();
    command.arg("watch");
    if !arguments.iter().any(|argument| argument.starts_with("--interval")) {
        command.args(["--interval", "0.01"]);
    }
    command.args(arguments);
    command
}

/// A program that is ended with the test.
pub struct Program(pub Child);

impl Program {
    pub fn start(words: &[&str]) -> Self {
        let mut command = Command::new(words[0]);
        let program = Self(command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
        // For a moment it has the name of the thread that started it.
        let file = format!("/proc/{}/comm", program.pid());
        wait_for("its name", || fs::read_to_string(&file).is_ok_and(|name| name.trim() == words[0]).then_some(()));
        program
    }

    /// A process that does nothing for longer than any test.
    pub fn idle() -> Self {
        Self::start(&["sleep", "1000"])
    }

    pub fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines of a CSV file, each by its columns. Every line must be whole.
pub fn csv_rows(path: &Path) -> Vec<HashMap<String, String>> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'), "the last line is cut off");
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), header.len(), "{line}");
        header.iter().zip(fields).map(|(name, field)| ((*name).to_owned(), field.to_owned())).collect()
    };
    lines.map(row).collect()
}

/// The summary that `--json` printed.
pub fn summary(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text_of(output)))
}

/// Checks that nothing was done, and that this was said.
pub fn assert_refused(output: &Output, said: &str) {
    let text = text_of(output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("error: ") && text.contains(said) && !text.contains("panicked"), "{text}");
}
