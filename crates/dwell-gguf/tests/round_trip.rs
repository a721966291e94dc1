//! Models that are made and read back.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;

use dwell_events::engine::KvType;
use dwell_gguf::{
    GgmlType, GgufFile, InfoOptions, MakeArchitecture, MakePlan, MakeSpec, MemoryRequest, ModelInfo, ModelShape,
    Overwrite, WeightType, make,
};
use sha2::{Digest, Sha256};

/// Shapes that together have every tensor and every type.
fn specs() -> Vec<MakeSpec> {
    let small = MakeSpec { layers: 2, vocabulary: 300, ..MakeSpec::default() };
    let wide = MakeSpec { embedding: 256, feed_forward: 512, ..small.clone() };
    let mut specs: Vec<MakeSpec> =
        WeightType::ALL.into_iter().map(|weight_type| MakeSpec { weight_type, ..wide.clone() }).collect();
    specs.push(MakeSpec { kv_heads: 4, tied_output: false, head_dim: Some(10), ..small.clone() });
    specs.push(MakeSpec { experts: 8, experts_used: 2, weight_type: WeightType::Q4_0, ..small.clone() });
    specs.push(MakeSpec { architecture: MakeArchitecture::Gemma3, window: Some(64), seed: 9, ..small });
    specs
}

fn write(spec: &MakeSpec, path: &Path) -> MakePlan {
    let plan = MakePlan::new(spec.clone()).unwrap();
    make(&plan, path, Overwrite::Allow, &mut |_| ()).unwrap();
    plan
}

fn write_and_read(spec: &MakeSpec) -> (MakePlan, GgufFile, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("made.gguf");
    let plan = write(spec, &path);
    (plan, GgufFile::open(&path).unwrap(), fs::read(&path).unwrap())
}

#[test]
fn every_tensor_is_where_the_plan_says_and_the_file_ends_after_the_last() {
    for spec in specs() {
        let (plan, file, bytes) = write_and_read(&spec);
        assert_eq!(file.file_bytes(), plan.file_bytes());
        assert_eq!(bytes.len() as u64, plan.file_bytes());
        assert_eq!(file.tensors().len(), plan.tensors().len());
        let mut end = file.data_offset();
        for (read, planned) in file.tensors().iter().zip(plan.tensors()) {
            assert_eq!(read.name, planned.name);
            assert_eq!(read.dimensions, planned.dimensions, "{}", read.name);
            assert_eq!(read.ggml_type, planned.ggml_type, "{}", read.name);
            assert_eq!(read.size_bytes, planned.size_bytes, "{}", read.name);
            assert_eq!(read.file_offset, file.data_offset() + planned.data_offset, "{}", read.name);
            assert_eq!(read.file_offset, end.next_multiple_of(32), "{}", read.name);
            end = read.file_offset + read.size_bytes;
        }
        assert_eq!(file.file_bytes(), end.next_multiple_of(32));
    }
}

#[test]
fn the_shape_read_back_is_the_one_asked_for() {
    for spec in specs() {
        let (_, file, _) = write_and_read(&spec);
        let shape = ModelShape::from_gguf(&file).unwrap();
        assert_eq!(shape.architecture, spec.architecture.name());
        assert_eq!(shape.layers.len(), spec.layers as usize);
        for layer in &shape.layers {
            assert_eq!((layer.heads, layer.kv_heads), (spec.heads, spec.kv_heads));
            assert_eq!((layer.key_length, layer.value_length), (spec.head_dim(), spec.head_dim()));
            assert_eq!(layer.feed_forward, spec.feed_forward);
        }
        assert_eq!((shape.embedding, shape.vocabulary), (spec.embedding, spec.vocabulary));
        assert_eq!((shape.experts, shape.experts_used), (spec.experts, spec.experts_used));
        assert_eq!((shape.context_train, shape.tied_output), (spec.context, spec.tied_output));
        assert_eq!(shape.sliding_window, spec.window);
        let windowed: Vec<bool> = shape.layers.iter().map(|layer| layer.windowed).collect();
        assert_eq!(windowed, [spec.window.is_some(), false]);
        assert_eq!(file.array("tokenizer.ggml.tokens").unwrap().count, u64::from(spec.vocabulary));
    }
}

#[test]
fn a_dense_layer_has_the_tensors_and_dimensions_of_llama() {
    let spec = MakeSpec { layers: 1, head_dim: Some(10), tied_output: false, ..MakeSpec::default() };
    let plan = MakePlan::new(spec).unwrap();
    let tensors: Vec<(&str, &[u64], GgmlType)> =
        plan.tensors().iter().map(|tensor| (tensor.name.as_str(), &tensor.dimensions[..], tensor.ggml_type)).collect();
    let expected: [(&str, &[u64], GgmlType); 12] = [
        ("token_embd.weight", &[64, 512], GgmlType::F16),
        ("blk.0.attn_norm.weight", &[64], GgmlType::F32),
        ("blk.0.attn_q.weight", &[64, 40], GgmlType::F16),
        ("blk.0.attn_k.weight", &[64, 20], GgmlType::F16),
        ("blk.0.attn_v.weight", &[64, 20], GgmlType::F16),
        ("blk.0.attn_output.weight", &[40, 64], GgmlType::F16),
        ("blk.0.ffn_norm.weight", &[64], GgmlType::F32),
        ("blk.0.ffn_gate.weight", &[64, 128], GgmlType::F16),
        ("blk.0.ffn_up.weight", &[64, 128], GgmlType::F16),
        ("blk.0.ffn_down.weight", &[128, 64], GgmlType::F16),
        ("output_norm.weight", &[64], GgmlType::F32),
        ("output.weight", &[64, 512], GgmlType::F16),
    ];
    assert_eq!(tensors, expected);
}

