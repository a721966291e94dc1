use std::fs;
use std::path::Path;

use dwell_codec::{Codec, DType};

use super::*;
use crate::testing::{at, floats, python, run_python, stream_bytes, tensor, two_batches};
use crate::{diff, export_safetensors, stats, verify};

fn two_batches_in(dir: &tempfile::TempDir) -> TensorFile {
    TensorFile::open(&at(dir, &stream_bytes(&two_batches()).0)).unwrap()
}

#[test]
fn another_codec_keeps_everything_else() {
    let dir = tempfile::tempdir().unwrap();
    let first = two_batches_in(&dir);
    let path = dir.path().join("again.tensors");
    for codec in [Codec::None, Codec::Zstd { level: 1 }, Codec::Float] {
        assert_eq!(reencode(&first, &path, codec).unwrap(), 4);
        let second = TensorFile::open(&path).unwrap();
        assert!(diff(&first, &second, 0.0).unwrap().is_same());
        assert!(verify(&path).unwrap().is_sound());
        assert_eq!(second.tokens(), first.tokens());
        assert_eq!(second.dropped_rows(), first.dropped_rows());
        assert_eq!(second.metadata(), first.metadata());
        let heads = |file: &TensorFile| file.packets().iter().map(|entry| file.head(entry)).collect::<Vec<_>>();
        assert_eq!(heads(&second), heads(&first));
    }
}

#[test]
fn packets_and_their_shapes_give_the_stream_back() {
    let dir = tempfile::tempdir().unwrap();
    let first = two_batches_in(&dir);
    let (packets, again) = (dir.path().join("x.stream"), dir.path().join("again.tensors"));
    for codec in [PacketCodec::None, PacketCodec::Lz4, PacketCodec::Zstd] {
        assert_eq!(to_packets(&first, &packets, PacketOptions { codec, as_float16: false }).unwrap(), 4);
        let read = from_packets(&packets, &again, None, DType::F16, Codec::Float).unwrap();
        assert_eq!((read.packets, read.torn_bytes, read.sidecar), (4, 0, Some(sidecar_path(&packets))));
        let second = TensorFile::open(&again).unwrap();
        assert!(diff(&first, &second, 0.0).unwrap().is_same());
        assert_eq!(second.tokens(), first.tokens());
        assert_eq!(second.packets()[3].packet, 4);
    }
}

#[test]
fn a_file_of_another_kind_has_no_packets_and_leaves_no_stream() {
    let dir = tempfile::tempdir().unwrap();
    let (packets, stream) = (dir.path().join("x.parquet"), dir.path().join("x.tensors"));
    fs::write(&packets, b"PAR1 and what else is in such a file").unwrap();
    let error = from_packets(&packets, &stream, None, DType::F16, Codec::None).unwrap_err().to_string();
    assert!(error.contains("neither an Arrow IPC stream nor a whole packet"), "{error}");
    assert!(!stream.exists());
}

#[test]
fn packets_alone_are_flat_and_a_torn_one_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (packets, stream) = (dir.path().join("x.stream"), dir.path().join("x.tensors"));
    fs::write(&packets, b"\x00\x01\x00\x00\x00\x04n\x00\x3c\x00\x40\x00\x01\x00\x00\x00\x09short").unwrap();
    let read = from_packets(&packets, &stream, None, DType::F16, Codec::None).unwrap();
    assert_eq!((read.packets, read.torn_bytes, read.sidecar), (1, 11, None));
    let file = TensorFile::open(&stream).unwrap();
    let head = file.head(&file.packets()[0]);
    assert_eq!((head.name.as_str(), head.dtype, head.shape), ("n", DType::F16, vec![2]));
    let odd = from_packets(&packets, &stream, None, DType::F64, Codec::None).unwrap_err().to_string();
    assert!(odd.contains("4 bytes of elements, which are no float64"), "{odd}");
}

fn cosine(values: &[f32], elements: &[u8]) -> f64 {
    let after: Vec<f64> = elements.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes).into()).collect();
    let before: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
    let dot = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(one, other)| one * other).sum::<f64>();
    dot(&before, &after) / (dot(&before, &before) * dot(&after, &after)).sqrt()
}

