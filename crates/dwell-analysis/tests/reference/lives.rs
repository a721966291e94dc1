//! What bytes held: retention, residency, write-once ratio, and the times that suitability rests on.

use std::collections::BTreeMap;

use dwell_events::schema::trace::TraceRow;
use dwell_events::{OpType, RegionType};

use crate::Expected;
use crate::bytes::byte_accesses;
use crate::plain_statistics::{Duration, largest, lasting_mean, lasting_quantile, share};

const NS_PER_S: f64 = 1e9;

/// Seconds of a step at the speed that suitability is rated at by default.
const STEP_S: f64 = 1.0 / 20.0;

/// What a byte held from one store to the next.
#[derive(Clone, Debug)]
pub struct Life {
    pub region_type: RegionType,
    pub begin_ns: u64,
    /// Times of the loads; of a life whose store was not seen, the first began it.
    pub loads_ns: Vec<u64>,
    /// None if it was going on when the trace ended.
    pub end_ns: Option<u64>,
    pub is_inferred: bool,
}

/// The lives of each byte, in order.
pub fn lives(rows: &[TraceRow<'_>]) -> BTreeMap<u64, Vec<Life>> {
    let mut lives: BTreeMap<u64, Vec<Life>> = BTreeMap::new();
    for (byte, row) in byte_accesses(rows) {
        let of_byte = lives.entry(byte).or_default();
        let is_store = row.op_type == OpType::Store;
        if is_store && let Some(last) = of_byte.last_mut() {
            last.end_ns = Some(row.timestamp_ns);
        }
        if is_store || of_byte.is_empty() {
            of_byte.push(Life {
                region_type: row.region_type,
                begin_ns: row.timestamp_ns,
                loads_ns: Vec::new(),
                end_ns: None,
                is_inferred: !is_store,
            });
        }
        if !is_store {
            of_byte.last_mut().unwrap().loads_ns.push(row.timestamp_ns);
        }
    }
    lives
}

/// When steps began: a prompt whenever rows come back to it, any other step once.
pub fn step_begins_ns(rows: &[TraceRow<'_>]) -> Vec<u64> {
    let (mut begins_ns, mut current, mut latest) = (Vec::new(), None, 0);
    for row in rows {
        let Some(step) = row.step else { continue };
        if current != Some(step) && (current.is_none() || step > latest || step == 0) {
            begins_ns.push(row.timestamp_ns);
        }
        (current, latest) = (Some(step), latest.max(step));
    }
    begins_ns
}

/// Steps that began after one moment and not after another.
pub fn steps_between(begins_ns: &[u64], from_ns: u64, to_ns: u64) -> f64 {
    begins_ns.iter().filter(|begin_ns| (from_ns + 1..=to_ns).contains(begin_ns)).count() as f64
}

pub fn expected(rows: &[TraceRow<'_>], region_type: RegionType) -> Expected {
    let all = lives(rows);
    let own: Vec<&Life> = all.values().flatten().filter(|life| life.region_type == region_type).collect();
    let end_ns = rows.last().unwrap().timestamp_ns;
    let begins_ns = step_begins_ns(rows);
    let has_steps = begins_ns.len() > 1;
    let is_open = |life: &Life| life.end_ns.is_none();
    let needed_of = |length: &dyn Fn(u64, u64) -> f64| -> Vec<Duration> {
        let read = own.iter().filter_map(|life| Some((life, life.loads_ns.last()?)));
        read.map(|(life, last_ns)| (length(life.begin_ns, *last_ns), is_open(life))).collect()
    };
    let resident_of = |length: &dyn Fn(u64, u64) -> f64| -> Vec<Duration> {
        own.iter().map(|life| (length(life.begin_ns, life.end_ns.unwrap_or(end_ns)), is_open(life))).collect()
    };
    let seconds = |from_ns: u64, to_ns: u64| (to_ns - from_ns) as f64 / NS_PER_S;
    let steps = |from_ns: u64, to_ns: u64| steps_between(&begins_ns, from_ns, to_ns);
    let paced =
        |from_ns: u64, to_ns: u64| if has_steps { steps(from_ns, to_ns) * STEP_S } else { seconds(from_ns, to_ns) };
    let (needed_s, resident_s, needed_steps) = (needed_of(&seconds), resident_of(&seconds), needed_of(&steps));
    let in_steps = |share| lasting_quantile(&needed_steps, share).filter(|_| has_steps);
    let (needed_paced, resident_paced) = (needed_of(&paced), resident_of(&paced));
    let share_of = |is_meant: &dyn Fn(&Life) -> bool| {
        share(own.iter().filter(|life| is_meant(life)).count() as f64, own.len() as f64)
    };
    let never_read = own.iter().filter(|life| life.loads_ns.is_empty()).count() as f64;
    let loads: usize = own.iter().map(|life| life.loads_ns.len()).sum();
    let mut expected = write_once(rows, &all, region_type);
    expected.extend([
        ("retention_p50_s", lasting_quantile(&needed_s, 0.5)),
        ("retention_p90_s", lasting_quantile(&needed_s, 0.9)),
        ("retention_p99_s", lasting_quantile(&needed_s, 0.99)),
        ("retention_mean_s", lasting_mean(&needed_s)),
        ("retention_max_s", largest(&needed_s.iter().map(|(time, _)| *time).collect::<Vec<_>>())),
        ("retention_p50_steps", in_steps(0.5)),
        ("retention_p99_steps", in_steps(0.99)),
        ("residency_p50_s", lasting_quantile(&resident_s, 0.5)),
        ("residency_p99_s", lasting_quantile(&resident_s, 0.99)),
        ("needed_p50_s", lasting_quantile(&needed_paced, 0.5)),
        ("needed_p99_s", lasting_quantile(&needed_paced, 0.99)),
        ("stays_p50_s", lasting_quantile(&resident_paced, 0.5)),
        ("life_bytes", Some(own.len() as f64)),
        ("never_read_bytes", Some(never_read)),
        ("never_read_share", share(never_read, own.len() as f64)),
        ("censored_share", share_of(&is_open)),
        ("inferred_share", share_of(&|life| life.is_inferred)),
        ("reads_per_write_mean", share(loads as f64, own.len() as f64)),
    ]);
    expected
}

/// A byte whose store was not seen was stored once before; by whom is not known, so that the type that read it first counts.
fn write_once(rows: &[TraceRow<'_>], all: &BTreeMap<u64, Vec<Life>>, region_type: RegionType) -> Expected {
    let touched = |byte: u64| byte_accesses(rows).any(|(known, row)| known == byte && row.region_type == region_type);
    let (mut stored, mut more_than_once) = (0.0, 0.0);
    for (&byte, lives) in all {
        let is_never_stored = lives.len() == 1 && lives[0].is_inferred;
        let stores = lives.iter().filter(|life| life.region_type == region_type).count();
        let counts = if is_never_stored { usize::from(touched(byte)) } else { stores };
        stored += f64::from(u8::from(counts > 0));
        more_than_once += f64::from(u8::from(counts > 1));
    }
    Expected::from([("write_once_ratio_mean", share(stored - more_than_once, stored))])
}
