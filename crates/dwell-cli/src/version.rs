//! Which dwell this is.

use std::sync::LazyLock;

/// `0.1.0 (commit 57bdea4, llama.cpp 0.7.0, …)`. The build says the commit, if it was made in a checkout.
pub(crate) fn long_text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let commit = option_env!("DWELL_COMMIT").map_or_else(String::new, |commit| format!("commit {commit}, "));
        format!("{} ({commit}{})", env!("CARGO_PKG_VERSION"), dwell_worker::runtime())
    });
    &TEXT
}
