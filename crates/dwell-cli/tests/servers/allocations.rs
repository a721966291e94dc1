//! What llama-server allocates, and how much of its memory that accounts for.

use arrow_array::types::UInt64Type;
use dwell_events::schema::{Table, TableSpec};
use dwell_gguf::MakeSpec;

use crate::common::{Workplace, dwell, llama_program, optional, text, text_of, wide};
use crate::lab::{done, started};

static LIVES: TableSpec = TableSpec { name: "allocation_lives", columns: &[] };
/// Keys and values of a position in all layers: 4 layers, 16 heads of 128, two tensors of f16.
const KV_BYTES_OF_POSITION: u64 = 4 * 16 * 128 * 2 * 2;
const POSITIONS: u64 = 8192;

#[test]
fn allocations_account_for_what_the_memory_of_llama_server_grows_by() {
    let Some(program) =
        llama_program("allocations_account_for_what_the_memory_of_llama_server_grows_by", "llama-server")
    else {
        return;
    };
    let place = Workplace::new();
    let model = place.model(MakeSpec {
        layers: 4,
        embedding: 128,
        heads: 16,
        kv_heads: 16,
        head_dim: Some(128),
        feed_forward: 128,
        context: 16384,
        tied_output: false,
        ..MakeSpec::default()
    });
    let length = POSITIONS.to_string();
    let mut arguments = vec!["--prompt", "hello", "--ignore-end", "--max-tokens", "64", "--context-length", &length];
    arguments.extend(["--collect", "tensor_ops,process,alloc"]);
    let run = done(&place, &model, started(&place, &model, "llama_server", &program, &arguments));
    let metadata = run.metadata();
    let agreement = metadata["agreements"].as_array().unwrap().iter().find(|agreement| agreement["first"] == "alloc");
    let agreement = agreement.unwrap_or_else(|| panic!("{metadata}"));
    let count = |key: &str| agreement[key].as_u64().unwrap();
    let (accounted, other) = (count("both"), count("second_only"));
    assert!(accounted > KV_BYTES_OF_POSITION * POSITIONS, "{agreement}");
    assert!(accounted as f64 >= 0.99 * (accounted + other) as f64, "{agreement}");
    assert!(run.losses().iter().all(|(kind, _)| kind != "lost_allocations"), "{:?}", run.losses());
    let shown = dwell().arg("show").arg(&run.dir).output().unwrap();
    assert!(text_of(&shown).contains("alloc and the kernel on 99."), "{}", text_of(&shown));
    // The KV cache is one allocation, which lives as long as the server has its context.
    let largest = run.batches(Table::Own(&LIVES)).into_iter().flat_map(|batch| {
        let is_cache = |row: &usize| {
            (0..batch.num_rows()).contains(row)
                && optional::<UInt64Type>(&batch, "size_bytes", *row) >= Some(KV_BYTES_OF_POSITION * POSITIONS)
                && text(&batch, "region_type", *row) == "kv_cache"
        };
        (0..batch.num_rows()).filter(is_cache).map(|row| wide(&batch, "size_bytes", row)).collect::<Vec<_>>()
    });
    assert_eq!(largest.count(), 1);
}
