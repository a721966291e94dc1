//! Memory as a page in a browser knows it.

use serde::{Deserialize, Serialize};

/// Environment variable of the worker with the time between two samples of a page, in milliseconds.
pub const PAGE_INTERVAL_VARIABLE: &str = "DWELL_PAGE_SAMPLE_INTERVAL_MS";

/// Memory at one moment, as a page knows it. What the browser does not tell is missing.
///
/// None of it adds up with the memory of processes: heaps and WebAssembly memory lie in that of the page's process, and WebGPU
/// buffers in that of the GPU process or on the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PageSample {
    /// CLOCK_MONOTONIC time, converted from the page's clock.
    pub time_ns: u64,
    /// The process of the page.
    pub pid: Option<u32>,
    /// JavaScript heap in use, array buffers included.
    pub heap_used_bytes: Option<u64>,
    /// JavaScript heap taken.
    pub heap_total_bytes: Option<u64>,
    /// WebAssembly memories of the page and its workers.
    pub wasm_bytes: u64,
    /// `measureUserAgentSpecificMemory`, in the first sample after each measurement.
    pub ua_memory_bytes: Option<u64>,
    /// WebGPU buffers and textures that are alive.
    pub gpu_bytes: u64,
    /// Those of them that hold weights.
    pub gpu_weight_bytes: u64,
    /// Those of them that hold keys and values.
    pub gpu_kv_cache_bytes: u64,
    /// Those of them that hold anything else.
    pub gpu_other_bytes: u64,
    /// Tensors of keys and values that the runtime holds, where it shows them.
    pub kv_bytes: Option<u64>,
    /// Storage that the page takes: caches of models.
    pub storage_bytes: Option<u64>,
    /// Tokens generated so far in this request.
    pub tokens: u64,
}
