//! Full disks, limits and rivals: a clear error, and nothing destroyed.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{head, pattern, skip};
use dwell_events::Hint;
use dwell_files::FileError;
use dwell_tensors::{
    Codec, DirectIo, FileEnd, Handover, Pressure, StreamError, StreamOptions, TensorFile, TensorStream, TensorsError,
    earlier_path, put_back_earlier, recover, verify,
};

const STREAM: &str = "DWELL_TEST_STREAM";

fn options() -> StreamOptions {
    StreamOptions { codec: Codec::None, max_memory_bytes: 8 << 20, flush_bytes: 1 << 20, ..StreamOptions::default() }
}

/// Hands over until an error comes back; the error, and how many tensors were flushed before.
fn fill(path: &Path) -> (TensorsError, u64) {
    let stream = TensorStream::create(path, options()).unwrap();
    let mut flushed = 0;
    for step in 0..10_000 {
        let bytes = pattern(step, 300_000);
        let outcome = stream.submit(head("x", step, bytes.len()), &bytes).map(|_| ());
        let outcome = if step % 10 == 9 { outcome.and_then(|()| stream.flush()) } else { outcome };
        match outcome {
            Ok(()) if step % 10 == 9 => flushed = step + 1,
            Ok(()) => {}
            Err(error) => {
                // It stays failed, and says the same.
                let again = stream.flush().unwrap_err();
                assert_eq!(again.to_string(), error.to_string());
                assert_eq!(stream.finish().unwrap_err().to_string(), error.to_string());
                return (error, flushed);
            }
        }
    }
    panic!("the disk never became full");
}

/// The file ends with a whole batch, and everything that was flushed is there.
fn assert_readable(path: &Path, flushed: u64) {
    let file = TensorFile::open(path).unwrap();
    let FileEnd::Unfinished { whole_bytes, .. } = file.end() else { panic!("it is finished") };
    assert_eq!(*whole_bytes, file.file_bytes());
    assert!(file.packets().len() as u64 >= flushed && flushed > 0);
    for place in 0..file.packets().len() {
        assert_eq!(file.read_elements(place).unwrap(), pattern(place as u64, 300_000));
    }
}

#[test]
fn a_full_disk_keeps_what_was_flushed() {
    let dir = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=20m", "tmpfs"]).arg(dir.path()).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        skip("a_full_disk_keeps_what_was_flushed", "mounting a tmpfs needs root");
        return;
    }
    let path = dir.path().join("a.tensors");
    let outcome = std::panic::catch_unwind(|| {
        let (error, flushed) = fill(&path);
        assert!(matches!(error, TensorsError::File(FileError::NoSpace { .. })), "{error}");
        assert!(error.hints().iter().any(|hint| hint.contains("df -h")), "{:?}", error.hints());
        assert_readable(&path, flushed);
    });
    let _ = Command::new("umount").arg(dir.path()).status();
    outcome.unwrap();
}

#[test]
fn a_disk_smaller_than_one_batch_is_used_nearly_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=20m", "tmpfs"]).arg(dir.path()).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        skip("a_disk_smaller_than_one_batch_is_used_nearly_to_its_end", "mounting a tmpfs needs root");
        return;
    }
    let path = dir.path().join("a.tensors");
    let outcome = std::panic::catch_unwind(|| {
        // As large as by default, and never due by its age.
        let hour = std::time::Duration::from_secs(3600);
        let options = StreamOptions { codec: Codec::None, flush_interval: hour, ..StreamOptions::default() };
        let stream = TensorStream::create(&path, options).unwrap();
        let mut steps = 0..10_000;
        let is_refused = |step| stream.submit(head("x", step, 300_000), &pattern(step, 300_000)).is_err();
        assert!(steps.any(is_refused), "the disk never became full");
        drop(stream);
        assert!(TensorFile::open(&path).unwrap().file_bytes() > 16 << 20);
        assert_readable(&path, 50);
    });
    let _ = Command::new("umount").arg(dir.path()).status();
    outcome.unwrap();
}

#[test]
fn what_is_replaced_is_kept_until_the_new_stream_is_finished() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tensors");
    let begun = |value: u8| {
        let stream = TensorStream::create(&path, options()).unwrap();
        stream.submit(head("x", 0, 10), &[value; 10]).unwrap();
        stream.record_token(i64::from(value), "t").unwrap();
        stream
    };
    let value_of = |path: &Path| TensorFile::open(path).unwrap().read_elements(0).unwrap()[0];
    let names = || {
        let names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect::<std::collections::BTreeSet<_>>()
    };
    begun(1).finish().unwrap();
    let of_one = names();
    // Two that are cut off: the finished one stays.
    drop(begun(2));
    drop(begun(3));
    assert_eq!((value_of(&path), value_of(&earlier_path(&path))), (3, 1));
    assert!(std::fs::read_to_string(dir.path().join("a_tokens.json.earlier")).unwrap().contains("\"token_id\": 1"));
    std::fs::remove_file(&path).unwrap();
    put_back_earlier(&path).unwrap();
    assert_eq!((value_of(&path), names()), (1, of_one.clone()));
    begun(4).finish().unwrap();
    assert_eq!((value_of(&path), names()), (4, of_one));
}

