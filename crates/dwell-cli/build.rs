//! Has the linker put the recorder around ggml's functions (see `dwell-worker/src/linked.rs`), and notes the commit.

use std::process::Command;

const WRAPPED_FUNCTIONS: [&str; 8] = [
    "ggml_backend_buffer_clear",
    "ggml_backend_sched_alloc_graph",
    "ggml_backend_sched_graph_compute_async",
    "ggml_backend_tensor_alloc",
    "ggml_backend_tensor_get",
    "ggml_backend_tensor_get_async",
    "ggml_backend_tensor_set",
    "ggml_graph_compute",
];

fn main() {
    for function in WRAPPED_FUNCTIONS {
        println!("cargo:rustc-link-arg=-Wl,--wrap={function}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    // Not git's HEAD: a commit that changes no source would link the program anew. The commit that is noted is the one
    // whose sources were compiled.
    println!("cargo:rerun-if-changed=../../Cargo.lock");
    for source in sources() {
        println!("cargo:rerun-if-changed={source}");
    }
    if let Some(commit) = commit() {
        println!("cargo:rustc-env=DWELL_COMMIT={commit}");
    }
}

/// The sources of every crate of the workspace; the binary has most of them in it.
fn sources() -> Vec<String> {
    let crates = std::fs::read_dir("..").into_iter().flatten().flatten();
    let sources = crates.map(|found| found.path().join("src")).filter(|path| path.is_dir());
    sources.map(|path| path.display().to_string()).collect()
}

/// The commit of this checkout, with `+` if something is changed. None without git, or outside of a checkout: a package of
/// the sources must not name the commit of a repository that it happens to lie in.
fn commit() -> Option<String> {
    let is_checkout = std::path::Path::new("../../.git").exists();
    let commit = is_checkout.then(|| git(&["rev-parse", "--short=10", "HEAD"])).flatten()?;
    let is_changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if is_changed { format!("{commit}+") } else { commit })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
}
