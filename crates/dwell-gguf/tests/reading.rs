//! Reading GGUF files: what a good one gives, and one test for each thing that can be wrong.

mod support;

use std::io::Cursor;

use dwell_events::Hint;
use dwell_gguf::{GgmlType, GgufErrorKind, GgufFile, MetadataValue, ValueType};
use support::{BOOL, FileBuilder, TEXT, U32, text};

const F32: u32 = 0;
const Q8_0: u32 = 8;

fn good() -> FileBuilder {
    FileBuilder::new()
        .text("general.architecture", "llama")
        .u32("llama.block_count", 2)
        .tensor("a", &[32, 2], Q8_0, 0)
        .tensor("b", &[3], F32, 96)
        .data(96 + 12)
}

#[test]
fn a_good_file_gives_its_metadata_and_tensors() {
    let file = good().read().unwrap();
    assert_eq!(file.version(), 3);
    assert_eq!(file.alignment_bytes(), 32);
    assert_eq!(file.architecture(), Some("llama"));
    assert_eq!(file.u64("llama.block_count"), Some(2));
    assert_eq!(file.text("llama.block_count"), None);
    assert_eq!(file.tensor_bytes(), 68 + 12);

    let data_offset = good().header().len().next_multiple_of(32) as u64;
    assert_eq!(file.data_offset(), data_offset);
    assert_eq!(file.file_bytes(), data_offset + 108);
    let second = file.tensor("b").unwrap();
    assert_eq!((second.file_offset, second.size_bytes, second.ggml_type), (data_offset + 96, 12, GgmlType::F32));
    assert_eq!(file.tensor("a").unwrap().dimensions, [32, 2]);
    assert_eq!(file.tensor("a").unwrap().values(), 64);
    assert_eq!(file.tensor("c"), None);
}

#[test]
fn version_2_is_read_like_version_3() {
    let mut builder = good();
    builder.version = 2;
    assert_eq!(builder.read().unwrap().tensors(), good().read().unwrap().tensors());
}

#[test]
fn every_type_of_value_is_read() {
    let file = FileBuilder::new()
        .key_value("u8", 0, &[200])
        .key_value("i8", 1, &(-2i8).to_le_bytes())
        .key_value("u16", 2, &60_000u16.to_le_bytes())
        .key_value("i16", 3, &(-3i16).to_le_bytes())
        .key_value("u32", U32, &4_000_000_000u32.to_le_bytes())
        .key_value("i32", 5, &(-4i32).to_le_bytes())
        .key_value("f32", 6, &0.5f32.to_le_bytes())
        .key_value("bool", BOOL, &[1])
        .key_value("text", TEXT, &text("wörld"))
        .key_value("u64", 10, &u64::MAX.to_le_bytes())
        .key_value("i64", 11, &i64::MIN.to_le_bytes())
        .key_value("f64", 12, &0.25f64.to_le_bytes())
        .read()
        .unwrap();
    let expected = [
        ("u8", MetadataValue::U8(200)),
        ("i8", MetadataValue::I8(-2)),
        ("u16", MetadataValue::U16(60_000)),
        ("i16", MetadataValue::I16(-3)),
        ("u32", MetadataValue::U32(4_000_000_000)),
        ("i32", MetadataValue::I32(-4)),
        ("f32", MetadataValue::F32(0.5)),
        ("bool", MetadataValue::Bool(true)),
        ("text", MetadataValue::Text("wörld".to_owned())),
        ("u64", MetadataValue::U64(u64::MAX)),
        ("i64", MetadataValue::I64(i64::MIN)),
        ("f64", MetadataValue::F64(0.25)),
    ];
    assert_eq!(file.metadata().len(), expected.len());
    for (key, value) in expected {
        assert_eq!(file.value(key), Some(&value));
    }
    assert_eq!((file.f64("f32"), file.bool("bool"), file.u64("i32")), (Some(0.5), Some(true), None));
}

#[test]
fn short_arrays_are_kept_and_long_ones_are_counted() {
    let words = [text("a"), text("bc")].concat();
    let many: Vec<u8> = (0..5000).flat_map(|index| text(&format!("token {index}"))).collect();
    let file = FileBuilder::new()
        .u32s("short", &[1, 2, 3])
        .array("words", TEXT, 2, &words)
        .array("long numbers", U32, 5000, &[7; 4 * 5000])
        .array("long words", TEXT, 5000, &many)
        .u32("after", 9)
        .read()
        .unwrap();
    let short = file.array("short").unwrap();
    assert_eq!(short.elements.as_deref(), Some(&[1, 2, 3].map(MetadataValue::U32)[..]));
    let words = file.array("words").unwrap();
    assert_eq!(words.elements.as_ref().unwrap()[1], MetadataValue::Text("bc".to_owned()));
    for (key, element_type) in [("long numbers", ValueType::U32), ("long words", ValueType::Text)] {
        let long = file.array(key).unwrap();
        assert_eq!((long.element_type, long.count, &long.elements), (element_type, 5000, &None));
    }
    assert_eq!(file.u64("after"), Some(9));
}

