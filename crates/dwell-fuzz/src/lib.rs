//! What every decoder must survive: one target each.
//!
//! A target reads any bytes as its format, to the end or the first error. It must not panic, run for long or take much
//! memory, whatever the bytes. Where something must hold of what was read, it asserts that. Targets run in two ways:
//!
//! - `tests/changed_bytes.rs` feeds each with its seeds, cut and changed, on any compiler;
//! - `fuzz/` feeds one with what libFuzzer makes of the seeds, guided by coverage (`scripts/fuzz.sh`).
//!
//! A target is a file here and a line in [`ALL`]; its seeds are in `fuzz/corpus/<name>`, made by `examples/make_seeds.rs`.

#![forbid(unsafe_code)]

mod alloc_ring;
mod browser;
mod codec;
mod experiment;
mod gguf;
mod kv_json;
mod kv_msgpack;
mod lackey;
mod manifest;
mod memray;
mod metadata;
mod ndjson;
mod observe;
mod perf_data;
mod perf_script;
mod pieces;
mod prometheus;
mod raw_stream;
mod rules;
mod scratch;
mod sse;
mod tensor_stream;
mod wire_records;
mod zmtp;

/// A decoder, and how it is fed.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of the folder with its seeds.
    pub name: &'static str,
    /// Reads bytes as the target's format.
    pub run: fn(&[u8]),
}

/// Every target.
pub static ALL: &[Target] = &[
    Target { name: "alloc_ring", run: alloc_ring::run },
    Target { name: "browser", run: browser::run },
    Target { name: "codec", run: codec::run },
    Target { name: "experiment", run: experiment::run },
    Target { name: "gguf", run: gguf::run },
    Target { name: "kv_json", run: kv_json::run },
    Target { name: "kv_msgpack", run: kv_msgpack::run },
    Target { name: "lackey", run: lackey::run },
    Target { name: "manifest", run: manifest::run },
    Target { name: "memray", run: memray::run },
    Target { name: "metadata", run: metadata::run },
    Target { name: "ndjson", run: ndjson::run },
    Target { name: "observe", run: observe::run },
    Target { name: "perf_data", run: perf_data::run },
    Target { name: "perf_script", run: perf_script::run },
    Target { name: "prometheus", run: prometheus::run },
    Target { name: "raw_stream", run: raw_stream::run },
    Target { name: "rules", run: rules::run },
    Target { name: "sse", run: sse::run },
    Target { name: "tensor_stream", run: tensor_stream::run },
    Target { name: "wire_records", run: wire_records::run },
    Target { name: "zmtp", run: zmtp::run },
];

/// The target of a name.
pub fn target(name: &str) -> Option<&'static Target> {
    ALL.iter().find(|target| target.name == name)
}
