//! Captures of memray with known records, whole, cut, changed and lying.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/counting_allocator.rs"]
mod counting_allocator;

use dwell_decode::error::{DecodeError, DecodeReason};
use dwell_decode::memray::{
    AllocationSite, Allocator, AllocatorCall, CaptureForm, CaptureRecord, Heap, MemorySample, MemrayCapture,
};
use dwell_decode::testing::memray::{CaptureFile, START_UNIX_MS};
use proptest::prelude::*;

/// Two threads, functions that call each other, native frames, samples, and each way to state an address.
fn made(version: u32, has_native_stacks: bool) -> CaptureFile {
    let mut file = CaptureFile { version, has_native_stacks, ..CaptureFile::default() };
    file.mappings_begin();
    file.image("/usr/lib/libc.so.6", 0x7f00_0000_0000, 0x1000, 0x5000);
    file.thread(0x7001);
    file.code(1, "main", "serve.py", 10);
    // Three code units in line 20, the rest in line 22.
    file.code_with_lines(2, "Model.load", "model.py", 20, &[0xea, 0, 0xef, 4, 0xef, 0]);
    file.function_called(1, 0, true);
    file.function_called(2, 4, false);
    file.native_frame(0x7f00_0000_1001, 0);
    file.native_frame(0x7f00_0000_2000, 1);
    file.call(Allocator::Malloc, 0x1000, 100, 2);
    file.memory(10, 5 << 20);
    file.call(Allocator::PosixMemalign, 0x2000, 4096, 1);
    file.call_at_recent(Allocator::Free, 1, 0, 0);
    file.functions_return(1);
    file.function_called(2, 6, false);
    file.thread(0x7002);
    file.thread_name("worker");
    file.object_made(0x3000);
    file.call_at_recent(Allocator::Calloc, 2, 64, 0);
    file.memory(20, 6 << 20);
    file.call(Allocator::Mmap, 0x7fff_0000_0000, 8192, 0);
    file.call_at_recent(Allocator::Munmap, 0, 4096, 0);
    file.thread(0x7001);
    file.call(Allocator::PymallocMalloc, 0x4000, 24, 0);
    file
}

fn made_sums() -> CaptureFile {
    let mut file = CaptureFile { has_sums: true, ..CaptureFile::default() };
    file.memory_with_heap(10, 5 << 20, 1000);
    file.thread(0x7001);
    file.thread_name("worker");
    file.code(7, "main", "serve.py", 10);
    file.code(8, "load", "serve.py", 5);
    file.frame(0, 7, 0, true);
    file.frame(1, 8, 2, false);
    file.stack(0, 0);
    file.stack(1, 1);
    file.site(0x7001, Allocator::Malloc, 2, (3, 300), (1, 100));
    file.site(0x7001, Allocator::Mmap, 0, (1, 8192), (0, 0));
    file
}

