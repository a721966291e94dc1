//! What the tests of this crate share.

#![allow(dead_code)] // Each test binary uses a part.

use std::path::PathBuf;
use std::process::Command;

/// The Python that `scripts/setup.sh` makes, with mrm-trace, pandas and pyarrow in it.
///
/// `None`, noted as a skipped test, where it is not there.
pub fn peer_python(test: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    let python = cache.join("dwell/venv-peer/bin/python");
    if python.exists() {
        return Some(python);
    }
    skip(test, "the environment of mrm-trace is not installed");
    None
}

/// Notes that a test could not run here; `make test` counts these lines.
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED: {test}: {reason}\n");
    match std::env::var_os("DWELL_SKIP_LOG") {
        Some(path) => {
            use std::io::Write;
            let log = std::fs::OpenOptions::new().append(true).create(true).open(path);
            log.and_then(|mut log| log.write_all(line.as_bytes())).unwrap();
        }
        None => print!("{line}"),
    }
}

/// What a script prints; it must succeed.
pub fn printed_by(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
