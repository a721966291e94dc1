//! A run of any length, such as a model leaves that answers for hours: every step reads all weights, writes and reads
//! activations, writes one KV cell per layer and reads the last few.

use std::fs;
use std::path::Path;

use anyhow::Context;
use dwell_events::schema::region_map::{self, RegionRow};
use dwell_events::schema::trace::{TraceBuilder, TraceRow};
use dwell_events::schema::{Table, loss, tokens};
use dwell_events::{OpType, Phase, RegionType};
use dwell_metadata::RunMetadata;
use dwell_store::{RunDir, RunState, TableWriter};

const LAYERS: u32 = 30;
const ROWS_PER_BATCH: usize = 32 * 1024;
/// Time from one access to the next.
const ACCESS_NS: u64 = 20_000;
const KV_CELLS: u64 = 4096;
const KV_CELL_BYTES: u64 = 768;
/// Cells that a step reads, as attention with a sliding window does.
const KV_WINDOW_CELLS: u64 = 16;
/// Distance between two tensors.
const TENSOR_BYTES: u64 = 4 << 20;

/// What a layer's step does, in order: op, region type, tensor, bytes.
const STEP: [(OpType, RegionType, &str, u64); 12] = [
    (OpType::Load, RegionType::Weight, "attn_norm.weight", 2_304),
    (OpType::Store, RegionType::Activation, "attn_norm", 2_304),
    (OpType::Load, RegionType::Activation, "attn_norm", 2_304),
    (OpType::Load, RegionType::Weight, "attn_qkv.weight", 345_600),
    (OpType::Store, RegionType::KvCache, "cache_k", KV_CELL_BYTES),
    (OpType::Load, RegionType::KvCache, "cache_k", KV_CELL_BYTES * KV_WINDOW_CELLS),
    (OpType::Load, RegionType::Weight, "attn_output.weight", 207_360),
    (OpType::Store, RegionType::Activation, "attn_out", 2_304),
    (OpType::Load, RegionType::Weight, "ffn_up.weight", 552_960),
    (OpType::Load, RegionType::Activation, "attn_out", 2_304),
    (OpType::Load, RegionType::Weight, "ffn_down.weight", 552_960),
    (OpType::Store, RegionType::Activation, "l_out", 2_304),
];

/// Writes the tables of a finished run; metrics and picture are left to others.
pub(crate) fn write(folder: &Path, rows: u64) -> anyhow::Result<RunDir> {
    let run = RunDir::create(folder, "long", "run")?;
    let regions = regions();
    let mut trace = TableWriter::create(run.path(), Table::Trace)?;
    let mut builder = TraceBuilder::new("run");
    for row in 0..rows {
        builder.push(&access(row, &regions));
        if builder.len() >= ROWS_PER_BATCH {
            trace.write(&builder.finish_batch())?;
        }
    }
    trace.write(&builder.finish_batch())?;
    trace.finish()?;
    let mut table = TableWriter::create(run.path(), Table::RegionMap)?;
    table.write(&region_map::batch(&regions))?;
    table.finish()?;
    for (table, batch) in [(Table::Tokens, tokens::batch(&[])), (Table::Loss, loss::batch(&[]))] {
        let mut writer = TableWriter::create(run.path(), table)?;
        writer.write(&batch)?;
        writer.finish()?;
    }
    let metadata = RunMetadata {
        metadata_schema_version: RunMetadata::VERSION.to_owned(),
        run_id: "run".to_owned(),
        model_id: "long".to_owned(),
        engine: "llama_cpp".to_owned(),
        state: RunState::Complete.name().to_owned(),
        ..RunMetadata::default()
    };
    let metadata = serde_json::to_vec(&metadata).context("writing metadata")?;
    fs::write(run.metadata_json(), metadata).context("writing metadata")?;
    run.set_state(RunState::Complete)?;
    Ok(run)
}

/// One region per layer and tensor, in the order in which they are first used.
fn regions() -> Vec<RegionRow> {
    let mut regions: Vec<RegionRow> = Vec::new();
    for layer in 0..LAYERS {
        for (place, (_, region_type, tensor, bytes)) in STEP.into_iter().enumerate() {
            if place == first_use(tensor) {
                let region_id = regions.len() as u32 + 1;
                let size_bytes = if tensor == "cache_k" { KV_CELLS * KV_CELL_BYTES } else { bytes };
                let address = 0x7f00_0000_0000 + u64::from(region_id) * TENSOR_BYTES;
                regions.push(RegionRow {
                    layer: Some(layer as u16),
                    ..region(region_id, region_type, tensor, address, size_bytes)
                });
            }
        }
    }
    regions
}

fn region(region_id: u32, region_type: RegionType, tensor: &str, address: u64, size_bytes: u64) -> RegionRow {
    RegionRow {
        region_id,
        region_type,
        address,
        size_bytes,
        first_seen_ns: 0,
        last_seen_ns: 0,
        access_count: 0,
        tensor: tensor.to_owned(),
        layer: None,
        bytes_read: 0,
        bytes_written: 0,
        origin: "computed",
        file_offset: None,
        freed_ns: None,
    }
}

/// Where a tensor is used first in a layer's step.
fn first_use(tensor: &str) -> usize {
    STEP.iter().position(|(_, _, name, _)| *name == tensor).unwrap_or(0)
}

/// How many tensors are used before one.
fn tensors_before(place: usize) -> usize {
    (0..place).filter(|&earlier| first_use(STEP[earlier].2) == earlier).count()
}

fn access(row: u64, regions: &[RegionRow]) -> TraceRow<'_> {
    let per_layer = STEP.len() as u64;
    let per_step = per_layer * u64::from(LAYERS);
    let (step, layer, place) = (row / per_step, row % per_step / per_layer, (row % per_layer) as usize);
    let (op_type, region_type, tensor, size_bytes) = STEP[place];
    let tensors = regions.len() / LAYERS as usize;
    let region = &regions[layer as usize * tensors + tensors_before(first_use(tensor))];
    let cell = match (region_type, op_type) {
        (RegionType::KvCache, OpType::Store) => step % KV_CELLS,
        (RegionType::KvCache, OpType::Load) => (step % KV_CELLS).saturating_sub(KV_WINDOW_CELLS),
        _ => 0,
    };
    TraceRow {
        timestamp_ns: 1_000_000_000 + row * ACCESS_NS,
        phase: Some(Phase::Generation),
        address: region.address + cell * KV_CELL_BYTES,
        size_bytes,
        op_type,
        symbol: if region_type == RegionType::KvCache { "FLASH_ATTN_EXT" } else { "MUL_MAT" },
        region_type,
        region_id: region.region_id,
        step: u32::try_from(step + 1).ok(),
        tensor: &region.tensor,
        layer: region.layer,
        source: "tensor_ops",
        period: 1,
        ..TraceRow::EMPTY
    }
}