/// Everything before the end or the first error, in words, and that error.
fn read(bytes: &[u8]) -> (Vec<String>, Option<DecodeError>) {
    let mut capture = match MemrayCapture::open(bytes) {
        Ok(capture) => capture,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut found = Vec::new();
    loop {
        match capture.next_record() {
            Ok(Some(record)) => found.push(in_words(&capture, record)),
            Ok(None) => return (found, None),
            Err(error) => return (found, Some(error)),
        }
    }
}

fn in_words(capture: &MemrayCapture<&[u8]>, record: CaptureRecord) -> String {
    match record {
        CaptureRecord::Call(AllocatorCall { thread_id, allocator, address, size_bytes, stack, native_stack }) => {
            let size = size_bytes.map_or_else(String::new, |size| format!(" {size}"));
            let thread = capture.thread_name(thread_id).unwrap_or("main");
            let place = stack.and_then(|stack| capture.location(stack));
            let place = place.map_or_else(String::new, |it| format!(" in {}:{}", it.function, it.line.unwrap_or(0)));
            let native = native_stack.map_or_else(String::new, |id| format!(" from {id}"));
            format!("{thread} {} {address:x}{size}{place}{native}", allocator.name())
        }
        CaptureRecord::Memory(MemorySample { unix_ms, rss_bytes, heap_bytes }) => {
            format!("after {} ms {} MiB {heap_bytes:?}", unix_ms - START_UNIX_MS, rss_bytes >> 20)
        }
        CaptureRecord::Stack(stack) => {
            let place = capture.location(stack).unwrap();
            let (line, entry) = (place.line.unwrap_or(0), if place.is_entry { ", entered" } else { "" });
            format!("{:?} -> {stack} {} {}:{line}{entry}", capture.parent(stack), place.function, place.file)
        }
        CaptureRecord::NativeFrame(frame) => {
            let place = frame.place.map(|place| format!("{}+{:x}", capture.image_name(place.image), place.address));
            format!("{:?} -> {} {}", frame.parent, frame.id, place.unwrap_or_default())
        }
        CaptureRecord::Site(AllocationSite { allocator, stack, peak_bytes, leaked_allocations, .. }) => {
            format!("{} of {stack:?}: {peak_bytes} at the peak, {leaked_allocations} left", allocator.name())
        }
    }
}

#[test]
fn every_record_of_a_capture_is_read() {
    let expected = [
        "None -> 1 main serve.py:10, entered",
        "Some(1) -> 2 Model.load model.py:20",
        "None -> 1 /usr/lib/libc.so.6+1000",
        "Some(1) -> 2 /usr/lib/libc.so.6+1fff",
        "main malloc 1000 100 in Model.load:20 from 2",
        "after 10 ms 5 MiB None",
        "main posix_memalign 2000 4096 in Model.load:20 from 1",
        "main free 1000",
        "Some(1) -> 3 Model.load model.py:22",
        "worker calloc 1000 64",
        "after 20 ms 6 MiB None",
        "worker mmap 7fff00000000 8192",
        "worker munmap 7fff00000000 4096",
        "main pymalloc_malloc 4000 24 in Model.load:22",
    ];
    for version in [12, 13] {
        let (found, error) = read(&made(version, true).file());
        assert_eq!(found, expected);
        assert!(error.is_none(), "{error:?}");
    }
    let (without_native, error) = read(&made(13, false).file());
    assert!(error.is_none(), "{error:?}");
    let expected: Vec<String> = expected.iter().map(|line| line.split(" from ").next().unwrap().to_owned()).collect();
    assert_eq!(without_native, expected);
    assert_eq!(read(&made(13, true).compressed().unwrap()).0, read(&made(13, true).file()).0);
}

#[test]
fn sums_are_read_with_their_stacks() {
    let (found, error) = read(&made_sums().file());
    let expected = [
        "after 10 ms 5 MiB Some(1000)",
        "None -> 1 main serve.py:10, entered",
        "Some(1) -> 2 load serve.py:5",
        "malloc of Some(2): 300 at the peak, 1 left",
        "mmap of None: 8192 at the peak, 0 left",
    ];
    assert_eq!(found, expected);
    assert!(error.is_none(), "{error:?}");
}

#[test]
fn the_header_says_what_ran() {
    let file = CaptureFile { stated_calls: 7, ..made(13, true) };
    let bytes = file.compressed().unwrap();
    let capture = MemrayCapture::open(&bytes[..]).unwrap();
    let header = capture.header();
    assert_eq!((header.version, header.is_compressed, header.form), (13, true, CaptureForm::Calls));
    assert_eq!((header.python_version_text().as_str(), header.pid), ("3.11.7", 4242));
    assert_eq!((header.stated_calls, header.frames_of_memray, header.main_thread_id), (7, 3, 1));
    assert_eq!(header.command_line, "python3 serve.py");
    assert_eq!((header.start_unix_ms, header.end_unix_ms), (START_UNIX_MS, START_UNIX_MS + 1000));
    assert_eq!(header.python_allocator.name(), "pymalloc");
}

#[test]
fn a_capture_cut_anywhere_gives_what_came_before() {
    let forms =
        [made(13, true).file(), made(12, false).file(), made_sums().file(), made(13, true).compressed().unwrap()];
    for bytes in forms {
        let (all, error) = read(&bytes);
        assert!(error.is_none() && all.len() >= 5);
        let mut most = 0;
        for length in 0..bytes.len() {
            let (found, error) = read(&bytes[..length]);
            assert_eq!(found, all[..found.len()], "cut at {length}");
            assert!(found.len() >= most, "cut at {length}: fewer records than of less");
            most = found.len();
            // Behind the trailer, a compressed capture has four bytes more that nobody misses.
            match error {
                Some(error) => assert!(error.is_truncation(), "cut at {length}: {error}"),
                None => assert!(found == all && length + 4 >= bytes.len(), "cut at {length}: nobody noticed"),
            }
        }
    }
}

#[test]
fn the_file_of_a_killed_process_ends_with_zeros_that_are_no_records() {
    let file = made(13, true);
    let whole = read(&file.file()).0;
    let (found, error) = read(&file.killed());
    assert_eq!(found, whole);
    assert_eq!(
        error.unwrap().to_string(),
        format!("the recording ends within its records (at byte {} of the recording)", file.unfinished().len())
    );
    // Killed within a record, whose bytes that were not written are zeros, too.
    let unfinished = file.unfinished();
    for length in unfinished.len() - 12..unfinished.len() {
        let mut killed = unfinished[..length].to_vec();
        killed.resize(8192, 0);
        let (found, error) = read(&killed);
        assert!(error.unwrap().is_truncation());
        assert_eq!(found, whole[..found.len()], "killed at {length}");
    }
}

fn refusal(bytes: &[u8]) -> String {
    read(bytes).1.expect("an error").to_string()
}

#[test]
fn what_is_no_capture_is_refused_with_the_reason() {
    let not = "no capture of memray: it does not begin with the word memray (at byte 0 of the recording)";
    assert_eq!(refusal(b"PERFILE2 and so on"), not);
    assert_eq!(refusal(b""), "the recording ends within its header (at byte 0 of the recording)");
    for version in [11, 14] {
        let text = refusal(&made(version, false).file());
        let expected = format!(
            "a capture of memray in version {version} of its format, and versions 12 to 13 are read (memray 1.19 and 1.20)"
        );
        assert!(text.starts_with(&expected), "{text}");
    }
    let mut form = made(13, false).file();
    form[16] = 2;
    assert!(refusal(&form).starts_with("its header states the form 2"));
}

/// A capture with these bytes behind a first thread.
fn with_records(bytes: &[u8]) -> Vec<u8> {
    let mut file = CaptureFile::default();
    file.thread(1);
    file.records.extend(bytes);
    file.file()
}

#[test]
fn records_that_contradict_each_other_are_refused() {
    assert!(refusal(&with_records(&[9])).starts_with("a record of the unknown kind 9"));
    assert!(refusal(&with_records(&[0, 1])).starts_with("a record of the unknown kind 0"));
    assert!(refusal(&with_records(&[0b1111_1000, 0, 16])).starts_with("a call of the unknown allocator 16"));
    assert!(refusal(&with_records(&[16 | 3])).starts_with("4 functions return on a thread that is in 0"));
    let mut native = CaptureFile { has_native_stacks: true, ..CaptureFile::default() };
    native.thread(1);
    native.call(Allocator::Malloc, 8, 8, 5);
    assert!(refusal(&native.file()).starts_with("the native frame 5, which did not come before"));
    let mut homeless = CaptureFile::default();
    homeless.call(Allocator::Malloc, 8, 8, 0);
    assert!(refusal(&homeless.file()).starts_with("a record of a thread before any thread was named"));
    let mut sums = CaptureFile { has_sums: true, ..CaptureFile::default() };
    sums.stack(3, 0);
    assert!(refusal(&sums.file()).starts_with("a stack of frames that did not come before it"));
    let mut sums = CaptureFile { has_sums: true, ..CaptureFile::default() };
    sums.site(1, Allocator::Malloc, 1, (1, 1), (0, 0));
    assert!(refusal(&sums.file()).starts_with("sums of the stack 1, which did not come before"));
    let mut sums = made_sums();
    sums.frame(0, 99, 0, true);
    assert!(refusal(&sums.file()).starts_with("the frame 0 stands where frame 2 should"));
}

#[test]
fn lengths_that_lie_take_no_memory() {
    // A line table of 2⁶³ bytes, one of 16 MB that is not there, and a file with 2⁶³ segments.
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    let table = |length: &[u8]| with_records(&[&[14, 1, b'f', 0, b'p', 0, 2], length].concat());
    assert!(matches!(
        read(&table(&huge)).1.unwrap().reason,
        DecodeReason::TooMany { what: "bytes of a line table", limit: 16_777_216, .. }
    ));
    let (error, peak) = counting_allocator::most_held_during(|| read(&table(&[0xff, 0xff, 0xff, 0x07])).1.unwrap());
    assert!(error.is_truncation() && peak < 2 << 20, "{error} {peak}");
    let image = with_records(&[&[7, b'l', 0][..], &huge, &[0; 8]].concat());
    assert!(matches!(read(&image).1.unwrap().reason, DecodeReason::TooMany { what: "segments of a file", .. }));
    // A text without an end.
    let endless = with_records(&[&[10][..], &[b'x'; 100_000]].concat());
    assert!(matches!(read(&endless).1.unwrap().reason, DecodeReason::TooMany { what: "bytes of a text", .. }));
}

#[test]
fn a_capture_that_is_gigabytes_takes_little_memory() {
    // Zeros, which are no records: only the first block of them is ever looked at.
    let mut file = CaptureFile::default();
    file.thread(1);
    for _ in 0..3 {
        file.records.extend(vec![0x11; 8 << 20]);
    }
    let compressed = file.compressed().unwrap();
    let (text, peak) = counting_allocator::most_held_during(|| refusal(&compressed));
    assert!(text.starts_with("2 functions return on a thread that is in 0"), "{text}");
    assert!(peak < 12 << 20, "{peak}");
}

#[test]
fn the_heap_is_what_was_not_freed() {
    let bytes = made(13, true).file();
    let mut capture = MemrayCapture::open(&bytes[..]).unwrap();
    let mut heap = Heap::default();
    let mut freed = Vec::new();
    while let Some(record) = capture.next_record().unwrap() {
        if let CaptureRecord::Call(call) = record {
            freed.extend(heap.take(&call));
        }
    }
    assert_eq!(freed, [100, 4096]);
    assert_eq!((heap.bytes(), heap.peak_bytes()), (Some(4096 + 64 + 4096 + 24), Some(4096 + 64 + 8192)));
    let counts = capture.counts();
    assert_eq!((counts.allocations, counts.frees, counts.memory_samples, counts.objects), (5, 2, 2, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn changed_bytes_never_panic_and_take_little_memory(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        form in 0..4,
    ) {
        let mut bytes = match form {
            0 => made(13, true).file(),
            1 => made(12, false).file(),
            2 => made_sums().file(),
            _ => made(13, false).compressed().unwrap(),
        };
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let (_, peak) = counting_allocator::most_held_during(|| read(&bytes).0.len());
        // The frame of a compressed capture states blocks of up to 8 MiB.
        prop_assert!(peak < 32 << 20, "{peak}");
    }
}
