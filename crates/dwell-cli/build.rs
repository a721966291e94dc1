//! Has the linker put the recorder around ggml's functions (see `dwell-worker/src/linked.rs`).

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
}
