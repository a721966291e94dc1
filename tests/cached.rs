//! What `make setup` puts into the cache for tests. The tests of several crates take this file in, beside `skip.rs`.

use std::path::PathBuf;

use super::skip::skip;

/// A file in dwell's cache, if it is there.
pub fn cached(path: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    Some(cache.join("dwell").join(path)).filter(|path| path.exists())
}

/// A program of llama.cpp, or a note that the test cannot run here.
#[allow(dead_code, reason = "not every test runs one")]
pub fn llama_program(test: &str, name: &str) -> Option<PathBuf> {
    let found = cached(&format!("llama-tools/bin/{name}"));
    if found.is_none() {
        skip(test, "the llama.cpp programs are not in the cache (scripts/fetch-llama-tools.sh gets them)");
    }
    found
}
