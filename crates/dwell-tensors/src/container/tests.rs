use std::path::Path;

use dwell_codec::{Bound, Codec, DType, Encoded};
use proptest::prelude::*;

use super::*;
use crate::testing::{Made, at, dropped, python, run_python, stream_bytes, tensor, two_batches};
use crate::{
    FileEnd, TensorFile, TensorHead, TensorsError, TokenMark, diff, export_safetensors, reencode, stats, verify,
};

#[test]
fn everything_comes_back_from_the_index_and_from_the_batches() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, ends) = stream_bytes(&two_batches());
    assert!(ends.iter().all(|end| end % PAGE_BYTES == 0) && bytes.len() % PAGE_BYTES == 0);
    let path = at(&dir, &bytes);
    let indexed = TensorFile::open(&path).unwrap();
    let scanned = TensorFile::open_scanned(&path).unwrap();
    assert!(indexed.is_finished() && !scanned.is_finished());
    assert_eq!(indexed.packets(), scanned.packets());
    assert_eq!(indexed.batches(), scanned.batches());
    assert_eq!(indexed.tokens(), scanned.tokens());
    assert_eq!(indexed.dropped_rows(), scanned.dropped_rows());
    assert_eq!(indexed.metadata()["model"], "tiny");
    assert_eq!(indexed.dropped()["lost"], (1, 10));
    assert_eq!(indexed.names(), ["model.layers.0", "scalar", "empty", "lost", "zeros"]);
    assert_eq!(indexed.find("zeros", Some(1)), [3]);
    assert_eq!(indexed.find("zeros", Some(2)), [] as [usize; 0]);
    for (place, (row, payload)) in
        two_batches().into_iter().flatten().filter(|(row, _)| row.head().is_some()).enumerate()
    {
        let stored = scanned.read(place).unwrap();
        assert_eq!(Some(&stored.head), row.head());
        assert_eq!(Some(&stored.encoded), row.encoded());
        assert_eq!(stored.payload, payload);
    }
    assert_eq!(indexed.read_elements(3).unwrap(), [0; 300]);
    assert_eq!(indexed.read_elements(1).unwrap(), 1.5_f64.to_le_bytes());
}

#[test]
fn a_file_cut_anywhere_gives_every_whole_batch() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, ends) = stream_bytes(&two_batches());
    let packets_by_batches = [0, 2, 4];
    for length in 0..bytes.len() {
        let path = at(&dir, &bytes[..length]);
        let whole = ends.iter().take_while(|end| **end <= length).count();
        match TensorFile::open(&path) {
            Err(_) => assert_eq!(whole, 0, "cut at {length}"),
            Ok(file) => {
                assert_eq!(file.packets().len(), packets_by_batches[whole - 1], "cut at {length}");
                let FileEnd::Unfinished { whole_bytes, .. } = file.end() else { panic!("cut at {length}") };
                assert_eq!(*whole_bytes, ends[whole - 1] as u64, "cut at {length}");
            }
        }
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, _) = stream_bytes(&two_batches());
    assert!(verify(&at(&dir, &bytes)).unwrap().is_sound());
    // Of long stretches of zeros, which are padding, some are enough.
    let is_padding = |place: usize| bytes[place.saturating_sub(16)..].iter().take(32).all(|byte| *byte == 0);
    for place in (0..bytes.len()).filter(|&place| place % 61 == 0 || !is_padding(place)) {
        let mut flipped = bytes.clone();
        flipped[place] ^= 1 << (place % 8);
        let path = at(&dir, &flipped);
        let is_noticed = verify(&path).map_or(true, |report| !report.is_sound());
        assert!(is_noticed, "byte {place} of {}", bytes.len());
    }
}

/// Somebody who changes a file can also mend its checksums.
#[test]
fn a_changed_batch_with_the_right_checksum_is_an_error_or_another_batch() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, ends) = stream_bytes(&two_batches());
    let metadata = schema::metadata_bytes(&bytes[ends[0]..]).unwrap();
    let columns_start = ends[0] + 8 + metadata;
    let columns_end = columns_start + batch::BatchLayout::of(&bytes[ends[0]..columns_start]).unwrap().columns_bytes;
    let mut noticed = 0;
    for place in ends[0] + 8..columns_end {
        let change = [0x01, 0x80, 0xff][place % 3];
        let mut changed = bytes[..ends[2]].to_vec();
        changed[place] ^= change;
        let (message, columns) = changed[ends[0]..columns_end].split_at_mut(columns_start - ends[0]);
        seal(message, columns);
        let path = at(&dir, &changed);
        let file = TensorFile::open(&path).unwrap();
        (0..file.packets().len()).for_each(|packet| drop(file.read_elements(packet)));
        noticed += usize::from(file.packets().len() < 4);
    }
    assert!(noticed > 300, "{noticed}");
}

