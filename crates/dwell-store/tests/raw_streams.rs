//! What a raw stream gives back, however it ended.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema};
use dwell_events::schema::memory::{self, MemoryRow};
use dwell_files::FileError;
use dwell_store::{RawCompression, RawReader, RawWriter, RecordsBuilder, StoreError, StreamEnd, records_schema};

fn records(first: u64, count: u64) -> RecordBatch {
    let mut builder = RecordsBuilder::new();
    for sequence in first..first + count {
        builder.push(sequence, 7, sequence * 10, &sequence.to_le_bytes()[..(sequence % 9) as usize]);
    }
    builder.finish_batch()
}

/// Rows of the memory table have a dictionary column, whose dictionaries are messages of their own.
fn samples(label: &str) -> RecordBatch {
    memory::batch(&[MemoryRow { label: label.to_owned(), pid: 3, ..MemoryRow::default() }])
}

/// Writes the batches and returns where each ends, the header first.
fn write_stream(path: &Path, batches: &[RecordBatch], compression: RawCompression) -> Vec<u64> {
    let mut writer = RawWriter::create(path, batches[0].schema(), compression).unwrap();
    let mut ends = vec![writer.stream_bytes()];
    for batch in batches {
        writer.write(batch).unwrap();
        ends.push(writer.stream_bytes());
    }
    writer.finish().unwrap();
    ends
}

fn read_all(path: &Path) -> (Vec<RecordBatch>, StreamEnd) {
    let mut reader = RawReader::open(path).unwrap();
    let batches = reader.by_ref().collect::<Result<_, _>>().unwrap();
    (batches, reader.end().unwrap())
}

#[test]
fn a_finished_stream_gives_back_what_was_written() {
    for compression in [RawCompression::None, RawCompression::Zstd] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("records.arrows");
        let batches = [records(0, 100), records(100, 1), records(101, 5000)];
        write_stream(&path, &batches, compression);
        assert_eq!(read_all(&path), (batches.to_vec(), StreamEnd::Finished));
    }
}

#[test]
fn a_stream_cut_anywhere_gives_back_every_whole_batch() {
    for batches in [vec![records(0, 5), records(5, 9), records(14, 1)], vec![samples("a"), samples("b")]] {
        let dir = tempfile::tempdir().unwrap();
        let whole = dir.path().join("whole.arrows");
        let cut = dir.path().join("cut.arrows");
        let ends = write_stream(&whole, &batches, RawCompression::None);
        let bytes = fs::read(&whole).unwrap();
        for cut_at in 0..bytes.len() {
            fs::write(&cut, &bytes[..cut_at]).unwrap();
            if (cut_at as u64) < ends[0] {
                assert!(matches!(RawReader::open(&cut), Err(StoreError::TruncatedHeader { .. })), "cut at {cut_at}");
                continue;
            }
            let expected = ends[1..].iter().filter(|&&end| end <= cut_at as u64).count();
            let bytes_dropped = cut_at as u64 - ends[expected];
            let expected_end = match bytes_dropped {
                0 => StreamEnd::Open,
                _ => StreamEnd::Truncated { whole_batches: expected as u64, bytes_dropped },
            };
            assert_eq!(read_all(&cut), (batches[..expected].to_vec(), expected_end), "cut at {cut_at}");
        }
    }
}

#[test]
fn zeros_left_by_a_power_failure_are_dropped_like_a_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("records.arrows");
    let batches = [records(0, 5), records(5, 9)];
    let ends = write_stream(&path, &batches, RawCompression::None);
    let mut bytes = fs::read(&path).unwrap();
    bytes.truncate(ends[1] as usize);
    bytes.resize(ends[1] as usize + 4096, 0);
    fs::write(&path, bytes).unwrap();
    let (found, end) = read_all(&path);
    assert_eq!(found, batches[..1]);
    assert_eq!(end, StreamEnd::Truncated { whole_batches: 1, bytes_dropped: 4096 });
}