#[test]
fn the_alignment_of_the_file_is_used() {
    let mut builder = FileBuilder::new().u32("general.alignment", 64).tensor("a", &[1], F32, 64).data(68);
    builder.alignment = 64;
    let file = builder.read().unwrap();
    assert_eq!(file.alignment_bytes(), 64);
    assert_eq!(file.tensors()[0].file_offset, file.data_offset() + 64);
}

#[test]
fn a_missing_file_is_named() {
    let error = GgufFile::open("/nowhere/small.gguf".as_ref()).unwrap_err();
    assert!(matches!(error.kind, GgufErrorKind::Missing));
    assert_eq!(error.to_string(), "opening the model: no such file: \"/nowhere/small.gguf\"");
    assert_eq!(error.hints(), ["check the path: ls -l '/nowhere'", "or download a model: dwell model pull"]);
}

#[test]
fn a_directory_is_not_a_model() {
    let error = GgufFile::open("/".as_ref()).unwrap_err();
    assert!(error.to_string().ends_with("\"/\""), "{error}");
    assert!(std::error::Error::source(&error).is_some(), "{error}");
}

#[test]
fn another_magic_is_shown_with_the_one_needed() {
    let mut builder = good();
    builder.magic = *b"PK\x03\x04";
    let error = builder.read().unwrap_err();
    assert_eq!(error.to_string(), "reading the header: found magic \"PK\\x03\\x04\", needed \"GGUF\"");
}

#[test]
fn a_big_endian_file_is_recognised() {
    let mut builder = good();
    builder.version = 3u32.swap_bytes();
    assert!(matches!(builder.error(), GgufErrorKind::BigEndian { version: 3 }));
}

#[test]
fn other_versions_are_refused() {
    for version in [0, 1, 4, u32::MAX] {
        let mut builder = good();
        builder.version = version;
        assert!(matches!(builder.error(), GgufErrorKind::UnsupportedVersion { found } if found == version));
    }
}

#[test]
fn a_file_that_ends_in_a_part_says_in_which_and_how_much_is_missing() {
    let whole = good().header();
    let key_value_end =
        FileBuilder::new().text("general.architecture", "llama").u32("llama.block_count", 2).header().len();
    for (length, section) in [
        (0, "the header"),
        (3, "the header"),
        (6, "the header"),
        (20, "the header"),
        (key_value_end - 1, "the metadata"),
        (whole.len() - 1, "the tensor list"),
    ] {
        let kind = GgufFile::read(Cursor::new(&whole[..length])).unwrap_err().kind;
        let GgufErrorKind::Truncated { section: found, offset, needed_bytes, found_bytes } = kind else {
            panic!("{length}: {kind}")
        };
        assert_eq!((found, offset + found_bytes), (section, length as u64));
        assert!(found_bytes < needed_bytes);
    }
}

#[test]
fn data_past_the_end_says_how_large_the_file_should_be() {
    let bytes = good().bytes();
    let cut = &bytes[..bytes.len() - 1];
    let error = GgufFile::read(Cursor::new(cut)).unwrap_err();
    let message = format!("checking tensor 'b': needed a file of {} bytes, found {}", bytes.len(), cut.len());
    assert_eq!(error.to_string(), message);
    assert_eq!(error.hints(), ["copy or download the file again; it is not complete"]);
}

#[test]
fn an_offset_past_the_end_is_refused_without_overflow() {
    let kind = FileBuilder::new().tensor("a", &[1], F32, u64::MAX - 31).data(4).error();
    assert!(matches!(kind, GgufErrorKind::TensorPastEnd { needed_bytes, .. } if needed_bytes > u128::from(u64::MAX)));
}

#[test]
fn unknown_and_withdrawn_tensor_types_are_refused() {
    for type_id in [4, 31, 43, u32::MAX] {
        let kind = FileBuilder::new().tensor("a", &[32], type_id, 0).data(64).error();
        let GgufErrorKind::UnknownTensorType { tensor, found } = kind else { panic!("{kind}") };
        assert_eq!((tensor.as_str(), found), ("a", type_id));
    }
}

