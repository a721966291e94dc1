//! No sequence of bytes makes the reader or the arithmetic panic.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::io::Cursor;
use std::sync::LazyLock;

use dwell_events::engine::KvType;
use dwell_gguf::{GgufFile, InfoOptions, MakePlan, MakeSpec, MemoryRequest, ModelInfo, Overwrite, make};
use proptest::prelude::*;
use support::FileBuilder;

static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("small.gguf");
    let spec = MakeSpec { layers: 1, vocabulary: 260, ..MakeSpec::default() };
    make(&MakePlan::new(spec).unwrap(), &path, Overwrite::Refuse, &mut |_| ()).unwrap();
    std::fs::read(&path).unwrap()
});

/// Bytes of the good file before its weights, which is where all the numbers are.
fn header_bytes() -> usize {
    GgufFile::read(Cursor::new(&GOOD[..])).unwrap().data_offset() as usize
}

/// Read and do everything that can be done with the result.
fn use_all(bytes: &[u8]) {
    let Ok(file) = GgufFile::read(Cursor::new(bytes)) else { return };
    let memory = MemoryRequest { parallel: 3, ..MemoryRequest::new(u32::MAX, KvType::F16) };
    if let Ok(info) = ModelInfo::new(&file, &InfoOptions { memory, list_tensors: true }) {
        assert!(!info.to_string().is_empty());
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
        use_all(&bytes);
        use_all(&[b"GGUF\x03\x00\x00\x00", &bytes[..]].concat());
    }

    #[test]
    fn a_good_file_with_numbers_put_into_its_header_never_panics(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u64>(), 1usize..=8), 1..4),
    ) {
        let mut changed = GOOD.clone();
        for (position, number, bytes) in changes {
            let position = position.index(header_bytes());
            changed[position..position + bytes].copy_from_slice(&number.to_le_bytes()[..bytes]);
        }
        use_all(&changed);
    }

    #[test]
    fn shape_numbers_of_any_size_never_panic(numbers in proptest::collection::vec(any::<u32>(), 12), layers in 1u32..6) {
        let keys = [
            "embedding_length", "attention.head_count", "attention.head_count_kv", "attention.key_length",
            "attention.value_length", "feed_forward_length", "context_length", "vocab_size", "expert_count",
            "expert_used_count", "attention.sliding_window", "attention.sliding_window_pattern",
        ];
        let mut builder = FileBuilder::new().text("general.architecture", "gemma3").u32("gemma3.block_count", layers);
        for (key, number) in keys.iter().zip(numbers) {
            builder = builder.u32(&format!("gemma3.{key}"), number);
        }
        use_all(&builder.bytes());
    }
}

#[test]
fn a_good_file_cut_anywhere_in_its_header_is_an_error() {
    for length in 0..header_bytes() {
        assert!(GgufFile::read(Cursor::new(&GOOD[..length])).is_err(), "{length}");
    }
}

#[test]
fn a_good_file_with_any_byte_of_its_header_changed_never_panics() {
    let mut changed = GOOD.clone();
    for position in 0..header_bytes() {
        for value in [0x00, 0x01, 0x7f, 0x80, 0xff] {
            changed[position] = value;
            use_all(&changed);
        }
        changed[position] = GOOD[position];
    }
}
