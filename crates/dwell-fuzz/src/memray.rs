//! Captures of memray, with stacks and what is allocated.

use dwell_decode::memray::{CaptureRecord, Heap, MemrayCapture};

pub(crate) fn run(bytes: &[u8]) {
    let Ok(mut capture) = MemrayCapture::open(bytes) else { return };
    let (mut heap, mut calls) = (Heap::default(), 0);
    while let Ok(Some(record)) = capture.next_record() {
        match record {
            CaptureRecord::Call(call) => {
                heap.take(&call);
                calls += 1;
                assert!(call.stack.is_none_or(|stack| capture.location(stack).is_some()));
            }
            CaptureRecord::Stack(stack) => assert!(capture.parent(stack).is_none_or(|parent| parent < stack)),
            CaptureRecord::NativeFrame(frame) => {
                assert!(frame.parent.is_none_or(|parent| parent < frame.id));
                frame.place.map(|place| capture.image_name(place.image).len());
            }
            CaptureRecord::Memory(_) | CaptureRecord::Site(_) => {}
        }
    }
    assert_eq!(capture.counts().allocations + capture.counts().frees, calls);
    assert!(heap.peak_bytes() >= heap.bytes());
}
