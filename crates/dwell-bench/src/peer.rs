//! mrm-trace, from the environment that the tests keep in the cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// The Python of that environment, if it is there.
pub(crate) fn python() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    cache.map(|cache| cache.join("dwell/venv-peer/bin/python")).filter(|python| python.exists())
}

/// What a script of `tests/peer` prints; none if mrm-trace is not installed.
pub(crate) fn run(script: &str, arguments: &[&Path]) -> anyhow::Result<Option<String>> {
    let Some(python) = python() else { return Ok(None) };
    eprintln!("waits for mrm-trace, which takes minutes");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peer").join(script);
    let output = Command::new(python).arg(script).args(arguments).output().context("starting mrm-trace")?;
    if !output.status.success() {
        bail!("mrm-trace failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()))
}