#[test]
fn what_was_lost_before_is_not_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let values: Vec<f32> = (0..5000).map(|index| (index as f32).sin()).collect();
    let batch = vec![tensor(0, "x", Codec::None, DType::F32, &[5000], &floats(&values))];
    let original = at(&dir, &stream_bytes(&[batch]).0);
    let original = TensorFile::open(&original).unwrap();
    let mut from = TensorFile::open(original.path()).unwrap();
    let mut told = 0.0;
    for (name, codec) in [("a", "bounded:abs:1e-2"), ("b", "zstd:1"), ("c", "bounded:abs:1e-3"), ("d", "none")] {
        let path = dir.path().join(name);
        reencode(&from, &path, codec.parse().unwrap()).unwrap();
        let again = TensorFile::open(&path).unwrap();
        let differs = diff(&original, &again, 0.0).unwrap().different.remove(0);
        let found = stats(&again).total;
        assert!(found.max_error >= differs.max_abs_diff && found.mse >= differs.mse, "{codec}: {found:?} {differs:?}");
        assert!(found.max_error >= Some(told), "{codec}: {found:?} after {told}");
        let cosine = cosine(&values, &again.read_elements(0).unwrap());
        assert!(found.min_cosine.unwrap() <= cosine + 1e-9 && cosine < 1.0, "{codec}: {found:?} {cosine}");
        (from, told) = (again, found.max_error.unwrap());
    }
    assert!(told > 9e-3 && told < 1.1e-2, "{told}");
}

#[test]
fn a_packet_file_with_fewer_packets_than_its_shapes_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (packets, stream) = (dir.path().join("x.stream"), dir.path().join("again.tensors"));
    to_packets(&two_batches_in(&dir), &packets, PacketOptions { codec: PacketCodec::None, as_float16: false }).unwrap();
    let bytes = fs::read(&packets).unwrap();
    fs::write(&packets, &bytes[..bytes.len() - (6 + "zeros".len() + 300)]).unwrap();
    let read = from_packets(&packets, &stream, None, DType::F16, Codec::None).unwrap();
    assert_eq!((read.packets, read.torn_bytes, read.missing_packets), (3, 0, 1));
}

#[test]
fn shapes_that_no_stream_can_hold_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (packets, stream) = (dir.path().join("x.stream"), dir.path().join("again.tensors"));
    to_packets(&two_batches_in(&dir), &packets, PacketOptions { codec: PacketCodec::None, as_float16: false }).unwrap();
    let shapes = fs::read_to_string(sidecar_path(&packets)).unwrap();
    for (from, to) in [(" t0", "x".repeat(1 << 16).as_str()), ("\"codec\":\"none\"", "\"codec\":\"zip\"")] {
        fs::write(sidecar_path(&packets), shapes.replacen(from, to, 1)).unwrap();
        let error = from_packets(&packets, &stream, None, DType::F16, Codec::None);
        assert!(matches!(error, Err(TensorsError::UnfitSidecar { .. })), "{from}");
    }
}

#[test]
fn packets_of_another_codec_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (packets, stream) = (dir.path().join("x.stream"), dir.path().join("x.tensors"));
    to_packets(&two_batches_in(&dir), &packets, PacketOptions { codec: PacketCodec::None, as_float16: false }).unwrap();
    for codec in [PacketCodec::Lz4, PacketCodec::Zstd] {
        assert!(from_packets(&packets, &stream, Some(codec), DType::F16, Codec::None).is_err());
    }
}

#[test]
fn every_changed_byte_of_a_packet_file_is_an_error_or_other_packets() {
    let dir = tempfile::tempdir().unwrap();
    let (packets, stream) = (dir.path().join("x.stream"), dir.path().join("again.tensors"));
    to_packets(&two_batches_in(&dir), &packets, PacketOptions { codec: PacketCodec::Zstd, as_float16: false }).unwrap();
    let bytes = fs::read(&packets).unwrap();
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 0x55;
        fs::write(&packets, changed).unwrap();
        if from_packets(&packets, &stream, None, DType::F16, Codec::None).is_ok() {
            assert!(verify(&stream).unwrap().problems.iter().all(|problem| problem.packet.is_none()), "{place}");
        }
    }
}

