//! What the tests of this crate share.

#![allow(dead_code, unused_imports)] // Each test binary uses a part.

#[path = "../../../../tests/skip.rs"]
mod skip;

use std::path::PathBuf;
use std::process::Command;

pub use skip::skip;

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

/// What a script prints; it must succeed.
pub fn printed_by(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
