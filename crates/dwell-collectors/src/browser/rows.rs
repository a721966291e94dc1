//! Samples of a page as rows, and back.

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use dwell_events::page_sample::PageSample;

use super::{column, pids, schema_batch};

/// In the order of the table's columns.
pub(super) fn batch(samples: &[PageSample]) -> RecordBatch {
    schema_batch(vec![
        column(samples, |sample| Some(sample.time_ns)),
        pids(samples),
        column(samples, |sample| sample.heap_used_bytes),
        column(samples, |sample| sample.heap_total_bytes),
        column(samples, |sample| Some(sample.wasm_bytes)),
        column(samples, |sample| sample.ua_memory_bytes),
        column(samples, |sample| Some(sample.gpu_bytes)),
        column(samples, |sample| Some(sample.gpu_weight_bytes)),
        column(samples, |sample| Some(sample.gpu_kv_cache_bytes)),
        column(samples, |sample| Some(sample.gpu_other_bytes)),
        column(samples, |sample| sample.kv_bytes),
        column(samples, |sample| sample.storage_bytes),
        column(samples, |sample| Some(sample.tokens)),
    ])
}

/// The samples of a batch; a column that is missing is not known.
pub(super) fn samples(batch: &RecordBatch) -> Vec<PageSample> {
    let number = |name: &str, row: usize| {
        let column = batch.column_by_name(name)?.as_primitive_opt::<UInt64Type>()?;
        column.is_valid(row).then(|| column.value(row))
    };
    let pid = |row: usize| {
        let column = batch.column_by_name("pid")?.as_primitive_opt::<UInt32Type>()?;
        column.is_valid(row).then(|| column.value(row))
    };
    let sample = |row: usize| PageSample {
        time_ns: number("timestamp_ns", row).unwrap_or(0),
        pid: pid(row),
        heap_used_bytes: number("heap_used_bytes", row),
        heap_total_bytes: number("heap_total_bytes", row),
        wasm_bytes: number("wasm_bytes", row).unwrap_or(0),
        ua_memory_bytes: number("ua_memory_bytes", row),
        gpu_bytes: number("gpu_bytes", row).unwrap_or(0),
        gpu_weight_bytes: number("gpu_weight_bytes", row).unwrap_or(0),
        gpu_kv_cache_bytes: number("gpu_kv_cache_bytes", row).unwrap_or(0),
        gpu_other_bytes: number("gpu_other_bytes", row).unwrap_or(0),
        kv_bytes: number("kv_bytes", row),
        storage_bytes: number("storage_bytes", row),
        tokens: number("tokens", row).unwrap_or(0),
    };
    (0..batch.num_rows()).map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_comes_back_as_it_was() {
        let full = PageSample {
            time_ns: 1,
            pid: Some(2),
            heap_used_bytes: Some(3),
            heap_total_bytes: Some(4),
            wasm_bytes: 5,
            ua_memory_bytes: Some(6),
            gpu_bytes: 7,
            gpu_weight_bytes: 8,
            gpu_kv_cache_bytes: 9,
            gpu_other_bytes: 10,
            kv_bytes: Some(11),
            storage_bytes: Some(12),
            tokens: 13,
        };
        let known = vec![full, PageSample::default()];
        assert_eq!(samples(&batch(&known)), known);
    }
}
