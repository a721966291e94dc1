//! What rows say one by one: read frequency and locality.

use dwell_events::schema::trace::TraceRow;
use dwell_events::{OpType, PAGE_SHIFT, RegionType};

use crate::Expected;
use crate::plain_statistics::{mean, quantile, share};

pub fn expected(rows: &[TraceRow<'_>], region_type: RegionType) -> Expected {
    let own: Vec<&TraceRow<'_>> = rows.iter().filter(|row| row.region_type == region_type).collect();
    let bytes = |op_type: OpType, is_meant: fn(&TraceRow<'_>) -> bool| -> f64 {
        own.iter().filter(|row| row.op_type == op_type && is_meant(row)).map(|row| row.size_bytes as f64).sum()
    };
    let rows_that = |op_type: OpType| own.iter().filter(|row| row.op_type == op_type).count() as f64;
    let is_decoding = |row: &TraceRow<'_>| row.step.is_some_and(|step| step > 0);
    let (read, written) = (bytes(OpType::Load, |_| true), bytes(OpType::Store, |_| true));
    let mut expected = locality(&own);
    expected.extend([
        ("loads", Some(rows_that(OpType::Load))),
        ("stores", Some(rows_that(OpType::Store))),
        ("bytes_read", Some(read)),
        ("bytes_written", Some(written)),
        ("read_write_ratio", share(read, written)),
        ("decode_bytes_read", Some(bytes(OpType::Load, is_decoding))),
        ("decode_bytes_written", Some(bytes(OpType::Store, is_decoding))),
    ]);
    expected
}

/// Of each row and the row of the type before it.
fn locality(own: &[&TraceRow<'_>]) -> Expected {
    let pairs: Vec<(&TraceRow<'_>, &TraceRow<'_>)> = own.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let is_sequential =
        |(before, row): &&(&TraceRow<'_>, &TraceRow<'_>)| before.address + before.size_bytes == row.address;
    let last_byte = |row: &TraceRow<'_>| (row.address + row.size_bytes).saturating_sub(1).max(row.address);
    let is_same_page =
        |(before, row): &&(&TraceRow<'_>, &TraceRow<'_>)| last_byte(before) >> PAGE_SHIFT == row.address >> PAGE_SHIFT;
    let bytes = |pair: &(&TraceRow<'_>, &TraceRow<'_>)| pair.1.size_bytes as f64;
    let strides: Vec<f64> = pairs.iter().map(|(before, row)| before.address.abs_diff(row.address) as f64).collect();
    Expected::from([
        ("sequential_share", share(pairs.iter().filter(is_sequential).map(bytes).sum(), pairs.iter().map(bytes).sum())),
        ("same_page_share", share(pairs.iter().filter(is_same_page).count() as f64, pairs.len() as f64)),
        ("stride_mean_bytes", mean(&strides)),
        ("stride_median_bytes", quantile(&strides, 0.5)),
    ])
}
