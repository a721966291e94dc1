//! `dwell tensors`, on streams of known content.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::common::{Workplace, dwell, text_of};
use dwell_tensors::{DType, StreamOptions, TensorFile, TensorHead, TensorStream};
use serde_json::Value;

/// Two names, three steps, one token after each; the first tensor of each step is lossless float32, the other bytes.
fn stream(place: &Workplace, name: &str, shift: f32) -> PathBuf {
    let path = place.path().join(name);
    let stream = TensorStream::create(&path, StreamOptions::default()).unwrap();
    for step in 0..3_u64 {
        let values = (0..512).map(|number| number as f32 * 0.25 + shift * step as f32);
        let floats: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        stream.submit(head("l_out-0", step, DType::F32, &[2, 256]), &floats).unwrap();
        stream.submit(head("mask", step, DType::U8, &[3]), &[1, 0, 1]).unwrap();
        stream.record_token(step as i64 + 7, &format!(" t{step}")).unwrap();
        stream.flush().unwrap();
    }
    stream.finish().unwrap();
    path
}

fn head(name: &str, step: u64, dtype: DType, shape: &[u64]) -> TensorHead {
    let shape = shape.to_vec();
    TensorHead { name: name.to_owned(), layer: None, step, token_index: Some(step), timestamp_ns: 1, dtype, shape }
}

fn tensors(arguments: &[&str], paths: &[&Path]) -> Output {
    dwell().arg("tensors").args(arguments).args(paths).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text_of(output)))
}

#[test]
fn a_cut_stream_is_said_to_be_cut_and_recovered() {
    let place = Workplace::new();
    let path = stream(&place, "gen.tensors", 1.0);
    let last = *TensorFile::open(&path).unwrap().batches().last().unwrap();
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..(last.offset + last.bytes - 1) as usize]).unwrap();
    for command in ["info", "stats", "verify"] {
        let output = tensors(&[command], &[&path]);
        assert_eq!(output.status.code(), Some(1), "{command}: {}", text_of(&output));
        assert!(text_of(&output).contains("dwell tensors recover '"), "{command}: {}", text_of(&output));
    }
    fs::remove_file(place.path().join("gen_tokens.json")).ok();
    let recovered = tensors(&["recover", "--json"], &[&path]);
    assert_eq!(recovered.status.code(), Some(0), "{}", text_of(&recovered));
    let recovered = json(&recovered);
    assert_eq!(recovered["cut_bytes"], last.bytes - 1);
    assert_eq!(fs::read(place.path().join("gen.tensors.tail")).unwrap().len() as u64, last.bytes - 1);
    assert!(place.path().join("gen_tokens.json").is_file());
    assert_eq!(tensors(&["verify"], &[&path]).status.code(), Some(0));
    assert!(text_of(&tensors(&["recover"], &[&path])).starts_with("nothing to do"));
}

#[test]
fn a_damaged_payload_is_not_recovered_in_silence() {
    let place = Workplace::new();
    let path = stream(&place, "gen.tensors", 1.0);
    let first = TensorFile::open(&path).unwrap().batches()[0];
    let mut bytes = fs::read(&path).unwrap();
    bytes[(first.offset + first.bytes - 1) as usize] ^= 0x10;
    fs::write(&path, bytes).unwrap();
    let recovered = tensors(&["recover"], &[&path]);
    assert_eq!(recovered.status.code(), Some(1), "{}", text_of(&recovered));
    assert!(text_of(&recovered).contains("hint: it holds damage: see where with `dwell tensors verify '"));
}

#[test]
fn conversions_are_equal_and_other_captures_are_not() {
    let place = Workplace::new();
    let path = stream(&place, "gen.tensors", 1.0);
    let [packets, again, lossy] = ["gen.stream", "again.tensors", "lossy.tensors"].map(|name| place.path().join(name));
    let done = |arguments: &[&str], paths: &[&Path]| {
        let output = tensors(arguments, paths);
        assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    };
    done(&["convert", "--to", "packets", "--packet-codec", "lz4"], &[&path, &packets]);
    done(&["convert", "--to", "tensors", "--codec", "zstd:1"], &[&packets, &again]);
    done(&["diff"], &[&path, &again]);
    done(&["convert", "--to", "tensors", "--codec", "bounded:abs:0.01"], &[&path, &lossy]);
    done(&["diff", "--tolerance", "0.01"], &[&path, &lossy]);

    let other = stream(&place, "other.tensors", 2.0);
    let output = tensors(&["diff", "--json"], &[&path, &other]);
    assert_eq!(output.status.code(), Some(1));
    let report = json(&output);
    assert_eq!((&report["equal"], &report["max_abs_diff"]), (&4.into(), &2.0.into()));
    assert_eq!(report["different"][1]["max_abs_diff"], 2.0);
}

#[test]
fn chosen_tensors_are_exported() {
    let place = Workplace::new();
    let path = stream(&place, "gen.tensors", 1.0);
    let out = place.path().join("some.safetensors");
    let output =
        tensors(&["export", "--name", "l_*", "--step", "0,2", "--json", "-o", out.to_str().unwrap()], &[&path]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    assert_eq!(json(&output)["packets"], 2);
    let bytes = fs::read(&out).unwrap();
    let header_bytes = u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + header_bytes]).unwrap();
    assert_eq!(header["l_out-0/2"]["data_offsets"], serde_json::json!([2048, 4096]));
    assert_eq!(bytes.len(), 8 + header_bytes + 4096);
    assert_eq!(bytes[8 + header_bytes + 4..][..4], 0.25_f32.to_le_bytes());
    for choice in [["--name", "no*"], ["--step", "7"]] {
        let none = tensors(&["export", choice[0], choice[1], "-o", out.to_str().unwrap()], &[&path]);
        assert_eq!(none.status.code(), Some(2), "{}", text_of(&none));
        assert!(text_of(&none).contains("hint: see what there is with `dwell tensors stats "), "{}", text_of(&none));
    }
    assert_eq!(fs::read(&out).unwrap(), bytes);
}

#[test]
fn a_stream_is_not_replaced_by_another_form_of_itself() {
    let place = Workplace::new();
    let path = stream(&place, "gen.tensors", 1.0);
    let (bytes, link) = (fs::read(&path).unwrap(), place.path().join("link"));
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for arguments in [&["convert", "--to", "tensors"][..], &["convert", "--to", "packets"], &["export", "-o"]] {
        let output = tensors(arguments, &[&path, &link]);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text_of(&output));
        assert!(text_of(&output).contains("it is the input too"), "{}", text_of(&output));
        assert!(fs::read(&path).unwrap() == bytes && link.is_symlink(), "{arguments:?}");
    }
}

#[test]
fn what_is_no_stream_is_refused() {
    let place = Workplace::new();
    let path = place.path().join("text");
    fs::write(&path, "no stream at all").unwrap();
    for command in ["info", "verify", "recover", "stats"] {
        let output = tensors(&[command], &[&path]);
        assert_eq!(output.status.code(), Some(2), "{command}: {}", text_of(&output));
        assert!(text_of(&output).contains("error: opening a tensor stream found no Arrow IPC stream"), "{command}");
    }
    assert_eq!(fs::read(&path).unwrap(), b"no stream at all");
    assert_eq!(tensors(&["info"], &[&place.path().join("absent")]).status.code(), Some(2));
}
