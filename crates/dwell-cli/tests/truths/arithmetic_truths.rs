//! Models whose bytes are arithmetic: what the trace says must be what the shape says, exactly.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use arrow_array::types::UInt32Type;
use dwell_events::schema::Table;

use crate::common::{Access, Run, Workplace, optional, wide};
use dwell_events::engine::KvType;
use dwell_gguf::{GgufFile, MakeArchitecture, MakeSpec, ModelShape, WeightType};

const PROMPT_TOKENS: u64 = 4; // The beginning-of-text token and one token per byte of the prompt.
const ARGUMENTS: [&str; 7] = ["--prompt", "abc", "--max-tokens", "6", "--ignore-end", "--chat-template", "off"];

/// Grouped heads, output tied to the embedding.
fn grouped_tied() -> MakeSpec {
    MakeSpec { layers: 3, embedding: 128, heads: 4, kv_heads: 2, feed_forward: 192, ..MakeSpec::default() }
}

/// One key head per query head, an output matrix of its own.
fn full_untied() -> MakeSpec {
    MakeSpec { kv_heads: 4, tied_output: false, weight_type: WeightType::Q8_0, ..grouped_tied() }
}

/// Eight experts of which two work.
fn experts() -> MakeSpec {
    MakeSpec { layers: 2, experts: 8, experts_used: 2, tied_output: false, ..grouped_tied() }
}

/// Heads wider than the embedding divided among them, quantised in larger blocks.
fn wide_heads() -> MakeSpec {
    MakeSpec { embedding: 256, head_dim: Some(128), feed_forward: 256, weight_type: WeightType::Q4_K, ..grouped_tied() }
}

/// Every second layer sees five positions.
fn windowed() -> MakeSpec {
    MakeSpec {
        architecture: MakeArchitecture::Gemma3,
        layers: 4,
        window: Some(5),
        head_dim: Some(32),
        ..grouped_tied()
    }
}

struct Truth {
    run: Run,
    file: GgufFile,
    shape: ModelShape,
    accesses: Vec<Access>,
    kv_type: KvType,
    _place: Workplace,
}

impl Truth {
    fn of(spec: MakeSpec, kv_type: KvType, more: &[&str]) -> Self {
        let place = Workplace::new();
        let model = place.model(spec);
        let run = place.run(&model, &[&ARGUMENTS[..], &["--kv-type", kv_type.name()], more].concat());
        let file = GgufFile::open(Path::new(&model)).unwrap();
        let shape = ModelShape::from_gguf(&file).unwrap();
        let accesses = run.accesses();
        Self { run, file, shape, accesses, kv_type, _place: place }
    }

    fn bytes(&self, step: u64, region_type: &str, is_store: bool) -> u64 {
        let is_it = |access: &&Access| {
            access.step == Some(step as u32) && access.region_type == region_type && access.is_store == is_store
        };
        self.accesses.iter().filter(is_it).map(|access| access.size_bytes).sum()
    }

    fn kv_bytes_per_token(&self) -> u64 {
        self.shape.kv_bytes_per_token(self.kv_type, self.kv_type).unwrap()
    }

    fn tensor_bytes(&self, is_wanted: impl Fn(&str) -> bool) -> u64 {
        self.file.tensors().iter().filter(|tensor| is_wanted(&tensor.name)).map(|tensor| tensor.size_bytes).sum()
    }

    fn embedding_row_bytes(&self) -> u64 {
        let table = self.file.tensor("token_embd.weight").unwrap();
        table.size_bytes / table.dimensions[1]
    }

    /// What a decode step must load: every tensor once, of the experts only those that work, and one embedding row; the
    /// embedding as a whole if it is the output matrix too.
    fn weight_bytes_per_token(&self) -> u64 {
        let is_expert = |name: &str| name.contains("_exps.");
        let dense = self.tensor_bytes(|name| !is_expert(name) && name != "token_embd.weight");
        let experts = self.tensor_bytes(is_expert);
        let working = if self.shape.experts == 0 {
            0
        } else {
            experts / u64::from(self.shape.experts) * u64::from(self.shape.experts_used)
        };
        let output = if self.file.tensor("output.weight").is_none() {
            self.tensor_bytes(|name| name == "token_embd.weight")
        } else {
            0
        };
        dense + working + output + self.embedding_row_bytes()
    }

    /// Keys and values of one position in one layer.
    fn layer_row_bytes(&self, layer: usize) -> u64 {
        let layer = &self.shape.layers[layer];
        let row = |width: u64| self.kv_type.row_bytes(width).unwrap();
        row(u64::from(layer.kv_heads) * u64::from(layer.key_length))
            + row(u64::from(layer.kv_heads) * u64::from(layer.value_length))
    }
}

