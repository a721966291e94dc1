//! Shapes read from metadata, and sizes computed by hand.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use dwell_events::engine::KvType;
use dwell_gguf::{InfoOptions, MemoryRequest, ModelInfo, ModelShape, ShapeError};
use support::{BOOL, FileBuilder, TEXT, text};

/// The numbers of a model with 3 layers, 8 heads and 2 kv heads of 32.
fn model(architecture: &str) -> FileBuilder {
    without_network(architecture).u32(&format!("{architecture}.feed_forward_length"), 700)
}

/// The same without the length of the feed-forward network.
fn without_network(architecture: &str) -> FileBuilder {
    let key = |part: &str| format!("{architecture}.{part}");
    FileBuilder::new()
        .text("general.architecture", architecture)
        .u32(&key("block_count"), 3)
        .u32(&key("embedding_length"), 256)
        .u32(&key("context_length"), 2048)
        .u32(&key("attention.head_count"), 8)
        .array("tokenizer.ggml.tokens", TEXT, 2, &[text("a"), text("b")].concat())
}

fn shape(builder: FileBuilder) -> Result<ModelShape, ShapeError> {
    ModelShape::from_gguf(&builder.read().unwrap())
}

#[test]
fn a_plain_model_gives_its_numbers_and_the_defaults() {
    let shape = shape(model("llama")).unwrap();
    assert_eq!(shape.layers.len(), 3);
    let layer = shape.layers[2];
    assert_eq!((layer.heads, layer.kv_heads, layer.key_length, layer.value_length), (8, 8, 32, 32));
    assert_eq!((layer.feed_forward, layer.windowed), (700, false));
    assert_eq!((shape.embedding, shape.vocabulary, shape.context_train), (256, 2, 2048));
    assert_eq!((shape.experts, shape.experts_used, shape.sliding_window), (0, 0, None));
    assert!(shape.tied_output);
}

#[test]
fn an_output_matrix_is_not_tied() {
    let builder = model("llama").tensor("output.weight", &[1], 0, 0).data(4);
    assert!(!shape(builder).unwrap().tied_output);
}

#[test]
fn the_kv_cache_of_a_token_is_a_row_of_keys_and_a_row_of_values_per_layer() {
    let shape = shape(model("llama").u32("llama.attention.head_count_kv", 2)).unwrap();
    // 3 layers, rows of 2 x 32 = 64 values: 128 bytes as f16, 2 blocks of 34 as q8_0, 2 blocks of 18 as q4_0.
    assert_eq!(shape.kv_bytes_per_token(KvType::F16, KvType::F16), Ok(3 * (128 + 128)));
    assert_eq!(shape.kv_bytes_per_token(KvType::Q8_0, KvType::Q8_0), Ok(3 * (68 + 68)));
    assert_eq!(shape.kv_bytes_per_token(KvType::Q4_0, KvType::F16), Ok(3 * (36 + 128)));
}

#[test]
fn keys_and_values_can_have_lengths_of_their_own() {
    let builder = model("llama").u32("llama.attention.key_length", 48).u32("llama.attention.value_length", 16);
    let shape = shape(builder).unwrap();
    assert_eq!(shape.kv_bytes_per_token(KvType::F16, KvType::F16), Ok(3 * 8 * (48 + 16) * 2));
}

#[test]
fn rows_that_are_not_whole_blocks_have_no_size() {
    let builder = model("llama").u32("llama.attention.head_count_kv", 1).u32("llama.attention.value_length", 24);
    let error = shape(builder).unwrap().kv_bytes_per_token(KvType::Q8_0, KvType::Q8_0).unwrap_err();
    let message = "sizing the KV cache: layer 0 has rows of 24 values, needed a multiple of 32 for q8_0";
    assert_eq!(error.to_string(), message);
}

#[test]
fn layers_can_differ() {
    let builder = model("llama")
        .u32s("llama.attention.head_count_kv", &[8, 0, 2])
        .u32("llama.expert_count", 4)
        .u32s("llama.expert_used_count", &[0, 2, 1]);
    let shape = shape(builder).unwrap();
    assert_eq!(shape.kv_bytes_per_token(KvType::F16, KvType::F16), Ok((8 + 2) * 32 * 2 * 2));
    assert_eq!((shape.experts, shape.experts_used), (4, 2));
}