/// Nothing would look at what lies there.
#[test]
fn a_batch_with_a_page_behind_its_payloads_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let (mut bytes, ends) = stream_bytes(&two_batches());
    bytes.truncate(ends[2]);
    let columns_start = ends[1] + 8 + schema::metadata_bytes(&bytes[ends[1]..]).unwrap();
    let layout = batch::BatchLayout::of(&bytes[ends[1]..columns_start]).unwrap();
    let body_bytes = (ends[2] - columns_start) as u64;
    let place = bytes[ends[1]..columns_start].windows(8).position(|window| window == body_bytes.to_le_bytes()).unwrap();
    let longer = body_bytes + PAGE_BYTES as u64;
    bytes[ends[1] + place..][..8].copy_from_slice(&longer.to_le_bytes());
    let head = &mut bytes[ends[1]..columns_start + layout.columns_bytes];
    let (message, columns) = head.split_at_mut(columns_start - ends[1]);
    seal(message, columns);
    bytes.resize(ends[2] + PAGE_BYTES, 0x55);
    let file = TensorFile::open(&at(&dir, &bytes)).unwrap();
    assert_eq!(file.packets().len(), 2);
    let FileEnd::Unfinished { reason, .. } = file.end() else { panic!() };
    assert!(reason.contains("bytes behind its payloads"), "{reason}");
}

#[test]
fn another_version_is_said_to_be_one_whatever_its_columns() {
    let dir = tempfile::tempdir().unwrap();
    let (mut bytes, _) = stream_bytes(&two_batches());
    for (from, to) in [(&b"\x01\0\0\x002\0"[..], &b"\x01\0\0\x003\0"[..]), (b"packet", b"pocket")] {
        let place = bytes.windows(from.len()).position(|window| window == from).unwrap();
        bytes[place..][..to.len()].copy_from_slice(to);
        let found = TensorFile::open(&at(&dir, &bytes)).err();
        assert!(matches!(&found, Some(TensorsError::OtherVersion { found, .. }) if found == "3"), "{found:?}");
    }
}

/// Changed with its checksum, as above: an index is believed where it is whole.
#[test]
fn a_changed_index_with_the_right_checksum_is_none_or_another_index() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, ends) = stream_bytes(&two_batches());
    let original = TensorFile::open(&at(&dir, &bytes)).unwrap();
    let plain = index_bytes::index_to_bytes(original.index());
    let mut believed = 0;
    for place in 0..plain.len() {
        let mut changed = plain.clone();
        changed[place] ^= [0x01, 0x80, 0xff][place % 3];
        let index = index_bytes::index_from_bytes(&changed, ends[2] as u64, true);
        // Bytes of a cell that has no value stand for nothing.
        let Some(index) = index.filter(|index| !index.is_same(original.index())) else { continue };
        let mut file = bytes[..ends[2]].to_vec();
        file.extend_from_slice(&footer::sealed_footer(&index));
        let path = at(&dir, &file);
        let opened = TensorFile::open(&path).unwrap();
        assert!(opened.is_finished(), "byte {place}");
        assert!(!verify(&path).unwrap().is_sound(), "byte {place}");
        (0..opened.packets().len()).for_each(|packet| drop(opened.read_elements(packet)));
        let (copy, packets) = (dir.path().join("copy"), opened.packets().len() as u64);
        assert_eq!(stats(&opened).total.packets, packets);
        drop(diff(&original, &opened, 0.0));
        drop(export_safetensors(&opened, &copy, |_| true));
        drop(reencode(&opened, &copy, Codec::Float));
        believed += 1;
    }
    assert!(believed > 100, "{believed}");
}

#[test]
fn an_empty_stream_is_a_stream() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, _) = stream_bytes(&[]);
    let file = TensorFile::open(&at(&dir, &bytes)).unwrap();
    assert!(file.is_finished() && file.packets().is_empty() && file.batches().is_empty());
}

