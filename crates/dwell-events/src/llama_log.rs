//! Memory that llama.cpp says it allocated, in the words of its log: that of the embedded engine and that of programs.
//!
//! ```text
//! load_tensors:   CPU_Mapped model buffer size =    92.10 MiB       since 2025; before, "llm_load_tensors: CPU buffer size"
//! llama_kv_cache:        CPU KV buffer size =    11.25 MiB
//! llama_memory_recurrent:        CPU RS buffer size =     2.31 MiB
//! sched_reserve:        CPU compute buffer size =    14.89 MiB
//! common_memory_breakdown_print: |   - Host               |                  118 =    92 +      11 +      14                |
//! ```

use crate::server::{BufferKind, ReportedBuffer};

const MIB: f64 = 1_048_576.0;
/// What the name of a buffer that maps the model's file ends with.
const MAPPED: &str = "_Mapped";

/// The buffers that a log tells of: each for itself if it does, or the rounded sums of the last breakdown.
pub fn reported_buffers(log: &str) -> Vec<ReportedBuffer> {
    let mut buffers: Vec<ReportedBuffer> = Vec::new();
    for buffer in log.lines().filter_map(buffer_line).filter(|buffer| buffer.bytes > 0) {
        // A scheduler says its size again when it had to grow; caches and weights come once for each buffer.
        let is_same = |old: &&mut ReportedBuffer| old.kind == BufferKind::Compute && old.device == buffer.device;
        match buffers.iter_mut().find(is_same).filter(|_| buffer.kind == BufferKind::Compute) {
            Some(old) => *old = buffer,
            None => buffers.push(buffer),
        }
    }
    if buffers.is_empty() { breakdown(log) } else { buffers }
}

fn buffer_line(line: &str) -> Option<ReportedBuffer> {
    let (before, after) = line.split_once("buffer size =")?;
    let mut amount = after.split_whitespace();
    let mib: f64 = amount.next()?.parse().ok()?;
    if amount.next()? != "MiB" {
        return None;
    }
    let mut words = before.split_whitespace().rev();
    let last = words.next()?;
    let (kind, device) = match last {
        "model" => (BufferKind::Weights, words.next()?),
        "KV" => (BufferKind::KvCache, words.next()?),
        "RS" => (BufferKind::RecurrentState, words.next()?),
        "compute" => (BufferKind::Compute, words.next()?),
        "output" | "LoRA" => (BufferKind::Other, words.next()?),
        _ if before.contains("load_tensors:") => (BufferKind::Weights, last),
        _ => return None,
    };
    let is_mapped = device.ends_with(MAPPED);
    let device = device.strip_suffix(MAPPED).unwrap_or(device).to_owned();
    Some(ReportedBuffer { kind, device, bytes: (mib * MIB).round() as u64, is_mapped })
}

/// The last table of the log: `self = model + context + compute`, in whole MiB, for each device.
fn breakdown(log: &str) -> Vec<ReportedBuffer> {
    let lines: Vec<&str> = log.lines().collect();
    let Some(header) = lines.iter().rposition(|line| line.contains("| memory breakdown [MiB]")) else {
        return Vec::new();
    };
    lines[header + 1..].iter().map_while(|line| breakdown_row(line)).flatten().collect()
}

fn breakdown_row(line: &str) -> Option<Vec<ReportedBuffer>> {
    let mut cells = line.split('|').skip(1);
    let name = cells.next()?.trim().strip_prefix("- ")?;
    // A device that was computed on has its parts in parentheses, after its own total.
    let cell = cells.next()?;
    let inner = cell.split_once('(').map_or(cell, |(_, inner)| inner.split(')').next().unwrap_or(inner));
    let parts: Vec<u64> = inner.split_once('=')?.1.split('+').filter_map(leading_number).collect();
    let device = name.split(" (").next().unwrap_or(name).trim();
    let kinds = [BufferKind::Weights, BufferKind::KvCache, BufferKind::Compute];
    let buffer = |(kind, mib): (BufferKind, &u64)| ReportedBuffer {
        kind,
        device: device.to_owned(),
        bytes: mib << 20,
        is_mapped: false,
    };
    Some(kinds.into_iter().zip(&parts).map(buffer).filter(|buffer| buffer.bytes > 0).collect())
}

fn leading_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}