#[test]
fn a_stream_that_finds_no_room_to_begin_leaves_everything_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(dir.path()).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return skip("a_stream_that_finds_no_room_to_begin_leaves_everything_as_it_was", "mounting a tmpfs needs root");
    }
    let (old, new) = (dir.path().join("old.tensors"), dir.path().join("new.tensors"));
    let stream = TensorStream::create(&old, options()).unwrap();
    stream.submit(head("x", 0, 10), &[1; 10]).unwrap();
    stream.finish().unwrap();
    let files = || {
        let files = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        files.map(|file| (file.clone(), std::fs::read(file).unwrap())).collect::<std::collections::BTreeMap<_, _>>()
    };
    // It is cut off where the disk is full.
    let _ = std::fs::write(dir.path().join("ballast"), vec![0; 1 << 20]);
    let before = files();
    for path in [&old, &new] {
        let error = TensorStream::create(path, options()).map(drop).unwrap_err();
        assert!(matches!(error, TensorsError::File(FileError::NoSpace { .. })), "{error}");
    }
    let after = files();
    assert!(Command::new("umount").arg(dir.path()).status().unwrap().success());
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    assert!(after == before, "a file has other content");
}

#[test]
#[ignore = "child process of the test below, which limits it"]
fn limited_process() {
    let path = std::env::var_os(STREAM).unwrap();
    let (error, flushed) = fill(Path::new(&path));
    assert!(error.to_string().contains("File too large"), "{error}");
    assert_readable(Path::new(&path), flushed);
}

#[test]
fn a_limit_of_file_sizes_keeps_what_was_flushed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tensors");
    // 16 MiB in units of 1024 bytes; the signal that comes with the limit would end the process.
    let status = Command::new("bash")
        .args(["-c", "trap '' XFSZ; ulimit -f 16384; exec \"$0\" --ignored --exact limited_process"])
        .arg(std::env::current_exe().unwrap())
        .env(STREAM, &path)
        .status()
        .unwrap();
    assert!(status.success());
    let recovered = recover(&path).unwrap();
    assert!(verify(&path).unwrap().is_sound(), "{recovered:?}");
}

#[test]
fn a_tensor_that_never_fits_is_an_error_or_a_drop() {
    for pressure in [Pressure::Block, Pressure::Spill, Pressure::Drop] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tensors");
        let stream = TensorStream::create(&path, StreamOptions { pressure, ..options() }).unwrap();
        let bytes = vec![1; 9 << 20];
        let outcome = stream.submit(head("wide", 0, bytes.len()), &bytes);
        if pressure == Pressure::Drop {
            assert_eq!(outcome.unwrap(), Handover::Dropped);
        } else {
            let error = outcome.unwrap_err();
            assert!(matches!(&error, TensorsError::Stream(StreamError::TooLarge { name, .. }) if name == "wide"));
            assert!(!error.hints().is_empty());
        }
        // The stream goes on, also with one that nearly fills the memory.
        let bytes = pattern(1, 6 << 20);
        while stream.submit(head("x", 1, bytes.len()), &bytes).unwrap() == Handover::Dropped {}
        stream.submit(head("x", 2, 10), &[2; 10]).unwrap();
        stream.finish().unwrap();
        let file = TensorFile::open(&path).unwrap();
        assert_eq!(file.read_elements(0).unwrap(), bytes);
        assert!(verify(&path).unwrap().is_sound());
    }
}

#[test]
fn one_tensor_after_the_other_may_fill_the_memory() {
    let dir = tempfile::tempdir().unwrap();
    for (pressure, codec) in
        [(Pressure::Block, Codec::None), (Pressure::Block, Codec::Lz4), (Pressure::Spill, Codec::Lz4)]
    {
        let path = dir.path().join("a.tensors");
        let stream = TensorStream::create(&path, StreamOptions { pressure, codec, ..options() }).unwrap();
        let length = if codec == Codec::None { 7_000_000 } else { 3_000_000 };
        for step in 0..12 {
            stream.submit(head("small", step, 100), &pattern(step, 100)).unwrap();
            stream.submit(head("large", step, length), &pattern(step, length)).unwrap();
        }
        let summary = stream.finish().unwrap();
        assert!(summary.progress.peak_memory_bytes <= 8 << 20);
        let file = TensorFile::open(&path).unwrap();
        assert_eq!(file.packets().len(), 24);
        assert_eq!(file.read_elements(23).unwrap(), pattern(11, length));
    }
}