#[test]
fn the_same_shape_and_seed_give_the_same_bytes_and_another_seed_others() {
    let directory = tempfile::tempdir().unwrap();
    let digest = |name: &str, spec: &MakeSpec| {
        let path = directory.path().join(name);
        write(spec, &path);
        Sha256::digest(fs::read(&path).unwrap())
    };
    for spec in specs() {
        let first = digest("first", &spec);
        assert_eq!(first, digest("second", &spec));
        assert_ne!(first, digest("other", &MakeSpec { seed: spec.seed + 1, ..spec.clone() }));
    }
}

#[test]
fn the_bytes_of_a_shape_and_seed_never_change() {
    let (_, _, bytes) = write_and_read(&MakeSpec::default());
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, "b76b08cc44cf88b75a0c6b56493ecb3f37a3e42c3a0295fe8d2034fdc2f6e133");
}

/// Values of a tensor that is stored as 32-bit floats.
fn floats(file: &GgufFile, bytes: &[u8], name: &str) -> Vec<f32> {
    let tensor = file.tensor(name).unwrap();
    let data = &bytes[tensor.file_offset as usize..][..tensor.size_bytes as usize];
    data.chunks_exact(4).map(|value| f32::from_le_bytes(value.try_into().unwrap())).collect()
}

#[test]
fn norms_are_ones_and_matrices_keep_the_size_of_what_goes_through() {
    let spec = MakeSpec { weight_type: WeightType::F32, ..MakeSpec::default() };
    let (_, file, bytes) = write_and_read(&spec);
    assert!(floats(&file, &bytes, "blk.0.attn_norm.weight").iter().all(|value| *value == 1.0));
    for (name, deviation) in
        [("token_embd.weight", 0.02), ("blk.1.attn_q.weight", 0.125), ("blk.1.ffn_down.weight", 0.088)]
    {
        let values = floats(&file, &bytes, name);
        let found = (values.iter().map(|value| value * value).sum::<f32>() / values.len() as f32).sqrt();
        assert!((found / deviation - 1.0).abs() < 0.03, "{name}: {found}");
    }
    assert_ne!(floats(&file, &bytes, "blk.0.attn_q.weight"), floats(&file, &bytes, "blk.1.attn_q.weight"));
}

#[test]
fn the_report_has_every_number() {
    let spec = MakeSpec {
        architecture: MakeArchitecture::Gemma3,
        head_dim: Some(32),
        window: Some(64),
        weight_type: WeightType::Q8_0,
        ..MakeSpec::default()
    };
    let (_, file, _) = write_and_read(&spec);
    let memory = MemoryRequest::new(1024, KvType::Q8_0);
    let info = ModelInfo::new(&file, &InfoOptions { memory, list_tensors: false }).unwrap();
    let report = info.to_string();
    let report = report.split_once("size").unwrap().1;
    assert_eq!(format!("size{report}"), REPORT);

    let json = serde_json::to_value(&info).unwrap();
    assert_eq!(json["kv_bytes_per_token"][1]["bytes"], 4 * 2 * 2 * 34);
    assert_eq!(json["memory"]["weights_bytes"], file.tensor_bytes());
    assert_eq!(json["tensors"], serde_json::Value::Null);
}

const REPORT: &str = "\
size           258.94 KiB (265152 bytes, GGUF v3)
architecture   gemma3
name           made gemma3 4x64 4/2 heads q8_0 seed 0
parameters     230.7 k
layers         4
embedding      64
heads          4, kv heads 2, head dim 32
feed forward   128
experts        none
vocabulary     512
context        2048 in training
sliding window 64 positions in 2 of 4 layers
output         tied to the embedding

tensors by type
  q8_0          29  238.00 KiB  97.84 %
  f32           25    5.25 KiB   2.16 %

KV cache per token, all layers
  f16               1024 bytes
  q8_0               544 bytes
  q4_0               288 bytes

memory at context 1024, keys q8_0, values q8_0
  weights           243.25 KiB
  KV cache          476.00 KiB
  compute             3.50 MiB (estimate)
  total               4.20 MiB
";

#[test]
fn the_tensor_list_has_a_line_for_each_tensor() {
    let (plan, file, _) = write_and_read(&MakeSpec::default());
    let memory = MemoryRequest::new(0, KvType::F16);
    let info = ModelInfo::new(&file, &InfoOptions { memory, list_tensors: true }).unwrap();
    assert_eq!(info.context_length, 2048);
    let report = info.to_string();
    for tensor in plan.tensors() {
        assert!(report.lines().any(|line| line.trim_start().starts_with(&tensor.name)), "{}", tensor.name);
    }
    assert!(report.contains(&format!("at {}", file.tensors()[3].file_offset)));
}
