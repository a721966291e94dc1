//! The metrics on request.

use std::collections::{BTreeMap, BTreeSet};

use dwell_events::schema::trace::TraceRow;
use dwell_events::{OpType, RegionType};

use crate::bytes::byte_accesses;
use crate::lives::{lives, step_begins_ns, steps_between};
use crate::plain_statistics::{largest, mean, median, quantile, share};
use crate::{Expected, WINDOW_NS};

const NS_PER_S: f64 = 1e9;

/// Tokens per second that suitability is rated at by default.
const TOKENS_PER_S: f64 = 20.0;

pub fn expected(rows: &[TraceRow<'_>], region_type: RegionType) -> Expected {
    let mut expected = reuse_distance(rows, region_type);
    expected.extend(bandwidth(rows, region_type));
    expected.extend(hot_cold(rows, region_type));
    expected.extend(read_age(rows, region_type));
    expected.extend(endurance(rows, region_type));
    expected
}

/// Of each byte that is read, by which type, how many other bytes were accessed since it was; none if it never was.
fn distances(rows: &[TraceRow<'_>]) -> Vec<(RegionType, Option<usize>)> {
    // The latest last.
    let mut stack: Vec<u64> = Vec::new();
    let mut distances = Vec::new();
    for (byte, row) in byte_accesses(rows) {
        let place = stack.iter().position(|known| *known == byte);
        if row.op_type == OpType::Load {
            distances.push((row.region_type, place.map(|place| stack.len() - 1 - place)));
        }
        stack.retain(|known| *known != byte);
        stack.push(byte);
    }
    distances
}

fn reuse_distance(rows: &[TraceRow<'_>], region_type: RegionType) -> Expected {
    let own: Vec<Option<usize>> =
        distances(rows).into_iter().filter(|(of, _)| *of == region_type).map(|(_, distance)| distance).collect();
    let again: Vec<f64> = own.iter().flatten().map(|distance| *distance as f64).collect();
    let served = |capacity: usize| own.iter().flatten().filter(|distance| **distance < capacity).count() as f64;
    let enough = (1..256).find(|capacity| !own.is_empty() && served(*capacity) >= 0.9 * own.len() as f64);
    Expected::from([
        ("reuse_p50_bytes", quantile(&again, 0.5)),
        ("reuse_p90_bytes", quantile(&again, 0.9)),
        ("reuse_p99_bytes", quantile(&again, 0.99)),
        ("reuse_first_share", share((own.len() - again.len()) as f64, own.len() as f64)),
        ("lru_90_bytes", enough.map(|capacity| capacity as f64)),
    ])
}

/// The share of the bytes read, by one type or by all, that a memory of so many bytes holds when they are read. It replaces
/// the byte that was accessed longest ago.
pub fn served_share(rows: &[TraceRow<'_>], region_type: Option<RegionType>, capacity: usize) -> f64 {
    let mut memory: Vec<u64> = Vec::new();
    let (mut served, mut read) = (0.0, 0.0);
    for (byte, row) in byte_accesses(rows) {
        if row.op_type == OpType::Load && region_type.is_none_or(|meant| meant == row.region_type) {
            read += 1.0;
            served += f64::from(u8::from(memory.contains(&byte)));
        }
        memory.retain(|known| *known != byte);
        memory.push(byte);
        if memory.len() > capacity {
            memory.remove(0);
        }
    }
    served / read
}

/// Bytes read, bytes written and distinct bytes of a type in the window that begins then.
pub fn window(rows: &[TraceRow<'_>], region_type: RegionType, from_ns: u64) -> (u64, u64, u64) {
    let inside: Vec<TraceRow<'_>> =
        rows.iter().filter(|row| (from_ns..from_ns + WINDOW_NS).contains(&row.timestamp_ns)).copied().collect();
    let bytes = |op_type: OpType| {
        inside
            .iter()
            .filter(|row| row.region_type == region_type && row.op_type == op_type)
            .map(|row| row.size_bytes)
            .sum()
    };
    let mut first_types: BTreeMap<u64, RegionType> = BTreeMap::new();
    for (byte, row) in byte_accesses(&inside) {
        first_types.entry(byte).or_insert(row.region_type);
    }
    let distinct = first_types.values().filter(|first| **first == region_type).count() as u64;
    (bytes(OpType::Load), bytes(OpType::Store), distinct)
}

fn bandwidth(rows: &[TraceRow<'_>], region_type: RegionType) -> Expected {
    let window_of = |row: &TraceRow<'_>| row.timestamp_ns / WINDOW_NS;
    let windows = window_of(&rows[0])..=window_of(rows.last().unwrap());
    let windows: Vec<_> = windows.map(|number| window(rows, region_type, number * WINDOW_NS)).collect();
    let rates = |bytes: fn(&(u64, u64, u64)) -> u64| -> Vec<f64> {
        windows.iter().map(|window| bytes(window) as f64 / (WINDOW_NS as f64 / NS_PER_S)).collect()
    };
    let (read, written) = (rates(|window| window.0), rates(|window| window.1));
    let observed_s = (rows.last().unwrap().timestamp_ns - rows[0].timestamp_ns) as f64 / NS_PER_S;
    let per_s = |bytes: fn(&(u64, u64, u64)) -> u64| {
        (observed_s > 0.0).then(|| windows.iter().map(|window| bytes(window) as f64).sum::<f64>() / observed_s)
    };
    let touched: Vec<f64> = windows.iter().map(|window| window.2 as f64).filter(|bytes| *bytes > 0.0).collect();
    Expected::from([
        ("bandwidth_window_s", Some(WINDOW_NS as f64 / NS_PER_S)),
        ("read_mean_bytes_per_s", per_s(|window| window.0)),
        ("read_p99_bytes_per_s", quantile(&read, 0.99)),
        ("read_peak_bytes_per_s", largest(&read)),
        ("written_mean_bytes_per_s", per_s(|window| window.1)),
        ("written_p99_bytes_per_s", quantile(&written, 0.99)),
        ("written_peak_bytes_per_s", largest(&written)),
        ("window_working_set_median_bytes", median(&touched)),
        ("window_working_set_max_bytes", largest(&touched)),
    ])
}

/// How often each byte that the type touched was accessed so by it.
fn counts(rows: &[TraceRow<'_>], region_type: RegionType, op_type: OpType) -> Vec<f64> {
    let own = || byte_accesses(rows).filter(|(_, row)| row.region_type == region_type);
    let bytes: BTreeSet<u64> = own().map(|(byte, _)| byte).collect();
    let count = |byte: u64| own().filter(|(known, row)| *known == byte && row.op_type == op_type).count() as f64;
    bytes.into_iter().map(count).collect()
}

fn hot_cold(rows: &[TraceRow<'_>], region_type: RegionType) -> Expected {
    let mut loads = counts(rows, region_type, OpType::Load);
    loads.sort_by(|a, b| b.total_cmp(a));
    let all: f64 = loads.iter().sum();
    let hot = |part: f64| {
        let (mut left, mut bytes) = (part * all, 0.0);
        for &of_byte in loads.iter().filter(|of_byte| **of_byte > 0.0) {
            let taken = (left / of_byte).clamp(0.0, 1.0);
            bytes += taken;
            left -= taken * of_byte;
        }
        share(bytes, loads.len() as f64).filter(|_| all > 0.0)
    };
    let cold = loads.iter().filter(|of_byte| **of_byte == 0.0).count() as f64;
    Expected::from([
        ("hot_50_share", hot(0.5)),
        ("hot_90_share", hot(0.9)),
        ("hot_99_share", hot(0.99)),
        ("cold_share", share(cold, loads.len() as f64)),
    ])
}

/// The first load of a life whose store was not seen has no age.
fn read_age(rows: &[TraceRow<'_>], region_type: RegionType) -> Expected {
    let (begins_ns, lives) = (step_begins_ns(rows), lives(rows));
    let own = || lives.values().flatten().filter(|life| life.region_type == region_type);
    let ages = |age: &dyn Fn(u64, u64) -> f64| -> Vec<f64> {
        own()
            .flat_map(|life| {
                let aged = life.loads_ns.iter().skip(usize::from(life.is_inferred));
                aged.map(|now_ns| age(life.begin_ns, *now_ns)).collect::<Vec<_>>()
            })
            .collect()
    };
    let seconds = ages(&|from_ns, to_ns| (to_ns - from_ns) as f64 / NS_PER_S);
    let steps =
        if begins_ns.len() > 1 { ages(&|from_ns, to_ns| steps_between(&begins_ns, from_ns, to_ns)) } else { vec![] };
    Expected::from([
        ("read_age_p50_s", quantile(&seconds, 0.5)),
        ("read_age_p99_s", quantile(&seconds, 0.99)),
        ("read_age_p999_s", quantile(&seconds, 0.999)),
        ("read_age_max_s", largest(&seconds)),
        ("read_age_p50_steps", quantile(&steps, 0.5)),
        ("read_age_p99_steps", quantile(&steps, 0.99)),
        ("read_age_p999_steps", quantile(&steps, 0.999)),
        ("read_age_max_steps", largest(&steps)),
    ])
}

fn endurance(rows: &[TraceRow<'_>], region_type: RegionType) -> Expected {
    let stores = counts(rows, region_type, OpType::Store);
    let duration_s = (rows.last().unwrap().timestamp_ns - rows[0].timestamp_ns) as f64 / NS_PER_S;
    let steps = step_begins_ns(rows).len();
    let paced_s = if steps > 1 { steps as f64 / TOKENS_PER_S } else { 0.0 };
    let within = |stores: Option<f64>, duration_s: f64| stores.and_then(|stores| share(stores, duration_s));
    let (mean, p99, max) = (mean(&stores), quantile(&stores, 0.99), largest(&stores));
    Expected::from([
        ("stores_per_byte_mean", mean),
        ("stores_per_byte_p99", p99),
        ("stores_per_byte_max", max),
        ("stores_per_byte_s_mean", within(mean, duration_s)),
        ("stores_per_byte_s_p99", within(p99, duration_s)),
        ("stores_per_byte_s_max", within(max, duration_s)),
        ("stores_per_byte_s_at_pace_mean", within(mean, paced_s)),
        ("stores_per_byte_s_at_pace_p99", within(p99, paced_s)),
        ("stores_per_byte_s_at_pace_max", within(max, paced_s)),
    ])
}