#[test]
fn a_cut_stream_can_be_continued_after_its_last_whole_batch() {
    for cut_bytes in [1, 8, 9, 200] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory.arrows");
        write_stream(&path, &[samples("a"), samples("b")], RawCompression::None);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - cut_bytes]).unwrap();
        let kept = read_all(&path).0;
        let mut writer = RawWriter::append(&path, RawCompression::None).unwrap();
        writer.write(&samples("c")).unwrap();
        writer.finish().unwrap();
        let expected = [kept, vec![samples("c")]].concat();
        assert_eq!(read_all(&path), (expected, StreamEnd::Finished));
    }
}

#[test]
fn a_damaged_batch_is_named_and_the_batches_behind_it_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("records.arrows");
    let batches = [records(0, 50), records(50, 50), records(100, 50)];
    let ends = write_stream(&path, &batches, RawCompression::None);
    let mut bytes = fs::read(&path).unwrap();
    // Near its end a batch holds its payload's offsets and payload; offsets of 0xff.. point nowhere.
    let inside = (ends[2] - 700) as usize;
    bytes[inside..inside + 300].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let found: Vec<_> = RawReader::open(&path).unwrap().collect();
    assert_eq!(found.len(), 3);
    assert!(
        matches!(found[1], Err(StoreError::DamagedBatch { batch_index: 1, offset_bytes, .. }) if offset_bytes == ends[1])
    );
    assert_eq!(found[2].as_ref().unwrap(), &batches[2]);
}

#[test]
fn a_changed_byte_anywhere_never_gives_another_batch() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("records.arrows");
    for compression in [RawCompression::None, RawCompression::Zstd] {
        for batches in [vec![records(0, 20), records(20, 3)], vec![samples("a"), samples("b")]] {
            let _ = fs::remove_file(&path);
            write_stream(&path, &batches, compression);
            let original = fs::read(&path).unwrap();
            for at in (0..original.len()).step_by(11) {
                for value in [[0x00, 0x7f, 0xff][at % 3], original[at] ^ 1 << (at % 8)] {
                    let mut bytes = original.clone();
                    bytes[at] = value;
                    fs::write(&path, &bytes).unwrap();
                    let Ok(reader) = RawReader::open(&path) else { continue };
                    // A dictionary whose type was changed counts as a batch that cannot be read.
                    let read: Vec<_> = reader.collect();
                    assert!(read.len() <= 2 * batches.len());
                    assert!(read.iter().flatten().all(|batch| batches.contains(batch)), "byte {at} is {value}");
                }
            }
        }
    }
}

#[test]
fn a_file_of_another_kind_is_refused_as_a_damaged_header() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("records.arrows");
    fs::write(&path, b"timestamp,label,pid\n").unwrap();
    let error = RawReader::open(&path).err().unwrap();
    assert!(matches!(error, StoreError::DamagedHeader { .. }), "{error}");
}

#[test]
fn a_schema_that_could_not_be_read_back_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nested.arrows");
    let list = DataType::List(Arc::new(Field::new("item", DataType::Int32, false)));
    let schema = Arc::new(Schema::new(vec![Field::new("list", list, false)]));
    let error = RawWriter::create(&path, schema, RawCompression::None).err().unwrap();
    assert!(matches!(error, StoreError::UnfitBatch { .. }), "{error}");
    assert!(!path.exists());
}

#[test]
fn a_stream_that_exists_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("records.arrows");
    write_stream(&path, &[records(0, 1)], RawCompression::None);
    let error = RawWriter::create(&path, records_schema(), RawCompression::None).err().unwrap();
    assert!(matches!(error, StoreError::File(FileError::Exists { .. })), "{error}");
}

#[test]
fn a_batch_with_other_columns_is_refused_and_the_stream_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("records.arrows");
    let mut writer = RawWriter::create(&path, records_schema(), RawCompression::None).unwrap();
    assert!(matches!(writer.write(&samples("a")), Err(StoreError::UnfitBatch { .. })));
    writer.write(&records(0, 2)).unwrap();
    writer.finish().unwrap();
    assert_eq!(read_all(&path), (vec![records(0, 2)], StreamEnd::Finished));
}

#[test]
fn what_was_flushed_is_readable_while_the_writer_lives() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("records.arrows");
    let mut writer = RawWriter::create(&path, records_schema(), RawCompression::None).unwrap();
    writer.write(&records(0, 3)).unwrap();
    writer.flush().unwrap();
    assert_eq!(read_all(&path), (vec![records(0, 3)], StreamEnd::Open));
}
