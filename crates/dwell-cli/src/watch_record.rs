//! What is kept of the samples of a watch, in bounded memory.

use std::collections::HashMap;
use std::time::Instant;

use dwell_analysis::memory::{Line, Point, robust_line};
use dwell_clock::process_cpu_ns;
use dwell_events::schema::memory::MemoryRow;
use dwell_process::{SamplerSummary, process_name, total_label};

/// Points kept of one column. Twice as many are halved, so that a long watch keeps fewer from everywhere.
const MOST_POINTS: usize = 4096;
/// Processes whose figures are kept; of further ones there is a count.
const MOST_PROCESSES: usize = 1000;
/// Two points have a slope, but nothing that says how far to trust it.
const LEAST_GROWTH_POINTS: usize = 3;
/// Points that a slope is taken of while the watch goes on; their pairs are sorted each time.
const LIVE_POINTS: usize = 40;

/// A column of the memory table.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    value: fn(&MemoryRow) -> Option<u64>,
}

/// Columns that a summary has figures of.
pub(crate) const COLUMNS: [Column; 9] = [
    Column { name: "rss", value: |row| Some(row.rss_bytes) },
    Column { name: "pss", value: |row| row.pss_bytes },
    Column { name: "uss", value: |row| row.uss_bytes },
    Column { name: "anon", value: |row| row.anon_bytes },
    Column { name: "file", value: |row| row.file_bytes },
    Column { name: "shmem", value: |row| row.shmem_bytes },
    Column { name: "swap", value: |row| row.swap_bytes },
    Column { name: "cgroup", value: |row| row.cgroup_bytes },
    Column { name: "gpu", value: |row| row.gpu_bytes },
];

/// One column over time, of all processes together.
#[derive(Default)]
pub(crate) struct Trail {
    /// Seconds since the first sample, and bytes.
    points: Vec<Point>,
    /// Values left out between two that are kept.
    skips: u64,
    skipped: u64,
    /// Samples that had a value.
    pub(crate) values: u64,
    pub(crate) peak_bytes: Option<u64>,
    pub(crate) last_bytes: Option<u64>,
}

impl Trail {
    fn push(&mut self, time_s: f64, bytes: u64) {
        self.peak_bytes = self.peak_bytes.max(Some(bytes));
        self.last_bytes = Some(bytes);
        self.values += 1;
        if self.skipped < self.skips {
            self.skipped += 1;
            return;
        }
        self.skipped = 0;
        self.points.push(Point { x: time_s, y: bytes as f64 });
        if self.points.len() >= 2 * MOST_POINTS {
            self.points = std::mem::take(&mut self.points).into_iter().step_by(2).collect();
            self.skips = 2 * self.skips + 1;
        }
    }

    fn since(&self, time_s: f64) -> &[Point] {
        &self.points[self.points.partition_point(|point| point.x < time_s)..]
    }

    /// Median of the second half of the time.
    pub(crate) fn steady_bytes(&self) -> Option<u64> {
        let last_s = self.points.last()?.x;
        let mut values: Vec<f64> = self.since(last_s / 2.0).iter().map(|point| point.y).collect();
        let middle = values.len() / 2;
        Some(*values.select_nth_unstable_by(middle, f64::total_cmp).1 as u64)
    }

    /// Growth in bytes per second over the second half of the time.
    pub(crate) fn growth(&self) -> Option<Line> {
        let second_half = self.since(self.points.last()?.x / 2.0);
        if second_half.len() < LEAST_GROWTH_POINTS {
            return None;
        }
        robust_line(second_half)
    }

    /// Growth in bytes per second over the last seconds.
    pub(crate) fn growth_over_last(&self, seconds: f64) -> Option<f64> {
        let recent = self.since(self.points.last()?.x - seconds);
        let step = recent.len().div_ceil(LIVE_POINTS).max(1);
        let points: Vec<Point> = recent.iter().rev().step_by(step).rev().copied().collect();
        Some(robust_line(&points)?.slope)
    }

    /// The last value of each of this many equal parts of the last seconds.
    pub(crate) fn last_values(&self, seconds: f64, parts: usize) -> Vec<f64> {
        let Some(last) = self.points.last() else { return Vec::new() };
        let recent = self.since(last.x - seconds);
        let value_at = |part: usize| {
            let end_s = last.x - seconds * (parts - 1 - part) as f64 / parts as f64;
            recent[..recent.partition_point(|point| point.x <= end_s)].last().map(|point| point.y)
        };
        (0..parts).filter_map(value_at).collect()
    }
}

/// What is known of one process.
pub(crate) struct SeenProcess {
    pub(crate) pid: u32,
    pub(crate) name: Option<String>,
    pub(crate) peak_rss_bytes: u64,
}

/// All samples of a watch, as far as they are kept.
pub(crate) struct WatchRecord {
    total_label: String,
    began_at: Instant,
    began_cpu_ns: u64,
    first_ns: Option<u64>,
    pub(crate) last_s: f64,
    /// Samples in which a process was alive.
    pub(crate) samples: u64,
    pub(crate) trails: [Trail; COLUMNS.len()],
    pub(crate) last_total: Option<MemoryRow>,
    /// Processes in the last sample.
    pub(crate) living: u64,
    counting: u64,
    pub(crate) processes: Vec<SeenProcess>,
    known: HashMap<u32, usize>,
    pub(crate) further_processes: u64,
    pub(crate) sampling: SamplerSummary,
}