fn windowed(builder: FileBuilder) -> Vec<bool> {
    shape(builder).unwrap().layers.iter().map(|layer| layer.windowed).collect()
}

#[test]
fn windows_follow_the_file_or_the_architecture() {
    let window = |architecture: &str| model(architecture).u32(&format!("{architecture}.attention.sliding_window"), 64);
    assert_eq!(windowed(window("gemma3")), [true, true, true]);
    assert_eq!(windowed(window("gemma3").u32("gemma3.attention.sliding_window_pattern", 2)), [true, false, true]);
    assert_eq!(
        windowed(window("gemma3").u32s("gemma3.attention.sliding_window_pattern", &[0, 1, 0])),
        [false, true, false]
    );
    let flags = window("gemma4").array("gemma4.attention.sliding_window_pattern", BOOL, 3, &[1, 1, 0]);
    assert_eq!(windowed(flags), [true, true, false]);
    assert_eq!(windowed(window("cohere2moe")), [false, true, true]);
    assert_eq!(windowed(model("gemma2")), [true, false, true]);
    assert_eq!(windowed(model("gemma3")), [false; 3]);
    // llama.cpp does not use the window of these.
    assert_eq!(windowed(window("llama")), [false; 3]);
    assert_eq!(shape(window("llama")).unwrap().sliding_window, None);
    assert_eq!(shape(model("gemma2")).unwrap().sliding_window, Some(4096));
}

fn kv_heads(builder: FileBuilder) -> Vec<u32> {
    shape(builder).unwrap().layers.iter().map(|layer| layer.kv_heads).collect()
}

#[test]
fn layers_without_keys_and_values_of_their_own_keep_none() {
    assert_eq!(kv_heads(model("gemma4").u32("gemma4.attention.shared_kv_layers", 1)), [8, 8, 0]);
    assert_eq!(kv_heads(model("glm4moe").u32("glm4moe.nextn_predict_layers", 2)), [8, 0, 0]);
    assert_eq!(kv_heads(model("qwen3next").u32("qwen3next.full_attention_interval", 2)), [0, 8, 0]);
    assert_eq!(kv_heads(model("qwen35").u32s("qwen35.attention.recurrent_layers", &[0, 1, 1])), [8, 0, 0]);
    assert_eq!(kv_heads(model("qwen35")), [0, 0, 0]);
}

fn state_values(builder: FileBuilder) -> Vec<u64> {
    shape(builder).unwrap().layers.iter().map(|layer| layer.state_values).collect()
}

/// A model with a convolution of 4, 512 inner values, 16 values of state for each and 2 groups.
fn scanning(architecture: &str) -> FileBuilder {
    with_scan(architecture, model(architecture))
}

fn with_scan(architecture: &str, builder: FileBuilder) -> FileBuilder {
    let key = |part: &str| format!("{architecture}.ssm.{part}");
    let numbers = [("conv_kernel", 4), ("inner_size", 512), ("state_size", 16), ("group_count", 2)];
    numbers.into_iter().fold(builder, |builder, (part, number)| builder.u32(&key(part), number))
}