#[test]
fn counts_that_the_file_cannot_hold_are_refused_before_anything_is_allocated() {
    let mut bytes = good().bytes();
    for position in [8, 16] {
        let mut hostile = bytes.clone();
        hostile[position..position + 8].fill(0xff);
        let kind = GgufFile::read(Cursor::new(hostile)).unwrap_err().kind;
        assert!(matches!(kind, GgufErrorKind::CountTooLarge { count: u64::MAX, .. }), "{kind}");
    }
    // The length of the first key.
    bytes[24..32].fill(0xff);
    let kind = GgufFile::read(Cursor::new(bytes)).unwrap_err().kind;
    assert!(matches!(kind, GgufErrorKind::Truncated { needed_bytes: u64::MAX, .. }), "{kind}");
}

#[test]
fn arrays_that_the_file_cannot_hold_are_refused_before_anything_is_allocated() {
    for element_type in (0..=12).filter(|element_type| *element_type != support::ARRAY) {
        for count in [u64::MAX, u64::MAX / 8 + 1, 100] {
            let kind = FileBuilder::new().array("a", element_type, count, &[0; 16]).error();
            assert!(matches!(kind, GgufErrorKind::CountTooLarge { count: found, .. } if found == count), "{kind}");
        }
    }
}

#[test]
fn texts_in_a_long_array_that_go_past_the_end_are_refused() {
    let mut elements = vec![0; 8 * 5000];
    elements[8 * 4999..].fill(0xff);
    let kind = FileBuilder::new().array("a", TEXT, 5000, &elements).error();
    assert!(matches!(kind, GgufErrorKind::Truncated { needed_bytes: u64::MAX, found_bytes, .. } if found_bytes < 32));
}

#[test]
fn arrays_of_arrays_are_refused() {
    let kind = FileBuilder::new().array("deep", support::ARRAY, 1, &[0; 64]).error();
    assert!(matches!(kind, GgufErrorKind::NestedArray { key } if key == "deep"));
}

#[test]
fn unknown_value_types_are_refused() {
    let kind = FileBuilder::new().key_value("odd", 13, &[0; 8]).error();
    assert!(matches!(kind, GgufErrorKind::UnknownValueType { key, found: 13 } if key == "odd"));
}

#[test]
fn names_that_are_twice_there_are_refused() {
    let kind = FileBuilder::new().u32("a", 1).u32("a", 1).error();
    assert!(matches!(kind, GgufErrorKind::DuplicateKey { key } if key == "a"));
    let kind = FileBuilder::new().tensor("t", &[1], F32, 0).tensor("t", &[1], F32, 32).data(64).error();
    assert!(matches!(kind, GgufErrorKind::DuplicateTensor { tensor } if tensor == "t"));
}

#[test]
fn names_that_are_not_text_are_refused() {
    let mut bytes = FileBuilder::new().u32("key", 1).bytes();
    bytes[32] = 0xff;
    let kind = GgufFile::read(Cursor::new(bytes)).unwrap_err().kind;
    assert!(matches!(kind, GgufErrorKind::NotText { section: "the metadata", offset: 35 }), "{kind}");
}

#[test]
fn alignments_that_are_no_power_of_two_are_refused() {
    for builder in [
        FileBuilder::new().u32("general.alignment", 0),
        FileBuilder::new().u32("general.alignment", 48),
        FileBuilder::new().text("general.alignment", "32"),
    ] {
        assert!(matches!(builder.error(), GgufErrorKind::BadAlignment { .. }));
    }
}

#[test]
fn tensors_between_the_multiples_of_the_alignment_are_refused() {
    let kind = FileBuilder::new().tensor("a", &[1], F32, 16).data(64).error();
    assert!(matches!(kind, GgufErrorKind::Misaligned { offset: 16, alignment_bytes: 32, .. }));
}

#[test]
fn dimensions_that_no_tensor_can_have_are_refused() {
    let kind = FileBuilder::new().tensor("a", &[1; 5], F32, 0).data(64).error();
    assert!(matches!(kind, GgufErrorKind::TooManyDimensions { found: 5, .. }));
    for dimensions in [&[33][..], &[32, u64::MAX], &[u64::MAX - 31, 2, 2, 2]] {
        let kind = FileBuilder::new().tensor("a", dimensions, Q8_0, 0).data(64).error();
        assert!(matches!(kind, GgufErrorKind::BadDimensions { block_values: 32, .. }), "{kind}");
    }
}
