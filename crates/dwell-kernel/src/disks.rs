//! Disks: what the kernel counts of them, and the latencies that the programs measured.

use std::collections::{BTreeMap, HashMap};

use dwell_host::Root;
use dwell_observe::{DeviceInflight, DeviceLatency, DiskCounts, Distribution, OperationLatency, buckets_of};

use crate::layout::{DeviceEntry, DeviceKey, SLOTS};

const SECTOR_BYTES: u64 = 512;
const OPERATIONS: [&str; 3] = ["read", "write", "other"];

/// One line of `/proc/diskstats`, of a whole disk or a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskStat {
    pub(crate) device: u32,
    pub(crate) name: String,
    reads: u64,
    read_sectors: u64,
    read_ms: u64,
    writes: u64,
    written_sectors: u64,
    write_ms: u64,
    inflight: u64,
    busy_ms: u64,
    queued_ms: u64,
    flushes: u64,
}

impl DiskStat {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (major, minor): (u32, u32) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let name = words.next()?.to_owned();
        let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let at = |place: usize| numbers.get(place).copied();
        Some(Self {
            device: major << 20 | minor,
            name,
            reads: at(0)?,
            read_sectors: at(2)?,
            read_ms: at(3)?,
            writes: at(4)?,
            written_sectors: at(6)?,
            write_ms: at(7)?,
            inflight: at(8)?,
            busy_ms: at(9)?,
            queued_ms: at(10)?,
            // Linux 5.5 and later.
            flushes: at(15).unwrap_or(0),
        })
    }

    fn has_done_anything(&self) -> bool {
        self.reads + self.writes > 0
    }

    fn since(&self, earlier: &Self, span_s: f64) -> DiskCounts {
        let (reads, writes) = (self.reads.wrapping_sub(earlier.reads), self.writes.wrapping_sub(earlier.writes));
        let mean = |ms: u64, count: u64| (count > 0).then(|| ms as f64 / count as f64);
        DiskCounts {
            device_id: self.device,
            device_name: self.name.clone(),
            reads,
            writes,
            read_bytes: self.read_sectors.wrapping_sub(earlier.read_sectors) * SECTOR_BYTES,
            written_bytes: self.written_sectors.wrapping_sub(earlier.written_sectors) * SECTOR_BYTES,
            flushes: self.flushes.wrapping_sub(earlier.flushes),
            read_ms_mean: mean(self.read_ms.wrapping_sub(earlier.read_ms), reads),
            write_ms_mean: mean(self.write_ms.wrapping_sub(earlier.write_ms), writes),
            queue_depth: self.queued_ms.saturating_sub(earlier.queued_ms) as f64 / 1e3 / span_s,
            busy_pct: (self.busy_ms.saturating_sub(earlier.busy_ms) as f64 / 10.0 / span_s).min(100.0),
        }
    }
}

/// The whole disks that have done anything; a partition's requests are those of its disk.
pub(crate) fn read_disks(root: &Root) -> Result<Vec<DiskStat>, String> {
    let path = root.path("proc/diskstats");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("reading {} failed: {error}", path.display()))?;
    let is_whole = |disk: &DiskStat| root.path(&format!("sys/block/{}", disk.name.replace('/', "!"))).exists();
    Ok(text.lines().filter_map(DiskStat::parse).filter(|disk| disk.has_done_anything() && is_whole(disk)).collect())
}

/// What the kernel counted between two readings.
pub(crate) fn disk_counts(now: &[DiskStat], earlier: &[DiskStat], span_s: f64) -> Vec<DiskCounts> {
    let none = DiskStat::default();
    let before = |disk: &DiskStat| earlier.iter().find(|earlier| earlier.device == disk.device).unwrap_or(&none);
    now.iter().map(|disk| disk.since(before(disk), span_s)).collect()
}

/// Requests with each disk, as the kernel counts them.
pub(crate) fn kernel_inflight(disks: &[DiskStat]) -> Vec<DeviceInflight> {
    let inflight = |disk: &DiskStat| DeviceInflight {
        device_id: disk.device,
        device_name: disk.name.clone(),
        count: disk.inflight,
        kernel_count: Some(disk.inflight),
    };
    disks.iter().map(inflight).collect()
}

/// Entries of the programs' map by device and operation.
pub(crate) type DeviceEntries = HashMap<DeviceKey, DeviceEntry>;

/// Latencies between two readings, by device in the order of their names.
pub(crate) fn latencies(now: &DeviceEntries, earlier: &DeviceEntries, disks: &[DiskStat]) -> Vec<DeviceLatency> {
    let mut devices: BTreeMap<String, DeviceLatency> = BTreeMap::new();
    let mut keys: Vec<&DeviceKey> = now.keys().collect();
    keys.sort_unstable_by_key(|key| key.operation);
    for key in keys {
        let none = DeviceEntry::default();
        let operation = since(key.operation, &now[key], earlier.get(key).unwrap_or(&none));
        let device_name = name_of(key.device, disks);
        let device = devices.entry(device_name.clone()).or_insert_with(|| DeviceLatency {
            device_id: key.device,
            device_name,
            ..DeviceLatency::default()
        });
        device.operations.push(operation);
    }
    devices.into_values().map(merged).filter(|device| !device.operations.is_empty()).collect()
}