#[test]
fn recurrent_layers_keep_a_state_for_each_sequence() {
    // Three columns of the convolution's inputs, and a state.
    let scan = 3 * (512 + 2 * 2 * 16) + 512 * 16;
    assert_eq!(state_values(scanning("mamba2")), [scan; 3]);
    assert_eq!(kv_heads(scanning("mamba2")), [0; 3]);
    let jamba = || scanning("jamba").u32s("jamba.attention.head_count_kv", &[0, 2, 0]);
    assert_eq!((state_values(jamba()), kv_heads(jamba())), (vec![scan, 0, scan], vec![0, 2, 0]));
    // Attention and a scan side by side in each layer.
    assert_eq!((state_values(scanning("falcon-h1")), kv_heads(scanning("falcon-h1"))), (vec![scan; 3], vec![8; 3]));
    let nemotron = without_network("nemotron_h")
        .u32s("nemotron_h.attention.head_count_kv", &[0, 2, 0])
        .u32s("nemotron_h.feed_forward_length", &[0, 0, 700]);
    assert_eq!(state_values(with_scan("nemotron_h", nemotron)), [scan, 0, 0]);
    let next = scanning("qwen3next").u32("qwen3next.full_attention_interval", 2);
    assert_eq!(state_values(next), [scan, 0, scan]);
    // Two shifted embeddings, and a matrix for each head of 64.
    let rwkv = model("rwkv7").u32("rwkv7.wkv.head_size", 64);
    assert_eq!(state_values(rwkv), [256 * (2 + 64); 3]);
    let convolving = model("lfm2").u32("lfm2.shortconv.l_cache", 3).u32s("lfm2.attention.head_count_kv", &[0, 0, 2]);
    assert_eq!(state_values(convolving), [2 * 256, 2 * 256, 0]);
    assert_eq!(state_values(model("llama")), [0; 3]);
}

#[test]
fn encoders_keep_nothing() {
    for architecture in ["bert", "nomic-bert", "modern-bert", "jina-bert-v2", "gemma-embedding"] {
        let shape = shape(model(architecture)).unwrap();
        assert_eq!(shape.kv_bytes_per_token(KvType::F16, KvType::F16), Ok(0), "{architecture}");
        assert_eq!(shape.state_bytes_per_sequence(), 0, "{architecture}");
    }
}

#[test]
fn the_report_names_what_is_kept_and_nothing_else() {
    let report = |builder: FileBuilder| {
        let memory = MemoryRequest::new(512, KvType::F16);
        let options = InfoOptions { memory, list_tensors: false };
        ModelInfo::new(&builder.read().unwrap(), &options).unwrap().to_string()
    };
    let encoder = report(model("bert"));
    assert!(encoder.contains("KV cache       none: nothing is kept between computations"), "{encoder}");
    assert_eq!(encoder.matches("KV cache").count(), 1, "{encoder}");
    let scan = report(scanning("mamba2"));
    assert!(scan.contains("recurrent state 116.25 KiB (119040 bytes) per sequence"), "{scan}");
    assert!(!scan.contains("KV cache"), "{scan}");
    let both = report(scanning("falcon-h1"));
    assert!(both.contains("KV cache per token") && both.contains("recurrent state"), "{both}");
}

#[test]
fn latent_attention_keeps_one_row() {
    let builder = model("deepseek2")
        .u32("deepseek2.attention.head_count_kv", 1)
        .u32("deepseek2.attention.key_length", 576)
        .u32("deepseek2.attention.value_length", 512)
        .u32("deepseek2.attention.key_length_mla", 192);
    assert_eq!(shape(builder).unwrap().kv_bytes_per_token(KvType::F16, KvType::F16), Ok(3 * 576 * 2));
}

#[test]
fn what_is_wrong_with_the_metadata_is_named_with_its_key() {
    let without_layers = FileBuilder::new().text("general.architecture", "llama");
    let plain = |key: &str, value| without_layers.clone().u32("llama.block_count", value).u32(key, 0);
    let cases = [
        (FileBuilder::new(), "key 'general.architecture' is missing"),
        (without_layers.clone(), "key 'llama.block_count' is missing"),
        (plain("x", 0), "key 'llama.block_count' is 0, needed 1 to 512"),
        (plain("x", 513), "key 'llama.block_count' is 513, needed 1 to 512"),
        (
            without_layers.text("llama.block_count", "3"),
            "key 'llama.block_count' is text, needed an integer that is not negative",
        ),
        (
            model("llama").u32s("llama.attention.head_count_kv", &[1, 2]),
            "key 'llama.attention.head_count_kv' has 2 elements, needed one for each of 3 layers",
        ),
        (
            model("llama").u32("llama.attention.key_length", u32::MAX),
            "layer 0 has rows of 34359738360 keys, needed fewer than 2^32",
        ),
    ];
    for (builder, message) in cases {
        assert_eq!(shape(builder).unwrap_err().to_string(), format!("reading the shape: {message}"));
    }
}
