//! Moments that come by chance, brought about on purpose: who waits for memory while somebody else holds it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::TensorStream;
use super::memory::Need;
use crate::{Codec, DType, Pressure, StreamOptions, TensorHead};

/// A stream that nothing but need makes write.
fn stream(pressure: Pressure) -> (tempfile::TempDir, TensorStream) {
    let dir = tempfile::tempdir().unwrap();
    let flush_interval = Duration::from_secs(3600);
    let options = StreamOptions { codec: Codec::None, pressure, flush_interval, ..StreamOptions::default() };
    let stream = TensorStream::create(&dir.path().join("a.tensors"), options).unwrap();
    (dir, stream)
}

fn head(length: u64) -> TensorHead {
    TensorHead {
        name: "x".to_owned(),
        layer: None,
        step: 0,
        token_index: None,
        timestamp_ns: 0,
        dtype: DType::U8,
        shape: vec![length],
    }
}

#[test]
fn what_a_parcel_holds_that_is_still_being_filled_goes_to_who_waits() {
    let (_dir, stream) = stream(Pressure::Block);
    stream.submit(head(3), b"abc").unwrap();
    let memory = &stream.pipe.memory;
    let all = Need { extra: memory.limit_bytes(), ..Need::default() };
    assert!(memory.try_acquire(all).is_none());
    let granted = memory.acquire(all, Some(Duration::from_secs(60)), || stream.pipe.reorder.poke());
    // Memory is free as soon as the batch is written; that it was is counted a moment later, which the end waits for.
    assert!(granted.is_ok());
    drop(granted);
    assert_eq!(stream.finish().unwrap().progress.written_packets, 1);
}

#[test]
fn tensors_without_elements_hold_no_memory_that_spilled_ones_before_them_need() {
    let (_dir, stream) = stream(Pressure::Spill);
    // As if one were being read back.
    stream.pipe.spilled_waiting.fetch_add(1, Ordering::AcqRel);
    stream.submit(head(0), b"").unwrap();
    stream.pipe.seal_now();
    assert_eq!(stream.progress().spilled_packets, 1);
    stream.pipe.spilled_waiting.fetch_sub(1, Ordering::AcqRel);
    assert_eq!(stream.finish().unwrap().progress.written_packets, 1);
}
