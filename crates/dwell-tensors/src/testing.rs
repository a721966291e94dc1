//! Streams of known content, and other programs that read them.

#[path = "../../../tests/skip.rs"]
mod skip;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dwell_codec::{Codec, DType, Encoder};

use crate::container::{ContainerVersion, IndexBuilder, Row, batch_frame, schema_message};
use crate::{TensorHead, TokenMark};
use skip::skip;

/// A row with the payload that belongs to it.
pub(crate) type Made = (Row, Vec<u8>);

pub(crate) fn tensor(packet: u64, name: &str, codec: Codec, dtype: DType, shape: &[u64], elements: &[u8]) -> Made {
    let head = TensorHead {
        name: name.to_owned(),
        layer: packet.is_multiple_of(3).then_some(packet as i32),
        step: packet / 4,
        token_index: packet.is_multiple_of(2).then_some(packet / 4),
        timestamp_ns: packet as i64 * 1000 - 5,
        dtype,
        shape: shape.to_vec(),
    };
    let mut payload = Vec::new();
    let encoded = Encoder::default().encode(codec, dtype, head.row_length(), elements, &mut payload);
    let row =
        Row::Tensor { packet, head, encoded, crc32c: crc32c::crc32c(&payload), payload_bytes: payload.len() as u64 };
    (row, payload)
}

pub(crate) fn token(index: u64) -> Made {
    let mark = TokenMark {
        token_index: index,
        token_id: -1 + index as i64,
        token_text: format!(" t{index}"),
        packet: index * 4,
        timestamp_ns: 7,
    };
    (Row::Token(mark), Vec::new())
}

pub(crate) fn dropped(name: &str, count: u64) -> Made {
    let row =
        Row::Dropped { name: name.to_owned(), packet: 2, count, raw_bytes: count * 10, timestamp_ns: 11, step: 2 };
    (row, Vec::new())
}

/// A file of these batches, and where each of its parts ends.
pub(crate) fn stream_bytes(batches: &[Vec<Made>]) -> (Vec<u8>, Vec<usize>) {
    let metadata = BTreeMap::from([("model".to_owned(), "tiny".to_owned())]);
    let mut bytes = schema_message(&metadata, ContainerVersion::default());
    let mut index = IndexBuilder::default();
    let mut ends = vec![bytes.len()];
    for batch in batches {
        let rows: Vec<Row> = batch.iter().map(|(row, _)| row.clone()).collect();
        let frame = batch_frame(&rows, ContainerVersion::default());
        index.add(&rows, bytes.len() as u64, &frame);
        bytes.extend_from_slice(&frame.head);
        batch.iter().for_each(|(_, payload)| bytes.extend_from_slice(payload));
        bytes.resize(bytes.len() + frame.tail_bytes, 0);
        ends.push(bytes.len());
    }
    bytes.extend_from_slice(&index.finish());
    (bytes, ends)
}

pub(crate) fn two_batches() -> Vec<Vec<Made>> {
    let halves: Vec<u8> = (0..64_u16).flat_map(|value| (0x3c00 + value).to_le_bytes()).collect();
    vec![
        vec![
            tensor(0, "model.layers.0", Codec::Float, DType::F16, &[8, 8], &halves),
            tensor(1, "scalar", Codec::None, DType::F64, &[], &1.5_f64.to_le_bytes()),
            token(0),
        ],
        vec![
            tensor(3, "empty", Codec::Zstd { level: 3 }, DType::Bf16, &[0, 4], &[]),
            dropped("lost", 1),
            tensor(4, "zeros", Codec::Lz4, DType::U8, &[300], &[0; 300]),
        ],
    ]
}

pub(crate) fn at(dir: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join("x.tensors");
    fs::write(&path, bytes).unwrap();
    path
}

/// The interpreter with pyarrow, polars, DuckDB, safetensors and llm-instrumentation, if it is there.
pub(crate) fn python() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(|| home.join(".cache"), PathBuf::from);
    let python = cache.join("dwell/venv-torch/bin/python");
    if python.is_file() {
        return Some(python);
    }
    let test = std::thread::current().name().unwrap_or("a test of dwell-tensors").to_owned();
    skip(&test, &format!("no Python environment at {}", python.display()));
    None
}

pub(crate) fn run_python(python: &Path, script: &str, arguments: &[&Path]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/witness").join(script);
    let output = Command::new(python).arg(&script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}: {}", script.display(), String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
