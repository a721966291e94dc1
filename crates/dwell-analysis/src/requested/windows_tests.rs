use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::Basis;
use crate::reader::Manner;

/// Of which the access is.
const TYPE: usize = 2;

fn access(timestamp_ns: u64, address: u64, size_bytes: u64, op_type: OpType) -> Access {
    Access {
        timestamp_ns,
        address,
        size_bytes,
        region_id: 0,
        step: None,
        region_type: TYPE as u16,
        op_type,
        basis: Basis::Exact,
        period: 1,
        manner: Manner::Ordinary,
    }
}

fn followed(accesses: &[Access], shortest_ns: u64) -> AccessWindows {
    let mut windows = AccessWindows::new(shortest_ns);
    accesses.iter().for_each(|access| windows.follow(access, TYPE));
    windows
}

/// Start, bytes read, bytes written and distinct bytes of each window.
fn rows(windows: &AccessWindows) -> Vec<(u64, u64, u64, u64)> {
    let row = |row: WindowTraffic| (row.from_ns, row.bytes_read, row.bytes_written, row.working_set_bytes);
    windows.traffic_of(TYPE).into_iter().map(row).collect()
}

#[test]
fn a_byte_counts_once_in_each_window() {
    let accesses = [
        access(5, 0, 10, OpType::Store),
        access(7, 0, 4, OpType::Load),
        access(12, 2, 10, OpType::Load),
        access(33, 2, 10, OpType::Load),
    ];
    let windows = followed(&accesses, 10);
    assert_eq!(rows(&windows), [(0, 4, 10, 10), (10, 10, 0, 10), (30, 10, 0, 10)]);
    assert_eq!(windows.of_type(TYPE).windows, 4, "the third window is there, and empty");
}

#[test]
fn a_long_trace_has_longer_windows() {
    let accesses: Vec<Access> = (0..2 * WINDOWS_MOST).map(|now_ns| access(now_ns, 0, 8, OpType::Load)).collect();
    let windows = followed(&accesses, 1);
    assert_eq!((windows.window_ns(), windows.traffic.len() as u64), (2, WINDOWS_MOST));
    assert!(rows(&windows).iter().all(|row| (row.1, row.3) == (16, 8)), "read twice in each window");
    let far = followed(&[access(0, 0, 8, OpType::Load), access(u64::MAX, 0, 8, OpType::Load)], 1);
    assert_eq!(far.traffic.len() as u64, WINDOWS_MOST);
    assert_eq!(rows(&far).iter().map(|row| row.3).collect::<Vec<_>>(), [8, 8]);
}

/// What is in the windows of one length, byte by byte.
fn plain(accesses: &[Access], window_ns: u64) -> Vec<(u64, u64, u64, u64)> {
    let mut starts: Vec<u64> = accesses.iter().map(|access| access.timestamp_ns / window_ns * window_ns).collect();
    starts.dedup();
    let row = |start: u64| {
        let inside = || accesses.iter().filter(move |access| access.timestamp_ns / window_ns * window_ns == start);
        let bytes = |op_type| inside().filter(|access| access.op_type == op_type).map(|access| access.size_bytes).sum();
        let distinct: BTreeSet<u64> = inside().flat_map(|access| access.address..access.end()).collect();
        (start, bytes(OpType::Load), bytes(OpType::Store), distinct.len() as u64)
    };
    starts.into_iter().map(row).collect()
}

proptest! {
    #[test]
    fn windows_of_any_length_hold_what_they_hold_byte_by_byte(
        parts in prop::collection::vec((0u64..60, 0u64..30, 1u64..9, any::<bool>(), any::<bool>()), 1..80),
        lengthened in 0u32..6,
    ) {
        let mut now_ns = 1_000;
        let accesses: Vec<Access> = parts.into_iter().map(|(pause_ns, address, size, is_store, is_upper)| {
            now_ns += pause_ns;
            let op_type = if is_store { OpType::Store } else { OpType::Load };
            access(now_ns, address + if is_upper { 1 << 20 } else { 0 }, size, op_type)
        }).collect();
        let mut windows = followed(&accesses, 7);
        (0..lengthened).for_each(|_| windows.lengthen());
        prop_assert_eq!(rows(&windows), plain(&accesses, 7 << lengthened));
    }
}