fn every_shape_and_cache_type() -> Vec<(&'static str, MakeSpec, KvType)> {
    type Shape = (&'static str, fn() -> MakeSpec);
    let shapes: [Shape; 5] = [
        ("grouped_tied", grouped_tied),
        ("full_untied", full_untied),
        ("experts", experts),
        ("wide_heads", wide_heads),
        ("windowed", windowed),
    ];
    shapes.iter().flat_map(|(name, shape)| KvType::ALL.map(|kv_type| (*name, shape(), kv_type))).collect()
}

#[test]
fn stored_kv_bytes_loaded_weights_and_loaded_kv_bytes_are_the_arithmetic_of_the_shape() {
    for (name, spec, kv_type) in every_shape_and_cache_type() {
        let window = spec.window;
        let truth = Truth::of(spec, kv_type, &[]);
        let name = format!("{name} {}", kv_type.name());
        assert_eq!(truth.bytes(0, "kv_cache", true), PROMPT_TOKENS * truth.kv_bytes_per_token(), "{name}: prompt");
        for step in 1..=5 {
            let context = PROMPT_TOKENS + step;
            assert_eq!(
                truth.bytes(step, "kv_cache", true),
                truth.kv_bytes_per_token(),
                "{name}: stores of step {step}"
            );
            assert_eq!(
                truth.bytes(step, "weight", false),
                truth.weight_bytes_per_token(),
                "{name}: weights of step {step}"
            );
            let visible = |layer: usize| match window.filter(|_| truth.shape.layers[layer].windowed) {
                Some(window) => context.min(u64::from(window)),
                None => context,
            };
            let expected: u64 =
                (0..truth.shape.layers.len()).map(|layer| visible(layer) * truth.layer_row_bytes(layer)).sum();
            assert_eq!(truth.bytes(step, "kv_cache", false), expected, "{name}: KV loads of step {step}");
        }
        assert_eq!(truth.bytes(1, "unknown", false) + truth.bytes(1, "unknown", true), 0, "{name}");
    }
}

#[test]
fn every_cell_is_stored_once_per_position_layer_and_kind() {
    for (name, spec, kv_type) in every_shape_and_cache_type() {
        let truth = Truth::of(spec, kv_type, &[]);
        let mut lives: BTreeMap<(u16, String, i32), u32> = BTreeMap::new();
        for block in truth.run.blocks() {
            assert_eq!(block.sequence, Some(0), "{name}");
            *lives.entry((block.layer, block.kind, block.position.unwrap())).or_default() += 1;
        }
        let positions = (PROMPT_TOKENS + 5) as usize;
        assert_eq!(lives.len(), truth.shape.layers.len() * 2 * positions, "{name}");
        assert!(lives.values().all(|&count| count == 1), "{name}: {lives:?}");
    }
}

#[test]
fn a_prompt_gathers_only_the_rows_of_its_tokens() {
    let truth = Truth::of(full_untied(), KvType::F16, &[]);
    let gathered: u64 = truth
        .accesses
        .iter()
        .filter(|access| access.step == Some(0) && access.tensor == "token_embd.weight" && !access.is_store)
        .map(|access| access.size_bytes)
        .sum();
    assert_eq!(gathered, PROMPT_TOKENS * truth.embedding_row_bytes());
}

#[test]
fn results_are_read_inputs_written_and_the_cache_cleared_as_often_as_the_runtime_does() {
    let truth = Truth::of(full_untied(), KvType::F16, &["--context-length", "256"]);
    let of_op = |op: &str, step: Option<u32>| -> Vec<&Access> {
        truth.accesses.iter().filter(|access| access.op == op && access.step == step).collect()
    };
    let logits_bytes = 4 * u64::from(truth.shape.vocabulary);
    for step in 0..=5 {
        let reads = of_op("ggml_backend_tensor_get", Some(step));
        let [logits] = reads[..] else { panic!("step {step}: {reads:?}") };
        assert_eq!((logits.tensor.as_str(), logits.size_bytes), ("result_output", logits_bytes), "step {step}");
        assert!(!logits.is_store && logits.region_type == "activation", "step {step}");
        let loaded = truth.accesses.iter().filter(|access| access.step == Some(step) && !access.is_store);
        let inputs: BTreeSet<u64> = of_op("set_input", Some(step)).iter().map(|input| input.address).collect();
        let read: BTreeSet<u64> = loaded.map(|access| access.address).collect();
        assert!(!inputs.is_empty() && inputs.is_subset(&read), "step {step}: an input that nobody reads");
    }
    let tokens: Vec<u64> = (0..=1)
        .map(|step| {
            let ids = of_op("set_input", Some(step)).into_iter().find(|input| input.tensor == "inp_tokens");
            ids.unwrap().size_bytes
        })
        .collect();
    assert_eq!(tokens, [4 * PROMPT_TOKENS, 4]);
    let cleared: u64 = of_op("ggml_backend_buffer_clear", None).iter().map(|clear| clear.size_bytes).sum();
    assert_eq!(cleared, 256 * truth.kv_bytes_per_token());
}

#[test]
fn every_row_of_a_token_lies_in_the_time_of_that_token() {
    let truth = Truth::of(grouped_tied(), KvType::F16, &[]);
    let mut times: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for batch in truth.run.batches(Table::Tokens) {
        for row in 0..batch.num_rows() {
            let index = optional::<UInt32Type>(&batch, "token_index", row).unwrap();
            times.insert(index, (wide(&batch, "begin_ns", row), wide(&batch, "end_ns", row)));
        }
    }
    let rows: Vec<&Access> = truth.accesses.iter().filter(|access| access.token_index.is_some()).collect();
    for access in &rows {
        let (begin_ns, end_ns) = times[&access.token_index.unwrap()];
        assert!((begin_ns..=end_ns).contains(&access.timestamp_ns), "{access:?} in {begin_ns}..{end_ns}");
    }
    let decoded: BTreeSet<u32> = rows.iter().filter_map(|access| access.token_index).collect();
    assert_eq!(decoded.len(), 5, "each token but the one that the prompt gives");
}

#[test]
fn attention_in_separate_operations_reads_every_padded_cell() {
    let truth = Truth::of(grouped_tied(), KvType::F16, &["--flash-attention", "off"]);
    let padded_cells = 256;
    for step in 1..=5 {
        assert_eq!(truth.bytes(step, "kv_cache", false), padded_cells * truth.kv_bytes_per_token(), "step {step}");
        assert_eq!(truth.bytes(step, "kv_cache", true), truth.kv_bytes_per_token(), "step {step}");
    }
    let positions: BTreeSet<i32> = truth.run.blocks().iter().filter_map(|block| block.position).collect();
    assert_eq!(positions, (0..(PROMPT_TOKENS + 5) as i32).collect());
    let occupied: u64 = (0..=5).map(|step| PROMPT_TOKENS + step).sum();
    let loads = &truth.run.metadata()["kv_accesses"];
    assert_eq!(loads["loaded_occupied_bytes"], occupied * truth.kv_bytes_per_token());
    assert_eq!(loads["loaded_unoccupied_bytes"], (6 * padded_cells - occupied) * truth.kv_bytes_per_token());
}

#[test]
fn every_weight_is_stored_once_while_loading_in_each_way_of_loading() {
    for more in [&["--mmap", "on"][..], &["--mmap", "off"], &["--mmap", "off", "--repack", "off"], &["--repack", "off"]]
    {
        let truth = Truth::of(wide_heads(), KvType::F16, more);
        let mut stored: BTreeMap<u64, u64> = BTreeMap::new();
        let is_loading = |access: &&Access| access.phase == "weight_load" && access.op != "ggml_backend_buffer_clear";
        for access in truth.accesses.iter().filter(is_loading) {
            assert!(access.is_store && access.region_type == "weight");
            assert_eq!(stored.insert(access.address, access.size_bytes), None, "{more:?}: {}", access.tensor);
        }
        let loaded: BTreeSet<&str> =
            truth.accesses.iter().filter(is_loading).map(|access| access.tensor.as_str()).collect();
        let in_file: BTreeSet<&str> = truth.file.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
        assert_eq!(loaded, in_file, "{more:?}");
        // The tied embedding is there twice if its rearranged copy is the output matrix.
        let total: u64 = stored.values().sum();
        let file_total = truth.file.tensor_bytes();
        let embedding = truth.tensor_bytes(|name| name == "token_embd.weight");
        assert!(total == file_total || total == file_total + embedding, "{more:?}: {total} of {file_total}");
    }
}

#[test]
fn parallel_sequences_have_every_position_once_in_one_pool_or_a_stream_each() {
    for more in [&["--parallel", "3", "--kv-unified"][..], &["--parallel", "3", "--context-length", "768"]] {
        let truth = Truth::of(grouped_tied(), KvType::F16, more);
        let mut places: BTreeMap<(i32, i32, u16, String), u32> = BTreeMap::new();
        let mut cells = BTreeSet::new();
        for block in truth.run.blocks() {
            let place = (block.sequence.unwrap(), block.position.unwrap(), block.layer, block.kind.clone());
            *places.entry(place).or_default() += 1;
            cells.insert((block.layer, block.kind, block.cell));
        }
        let positions = (PROMPT_TOKENS + 5) as usize;
        assert_eq!(places.len(), 3 * positions * truth.shape.layers.len() * 2, "{more:?}");
        assert_eq!(cells.len(), places.len(), "{more:?}: one cell for each");
        assert_eq!(truth.bytes(1, "kv_cache", true), 3 * truth.kv_bytes_per_token(), "{more:?}");
        assert_eq!(truth.bytes(2, "kv_cache", false), 3 * (PROMPT_TOKENS + 2) * truth.kv_bytes_per_token(), "{more:?}");
    }
}

#[test]
fn a_context_shift_removes_half_and_rotates_the_keys_of_the_rest() {
    let place = Workplace::new();
    let model = place.model(grouped_tied());
    let arguments = ["--prompt", "abc", "--max-tokens", "300", "--ignore-end", "--context-shift"];
    let run = place.run(&model, &arguments);
    let blocks = run.blocks();
    let causes = |kind: &str| -> BTreeSet<String> {
        blocks.iter().filter(|block| block.kind == kind).map(|block| block.end_cause.clone()).collect()
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(causes("k"), names(&["removed", "rewritten", "teardown"]));
    assert_eq!(causes("v"), names(&["removed", "teardown"]));
    // Keys that were rotated go on at the same cell, at an earlier position.
    let rotated: Vec<_> = blocks.iter().filter(|block| block.end_cause == "rewritten").collect();
    for block in &rotated {
        let next = blocks.iter().find(|next| {
            (next.layer, next.kind.as_str(), next.cell, next.write_ns)
                == (block.layer, "k", block.cell, block.evict_ns.unwrap())
        });
        assert!(next.unwrap().position <= block.position);
    }
    let stored_values = blocks.iter().filter(|block| block.kind == "v").count();
    assert_eq!(stored_values, 3 * (PROMPT_TOKENS as usize + 299), "one life per value of each layer");
}

#[test]
fn removed_cells_are_used_again_and_a_copy_between_streams_is_a_named_loss() {
    let place = Workplace::new();
    let model = place.model(grouped_tied());
    let actions = place.path().join("actions.json");
    let text = r#"[
        {"do": "prompt", "text": "abcdefg", "sequences": [0]},
        {"do": "generate", "max_tokens": 2, "sequences": [0]},
        {"do": "copy", "source": 0, "target": 1},
        {"do": "remove", "sequence": 0, "from": 2, "to": -1},
        {"do": "prompt", "text": "xy", "sequences": [0]},
        {"do": "generate", "max_tokens": 2, "sequences": [0, 1]}
    ]"#;
    std::fs::write(&actions, text).unwrap();
    let arguments =
        ["--parallel", "2", "--context-length", "512", "--ignore-end", "--actions", actions.to_str().unwrap()];
    let run = place.run_command(&model, &arguments).output().unwrap();
    assert_eq!(run.status.code(), Some(1), "bytes were moved outside the graph: {}", crate::common::text_of(&run));
    let run = place.opened_run(&model);
    let losses = run.losses();
    assert!(losses.iter().any(|(kind, count)| kind == "kv_stream_copy" && *count == 1), "{losses:?}");
    let blocks = run.blocks();
    let removed: Vec<_> = blocks.iter().filter(|block| block.end_cause == "removed").collect();
    assert!(!removed.is_empty() && removed.iter().all(|block| block.position >= Some(2) && block.sequence == Some(0)));
    let reused = removed.iter().filter(|old| {
        blocks.iter().any(|new| {
            (new.layer, &new.kind, new.cell) == (old.layer, &old.kind, old.cell) && new.write_ns > old.evict_ns.unwrap()
        })
    });
    assert!(reused.count() > 0, "freed cells are taken again");
}

#[test]
fn the_region_map_sums_up_the_trace() {
    let truth = Truth::of(experts(), KvType::Q8_0, &[]);
    let mut sums: BTreeMap<u32, (u64, u64, u64)> = BTreeMap::new();
    for access in &truth.accesses {
        let sum = sums.entry(access.region_id).or_default();
        sum.0 += 1;
        if access.is_store { sum.2 += access.size_bytes } else { sum.1 += access.size_bytes }
    }
    let mut listed = BTreeMap::new();
    for batch in truth.run.batches(dwell_events::schema::Table::RegionMap) {
        for row in 0..batch.num_rows() {
            let signed = |name| crate::common::optional::<arrow_array::types::Int64Type>(&batch, name, row).unwrap();
            let counts = (
                signed("access_count") as u64,
                crate::common::wide(&batch, "bytes_read", row),
                crate::common::wide(&batch, "bytes_written", row),
            );
            listed.insert(signed("region_id") as u32, counts);
        }
    }
    assert_eq!(listed, sums);
}