#[test]
fn numbers_become_float16_if_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let batch = vec![
        tensor(0, "f", Codec::None, DType::F32, &[3], &floats(&[1.0, -2.5, 1e6])),
        tensor(1, "i", Codec::None, DType::I32, &[1], &7_i32.to_le_bytes()),
    ];
    let file = TensorFile::open(&at(&dir, &stream_bytes(&[batch]).0)).unwrap();
    let path = dir.path().join("x.stream");
    to_packets(&file, &path, PacketOptions { codec: PacketCodec::None, as_float16: true }).unwrap();
    let expected = b"\x00\x01\x00\x00\x00\x06f\x00\x3c\x00\xc1\x00\x7c\x00\x01\x00\x00\x00\x02i\x00\x47";
    assert_eq!(fs::read(&path).unwrap(), expected);
}

#[test]
fn safetensors_reads_every_tensor() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut batches = two_batches();
    batches.push(vec![
        tensor(5, "zeros", Codec::None, DType::I64, &[1], &9_i64.to_le_bytes()),
        tensor(6, "b", Codec::None, DType::Bf16, &[2, 1], &[0x80, 0x3f, 0x00, 0xc0]),
    ]);
    let file = TensorFile::open(&at(&dir, &stream_bytes(&batches).0)).unwrap();
    let path = dir.path().join("x.safetensors");
    assert_eq!(export_safetensors(&file, &path, |entry| entry.packet != 0).unwrap(), 5);
    let expected = "\
b/1 torch.bfloat16 [2, 1] [[1.0], [-2.0]]\n\
empty/0 torch.bfloat16 [0, 4] []\n\
scalar/0 torch.float64 [] 1.5\n\
zeros/1 torch.uint8 [300] 0\n\
zeros/1/1 torch.int64 [1] [9]\n";
    assert_eq!(run_python(&python, "safetensors_rows.py", &[&path]), expected);
}

#[test]
fn a_type_that_safetensors_lacks_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let batch = vec![tensor(0, "c", Codec::None, DType::C128, &[], &[0; 16])];
    let file = TensorFile::open(&at(&dir, &stream_bytes(&[batch]).0)).unwrap();
    let path = dir.path().join("x.safetensors");
    let error = export_safetensors(&file, &path, |_| true).unwrap_err().to_string();
    assert!(error.contains("complex128, which safetensors lacks"), "{error}");
    assert!(!path.exists());
}

#[test]
fn llm_instrumentation_reads_our_packets_and_we_read_its() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let batch = vec![
        tensor(0, "lm_head", Codec::None, DType::F32, &[2, 2], &floats(&[3.0, 4.0, 0.0, 0.0])),
        tensor(1, "", Codec::None, DType::F16, &[2], &[0x00, 0x3c, 0x00, 0x40]),
    ];
    let file = TensorFile::open(&at(&dir, &stream_bytes(&[batch]).0)).unwrap();
    for codec in [PacketCodec::None, PacketCodec::Lz4, PacketCodec::Zstd] {
        let ours = dir.path().join("ours.stream");
        to_packets(&file, &ours, PacketOptions { codec, as_float16: true }).unwrap();
        let seen = run_python(&python, "peer_reads.py", &[&ours, Path::new(codec.name())]);
        assert_eq!(seen, "0 lm_head 8 5.0000\n1 <root> 4 2.2361\n", "{}", codec.name());

        let theirs = dir.path().join("theirs.stream");
        run_python(&python, "peer_writes.py", &[&theirs, Path::new(codec.name())]);
        let stream = dir.path().join("theirs.tensors");
        let read = from_packets(&theirs, &stream, Some(codec), DType::F16, Codec::Float).unwrap();
        assert_eq!((read.packets, read.torn_bytes), (2, 0), "{}", codec.name());
        let stream = TensorFile::open(&stream).unwrap();
        let halves: Vec<u8> = [1.0_f32, 2.0, 3.0].iter().flat_map(|v| half::f16::from_f32(*v).to_le_bytes()).collect();
        let place = stream.find("block", None)[0];
        assert_eq!(stream.read_elements(place).unwrap(), halves);
    }
}