#[test]
fn a_full_spill_file_and_tensors_that_fill_the_memory_still_move() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tensors");
    let options = StreamOptions { pressure: Pressure::Spill, max_spill_bytes: 7 << 20, ..options() };
    let stream = TensorStream::create(&path, options).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let stream = &stream;
            scope.spawn(move || {
                for step in 0..20 {
                    let length = [7_000_000, 50, 40_000, 800_000][(step + thread) as usize % 4];
                    stream.submit(head(&format!("{thread}.{length}"), step, length), &pattern(step, length)).unwrap();
                }
            });
        }
    });
    let summary = stream.finish().unwrap();
    assert!(summary.progress.spilled_packets > 0 && summary.progress.peak_memory_bytes <= 8 << 20, "{summary:?}");
    assert_eq!(TensorFile::open(&path).unwrap().packets().len(), 80);
    assert!(verify(&path).unwrap().is_sound());
}

#[test]
fn two_captures_never_write_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tensors");
    let stream = TensorStream::create(&path, options()).unwrap();
    stream.submit(head("x", 0, 3), &[1, 2, 3]).unwrap();
    for rival in [TensorStream::create(&path, options()).err(), TensorStream::resume(&path, options()).err()] {
        assert!(matches!(rival, Some(TensorsError::Stream(StreamError::Busy { .. }))), "{rival:?}");
    }
    stream.finish().unwrap();
    assert_eq!(TensorFile::open(&path).unwrap().read_elements(0).unwrap(), [1, 2, 3]);
}

#[test]
fn what_is_no_tensor_is_refused_and_takes_no_number() {
    let dir = tempfile::tempdir().unwrap();
    let stream = TensorStream::create(&dir.path().join("a.tensors"), options()).unwrap();
    let mut many_dimensions = head("x", 0, 1);
    many_dimensions.shape = vec![1; 65];
    let mut endless = head("x", 0, 1);
    endless.shape = vec![u64::MAX, 2];
    for (head, bytes) in [
        (head("x", 0, 4), &[0; 3][..]),
        (many_dimensions, &[0]),
        (endless, &[0]),
        (head(&"n".repeat(65_536), 0, 1), &[0]),
    ] {
        let error = stream.submit(head, bytes).unwrap_err();
        assert!(matches!(error, TensorsError::UnfitTensor { .. }), "{error}");
    }
    assert!(stream.record_token(1, &"t".repeat(65_536)).is_err());
    assert_eq!((stream.progress().packets, stream.progress().tokens), (0, 0));
    stream.finish().unwrap();
}

#[test]
fn options_that_cannot_work_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tensors");
    for options in [
        StreamOptions { max_memory_bytes: 1000, ..options() },
        StreamOptions { checkpoint_path: Some(path.clone()), ..options() },
    ] {
        let error = TensorStream::create(&path, options).err().unwrap();
        assert!(matches!(error, TensorsError::Stream(StreamError::UnfitOption { .. })), "{error}");
    }
    assert!(!path.exists());
    let nowhere = TensorStream::create(&dir.path().join("no/a.tensors"), options()).err().unwrap();
    assert!(matches!(nowhere, TensorsError::File(FileError::NotFound { .. })), "{nowhere}");
}

#[test]
fn a_little_memory_and_no_direct_writes_do_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tensors");
    let options = StreamOptions { max_memory_bytes: 1 << 20, direct_io: DirectIo::Off, ..options() };
    let stream = TensorStream::create(&path, options).unwrap();
    for step in 0..200 {
        let bytes = pattern(step, (step * step * 10) as usize);
        stream.submit(head("x", step, bytes.len()), &bytes).unwrap();
    }
    let summary = stream.finish().unwrap();
    assert!(!summary.used_direct_io && summary.progress.peak_memory_bytes <= 1 << 20);
    assert!(verify(&path).unwrap().is_sound());
}

#[test]
fn a_dropped_tensor_that_no_file_can_hold_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tensors");
    let stream = TensorStream::create(&path, StreamOptions { pressure: Pressure::Drop, ..options() }).unwrap();
    let mut large = head("large", 0, 1);
    large.shape = vec![1 << 63];
    for _ in 0..3 {
        assert_eq!(stream.count_dropped(&large).unwrap(), Handover::Dropped);
    }
    large.shape.push(2);
    assert!(matches!(stream.count_dropped(&large), Err(TensorsError::UnfitTensor { .. })));
    let unnamed = stream.count_dropped(&head(&"x".repeat(1 << 16), 0, 1));
    assert!(matches!(unnamed, Err(TensorsError::UnfitTensor { .. })));
    stream.finish().unwrap();
    assert_eq!(TensorFile::open(&path).unwrap().dropped()["large"], (3, u64::MAX));
    assert!(verify(&path).unwrap().is_sound());
}

#[test]
fn a_stream_that_says_too_much_about_itself_is_not_begun() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tensors");
    let saying =
        |length: usize| StreamOptions { metadata: [("prompt".to_owned(), "x".repeat(length))].into(), ..options() };
    let refused = TensorStream::create(&path, saying(32 << 20)).err();
    assert!(matches!(refused, Some(TensorsError::Stream(StreamError::UnfitOption { option: "metadata", .. }))));
    TensorStream::create(&path, saying((32 << 20) - 100)).unwrap().finish().unwrap();
    assert_eq!(TensorFile::open(&path).unwrap().metadata()["prompt"].len(), (32 << 20) - 100);
}