impl WatchRecord {
    pub(crate) fn new(label: &str) -> Self {
        Self {
            total_label: total_label(label),
            began_at: Instant::now(),
            began_cpu_ns: process_cpu_ns(),
            first_ns: None,
            last_s: 0.0,
            samples: 0,
            trails: Default::default(),
            last_total: None,
            living: 0,
            counting: 0,
            processes: Vec::new(),
            known: HashMap::new(),
            further_processes: 0,
            sampling: SamplerSummary::default(),
        }
    }

    /// Takes in the next rows.
    pub(crate) fn note(&mut self, rows: &[MemoryRow]) {
        for row in rows {
            let first_ns = *self.first_ns.get_or_insert(row.timestamp_ns);
            self.last_s = row.timestamp_ns.saturating_sub(first_ns) as f64 / 1e9;
            if row.label == self.total_label && row.pid == 0 {
                self.note_total(row);
            } else {
                self.counting += 1;
                self.note_process(row);
            }
        }
    }

    fn note_total(&mut self, row: &MemoryRow) {
        self.living = std::mem::take(&mut self.counting);
        self.samples += 1;
        for (column, trail) in COLUMNS.iter().zip(&mut self.trails) {
            if let Some(bytes) = (column.value)(row) {
                trail.push(self.last_s, bytes);
            }
        }
        self.last_total = Some(row.clone());
    }

    fn note_process(&mut self, row: &MemoryRow) {
        match self.known.get(&row.pid) {
            Some(&index) if index < self.processes.len() => {
                let seen = &mut self.processes[index];
                seen.peak_rss_bytes = seen.peak_rss_bytes.max(row.rss_bytes);
                // Just begun, it may still have had the name of its parent.
                if seen.name.is_none() {
                    seen.name = process_name(row.pid);
                }
            }
            Some(_) => {}
            None if self.processes.len() < MOST_PROCESSES => {
                self.known.insert(row.pid, self.processes.len());
                let name = process_name(row.pid);
                self.processes.push(SeenProcess { pid: row.pid, name, peak_rss_bytes: row.rss_bytes });
            }
            None => {
                self.known.insert(row.pid, usize::MAX);
                self.further_processes += 1;
            }
        }
    }

    /// Takes in what the sampling thread says at its end.
    pub(crate) fn ended(&mut self, sampling: &SamplerSummary) {
        self.sampling = sampling.clone();
        for found in sampling.names.iter().filter(|found| !found.name.is_empty()) {
            let seen = self.known.get(&found.pid).and_then(|&index| self.processes.get_mut(index));
            if let Some(seen) = seen {
                seen.name = Some(found.name.clone());
            }
        }
    }

    /// How long it has gone on.
    pub(crate) fn elapsed_s(&self) -> f64 {
        self.began_at.elapsed().as_secs_f64()
    }

    /// CPU use of dwell since the watch began; 100 is one core.
    pub(crate) fn own_cpu_pct(&self) -> f64 {
        (process_cpu_ns() - self.began_cpu_ns) as f64 / 1e9 / self.elapsed_s() * 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_trail_keeps_points_from_everywhere_and_its_peak() {
        let mut trail = Trail::default();
        let count = 5 * MOST_POINTS as u64;
        (0..count).for_each(|index| trail.push(index as f64, if index == 17 { 10 * count } else { index }));
        assert!((MOST_POINTS..2 * MOST_POINTS).contains(&trail.points.len()), "{}", trail.points.len());
        assert!(trail.points.is_sorted_by(|one, next| one.x < next.x));
        assert!(trail.points[0].x < 8.0 && trail.points.last().is_some_and(|point| point.x > count as f64 - 9.0));
        assert_eq!((trail.peak_bytes, trail.last_bytes), (Some(10 * count), Some(count - 1)));
        assert!((trail.growth().unwrap().slope - 1.0).abs() < 1e-9);
        let steady = trail.steady_bytes().unwrap();
        assert!(steady.abs_diff(3 * count / 4) <= 16, "{steady}");
    }

    #[test]
    fn growth_is_not_told_of_two_points() {
        let mut trail = Trail::default();
        [(0.0, 5), (1.0, 1), (2.0, 2)].into_iter().for_each(|(time_s, bytes)| trail.push(time_s, bytes));
        assert!(trail.growth().is_none());
        [(3.0, 3), (4.0, 4)].into_iter().for_each(|(time_s, bytes)| trail.push(time_s, bytes));
        assert!(trail.growth().is_some());
    }

    #[test]
    fn parts_of_the_last_seconds_have_their_last_value() {
        let mut trail = Trail::default();
        let points = [(0.0, 5), (7.0, 1), (8.0, 2), (9.0, 3), (10.0, 4)];
        points.into_iter().for_each(|(time_s, bytes)| trail.push(time_s, bytes));
        assert_eq!(trail.last_values(4.0, 4), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(trail.growth_over_last(3.0).map(|slope| slope.round()), Some(1.0));
    }

    #[test]
    fn processes_of_the_last_sample_are_counted_and_all_that_were_seen_kept() {
        let mut record = WatchRecord::new("x");
        let row = |pid, rss_bytes| MemoryRow { label: "x".to_owned(), pid, rss_bytes, ..MemoryRow::default() };
        let total = |rss_bytes| MemoryRow { label: "x:total".to_owned(), rss_bytes, ..MemoryRow::default() };
        record.note(&[row(4_194_301, 5), row(4_194_302, 7), total(12), row(4_194_301, 6), total(6)]);
        assert_eq!((record.samples, record.living, record.processes.len()), (2, 1, 2));
        assert_eq!((record.processes[0].peak_rss_bytes, record.trails[0].peak_bytes), (6, Some(12)));
    }
}