/// All operations of a device together; those that nothing happened of are left out.
fn merged(mut device: DeviceLatency) -> DeviceLatency {
    device.operations.retain(|operation| operation.requests + operation.bytes + operation.requeues > 0);
    let mut all = Distribution::default();
    device.operations.iter().for_each(|operation| all.add(&operation.buckets));
    DeviceLatency { total: all.total(), buckets: buckets_of(all.counts()), ..device }
}

fn since(operation: u32, now: &DeviceEntry, earlier: &DeviceEntry) -> OperationLatency {
    OperationLatency {
        operation: OPERATIONS.get(operation as usize).unwrap_or(&"other").to_string(),
        requests: now.requests.saturating_sub(earlier.requests),
        bytes: now.bytes.saturating_sub(earlier.bytes),
        errors: now.errors.saturating_sub(earlier.errors),
        requeues: now.requeues.saturating_sub(earlier.requeues),
        latency_ns: now.latency_ns.saturating_sub(earlier.latency_ns),
        latency_max_ns: now.latency_max_ns,
        buckets: buckets_of(&slots_since(&now.slots, &earlier.slots)),
    }
}

/// What was added to each slot.
pub(crate) fn slots_since(now: &[u64; SLOTS], earlier: &[u64; SLOTS]) -> [u64; SLOTS] {
    let mut since = *now;
    since.iter_mut().zip(earlier).for_each(|(now, earlier)| *now = now.saturating_sub(*earlier));
    since
}

/// Requests with each device, as the programs count them, and the kernel's own number.
pub(crate) fn inflight(now: &DeviceEntries, disks: &[DiskStat]) -> Vec<DeviceInflight> {
    let mut counts: BTreeMap<u32, i64> = BTreeMap::new();
    now.iter().for_each(|(key, entry)| *counts.entry(key.device).or_default() += entry.inflight);
    let device = |(device, count): (u32, i64)| DeviceInflight {
        device_id: device,
        device_name: name_of(device, disks),
        // The processors' shares are read one after the other, so that the sum may be less than nothing for a moment.
        count: count.max(0).cast_unsigned(),
        kernel_count: disks.iter().find(|disk| disk.device == device).map(|disk| disk.inflight),
    };
    counts.into_iter().map(device).collect()
}

fn name_of(device: u32, disks: &[DiskStat]) -> String {
    let known = disks.iter().find(|disk| disk.device == device).map(|disk| disk.name.clone());
    known.unwrap_or_else(|| format!("{}:{}", device >> 20, device & 0xf_ffff))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    const FIRST: &str = " 254       0 vda 100 0 800 50 10 0 80 20 3 500 900 0 0 0 0 2 1";
    const LAST: &str = " 254       0 vda 300 0 2400 250 10 0 80 20 1 1500 2900 0 0 0 0 7 1";

    #[test]
    fn counts_of_an_interval_are_differences() {
        let (first, last) = (DiskStat::parse(FIRST).unwrap(), DiskStat::parse(LAST).unwrap());
        let counts = &disk_counts(&[last], &[first], 2.0)[0];
        assert_eq!((counts.device_id, counts.reads, counts.read_bytes, counts.writes), (254 << 20, 200, 819_200, 0));
        assert_eq!((counts.read_ms_mean, counts.write_ms_mean, counts.flushes), (Some(1.0), None, 5));
        assert_eq!((counts.queue_depth, counts.busy_pct), (1.0, 50.0));
        assert!(DiskStat::parse("254 0 vda 1 2").is_none() && DiskStat::parse("").is_none());
    }

    #[test]
    fn latencies_are_differences_and_operations_add_up() {
        let entry = |requests: u64, slot: usize| {
            let mut entry = DeviceEntry { requests, inflight: 1, ..DeviceEntry::default() };
            entry.slots[slot] = requests;
            entry
        };
        let key = |operation| DeviceKey { device: 254 << 20, operation };
        let earlier: DeviceEntries = [(key(0), entry(5, 3))].into();
        let now: DeviceEntries =
            [(key(0), entry(9, 3)), (key(1), entry(2, 7)), (key(2), DeviceEntry::default())].into();
        let disks = [DiskStat::parse(LAST).unwrap()];
        let device = &latencies(&now, &earlier, &disks)[0];
        assert_eq!((device.device_name.as_str(), device.total, device.operations.len()), ("vda", 6, 2));
        assert_eq!(
            device.buckets.iter().map(|bucket| (bucket.slot, bucket.count)).collect::<Vec<_>>(),
            [(3, 4), (7, 2)]
        );
        assert_eq!((inflight(&now, &disks)[0].count, inflight(&now, &disks)[0].kernel_count), (2, Some(1)));
        assert_eq!(latencies(&now, &now, &disks), []);
        assert_eq!(inflight(&now, &[])[0].device_name, "254:0");
    }
}