#[test]
fn seventy_thousand_names_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("many.tensors");
    let mut writer = RowWriter::create(&path, &Default::default()).unwrap();
    for number in 0..70_000_u64 {
        let bytes = (number as u32).to_le_bytes();
        let (row, payload) = tensor(number, &format!("tensor.{number}"), Codec::None, DType::U32, &[1], &bytes);
        writer.push(row, &payload).unwrap();
    }
    writer.finish().unwrap();
    for file in [TensorFile::open(&path).unwrap(), TensorFile::open_scanned(&path).unwrap()] {
        assert_eq!(file.names().len(), 70_000);
        let found = file.find("tensor.69999", None);
        assert_eq!(found, [69_999]);
        assert_eq!(file.read_elements(found[0]).unwrap(), 69_999_u32.to_le_bytes());
    }
}

#[test]
fn a_stream_of_drops_under_long_names_is_finished() {
    let dir = tempfile::tempdir().unwrap();
    let rows = (0..500).map(|number| dropped(&format!("{number:0>300}"), 1)).collect();
    let file = TensorFile::open(&at(&dir, &stream_bytes(&[rows]).0)).unwrap();
    assert!(file.is_finished());
    assert_eq!((file.dropped().len(), file.dropped_rows()[499].name.len()), (500, 300));
}

#[test]
fn other_programs_read_the_same_rows() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = at(&dir, &stream_bytes(&two_batches()).0);
    let expected = "\
0|model.layers.0|0|0|0|float16|[8, 8]|tensor|128\n\
1|scalar|None|0|None|float64|[]|tensor|8\n\
0||None|0|0|None|None|token|None\n\
3|empty|3|0|None|bfloat16|[0, 4]|tensor|0\n\
2|lost|None|2|None|None|None|dropped|None\n\
4|zeros|None|1|1|uint8|[300]|tensor|300\n";
    for program in ["pyarrow", "polars", "duckdb"] {
        assert_eq!(run_python(&python, "rows.py", &[Path::new(program), &path]), expected, "{program}");
    }
}

#[test]
fn pyarrow_reads_a_cut_file_up_to_its_last_whole_batch() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (bytes, ends) = stream_bytes(&two_batches());
    let path = at(&dir, &bytes);
    let report = run_python(&python, "cut.py", &[&path]);
    let batches: Vec<usize> = report.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(batches.len(), bytes.len() - ends[0]);
    for (length, batches) in (ends[0]..).zip(batches) {
        assert_eq!(batches, ends[1..].iter().filter(|end| **end <= length).count(), "cut at {length}");
    }
}

/// Container version 1, and payloads in which a whole tensor has one step; see the folder's README.
#[test]
fn streams_of_the_first_version_are_read_verified_and_ended() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/bounded-v1");
    let dir = tempfile::tempdir().unwrap();
    for name in ["range", "nmse", "abs", "mse"] {
        let path = fixtures.join(format!("{name}.tensors"));
        let expected = std::fs::read_to_string(fixtures.join(format!("{name}.crc32c"))).unwrap();
        let file = TensorFile::open(&path).unwrap();
        assert_eq!((file.is_finished(), file.version()), (true, ContainerVersion::One), "{name}");
        assert!(verify(&path).unwrap().is_sound(), "{name}");
        assert_eq!(checksums(&file), expected, "{name}");
        let loss = file.stored().codec_loss.unwrap();
        assert!(loss.max_error.is_some() && loss.min_cosine.is_none(), "{name}: {loss:?}");

        // Without its end, it gets one of this version.
        let last = *file.batches().last().unwrap();
        let cut = at(&dir, &std::fs::read(&path).unwrap()[..(last.offset + last.bytes) as usize]);
        assert!(!TensorFile::open(&cut).unwrap().is_finished(), "{name}");
        crate::recover(&cut).unwrap();
        assert!(verify(&cut).unwrap().is_sound(), "{name}");
        assert_eq!(checksums(&TensorFile::open(&cut).unwrap()), expected, "{name}");
    }
}

fn checksums(file: &TensorFile) -> String {
    (0..file.packets().len())
        .map(|place| format!("{:08x}\n", crc32c::crc32c(&file.read_elements(place).unwrap())))
        .collect()
}

#[test]
fn rows_of_the_first_version_have_no_cosines() {
    let values: Vec<u8> = (0..4096).flat_map(|index| (index as f32 * 0.7).sin().to_le_bytes()).collect();
    let codec = Codec::Bounded(Bound::Range(1e-3));
    let (mut row, _) = tensor(0, "x", codec, DType::F32, &[8, 512], &values);
    assert!(row.encoded().unwrap().min_cosine.unwrap() > 0.999);
    let [one, two] = [ContainerVersion::One, ContainerVersion::Two].map(|version| {
        let frame = batch_frame(std::slice::from_ref(&row), version);
        let metadata = schema::metadata_bytes(&frame.head).unwrap();
        let (message, columns) = frame.head.split_at(8 + metadata);
        let layout = batch::BatchLayout::of(message).unwrap();
        batch::rows_of(message, columns.to_vec(), &layout, version).unwrap().remove(0)
    });
    assert_eq!(two, row);
    row.forget_cosine();
    assert_eq!(one, row);
}

fn any_encoded() -> impl Strategy<Value = Encoded> {
    let figure = || proptest::option::of(0.0..1e9_f64);
    let codec = prop_oneof![
        Just(Codec::None),
        Just(Codec::Lz4),
        (1..=19).prop_map(|level| Codec::Zstd { level }),
        Just(Codec::Float),
        (1e-9..1e9_f64).prop_map(|bound| Codec::Bounded(Bound::Absolute(bound))),
        (1e-9..1.0_f64).prop_map(|bound| Codec::Bounded(Bound::RelativeMse(bound))),
    ];
    (codec, figure(), figure(), figure(), figure()).prop_map(|(codec, bound, max_error, mse, min_cosine)| Encoded {
        codec,
        bound,
        max_error,
        mse,
        min_cosine,
    })
}

fn any_tensor() -> impl Strategy<Value = Made> {
    let head = (
        any::<u64>(),
        ".{0,40}",
        proptest::option::of(prop_oneof![any::<i32>(), Just(i32::MIN)]),
        any::<u64>(),
        proptest::option::of(prop_oneof![any::<u64>(), Just(u64::MAX)]),
        any::<i64>(),
        proptest::sample::select(DType::ALL),
        proptest::collection::vec(0..5_u64, 0..5),
    );
    let payload = proptest::collection::vec(any::<u8>(), 0..200);
    (head, any_encoded(), payload).prop_map(|(head, encoded, payload)| {
        let (packet, name, layer, step, token_index, timestamp_ns, dtype, shape) = head;
        let head = TensorHead { name, layer, step, token_index, timestamp_ns, dtype, shape };
        let crc32c = crc32c::crc32c(&payload);
        (Row::Tensor { packet, head, encoded, crc32c, payload_bytes: payload.len() as u64 }, payload)
    })
}

fn any_row() -> impl Strategy<Value = Made> {
    let token = (any::<u64>(), any::<i64>(), ".{0,20}", any::<u64>(), any::<i64>()).prop_map(
        |(token_index, token_id, token_text, packet, timestamp_ns)| {
            (Row::Token(TokenMark { token_index, token_id, token_text, packet, timestamp_ns }), Vec::new())
        },
    );
    let dropped = (".{0,20}", any::<[u64; 4]>(), any::<i64>()).prop_map(|(name, numbers, timestamp_ns)| {
        let [packet, count, raw_bytes, step] = numbers;
        (Row::Dropped { name, packet, count, raw_bytes, timestamp_ns, step }, Vec::new())
    });
    prop_oneof![4 => any_tensor(), 1 => token, 1 => dropped]
}

/// Tensors, tokens and drops.
type Contents = (Vec<Made>, Vec<TokenMark>, Vec<(String, u64, u64)>);

fn contents(file: &TensorFile) -> Contents {
    let tensors = file.packets().iter().enumerate().map(|(place, entry)| {
        let stored = file.read(place).unwrap();
        let row = Row::Tensor {
            packet: entry.packet,
            head: stored.head,
            encoded: stored.encoded,
            crc32c: entry.crc32c,
            payload_bytes: entry.payload_bytes,
        };
        (row, stored.payload)
    });
    let dropped = file.dropped_rows().iter().map(|row| (row.name.to_string(), row.packet, row.count));
    (tensors.collect(), file.tokens().to_vec(), dropped.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_rows_come_back(batches in proptest::collection::vec(proptest::collection::vec(any_row(), 1..20), 0..4)) {
        let dir = tempfile::tempdir().unwrap();
        let path = at(&dir, &stream_bytes(&batches).0);
        let mut expected = (Vec::new(), Vec::new(), Vec::new());
        for (row, payload) in batches.iter().flatten() {
            match row {
                Row::Tensor { .. } => expected.0.push((row.clone(), payload.clone())),
                Row::Token(mark) => expected.1.push(mark.clone()),
                Row::Dropped { name, packet, count, .. } => expected.2.push((name.clone(), *packet, *count)),
            }
        }
        prop_assert_eq!(&contents(&TensorFile::open(&path).unwrap()), &expected);
        prop_assert_eq!(&contents(&TensorFile::open_scanned(&path).unwrap()), &expected);
    }
}
