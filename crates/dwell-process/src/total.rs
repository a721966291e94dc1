//! A tree of processes as one row.

use dwell_events::schema::memory::MemoryRow;

/// Label of the rows that sum up the processes of a label.
pub fn total_label(label: &str) -> String {
    format!("{label}:total")
}

/// Counts that go on when a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counters {
    minor_faults: Option<u64>,
    major_faults: Option<u64>,
    read_bytes: Option<u64>,
    write_bytes: Option<u64>,
    cpu_ns: Option<u64>,
}

impl Default for Counters {
    fn default() -> Self {
        let none_yet = Some(0);
        Self {
            minor_faults: none_yet,
            major_faults: none_yet,
            read_bytes: none_yet,
            write_bytes: none_yet,
            cpu_ns: none_yet,
        }
    }
}

impl Counters {
    pub(crate) fn of(row: &MemoryRow) -> Self {
        let MemoryRow { minor_faults, major_faults, read_bytes, write_bytes, cpu_ns, .. } = *row;
        Self { minor_faults, major_faults, read_bytes, write_bytes, cpu_ns }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            minor_faults: both(self.minor_faults, other.minor_faults),
            major_faults: both(self.major_faults, other.major_faults),
            read_bytes: both(self.read_bytes, other.read_bytes),
            write_bytes: both(self.write_bytes, other.write_bytes),
            cpu_ns: both(self.cpu_ns, other.cpu_ns),
        }
    }
}

/// The sum of the rows of one sample, without what is not a sum: `cgroup_bytes` and `cpu_pct`.
///
/// What one process lacks, the sum lacks. `counters` are those of all processes that there ever were.
pub(crate) fn total(label: &str, rows: &[MemoryRow], counters: Counters) -> MemoryRow {
    let sum = |value: fn(&MemoryRow) -> Option<u64>| rows.iter().map(value).sum::<Option<u64>>();
    MemoryRow {
        timestamp_ns: rows.iter().map(|row| row.timestamp_ns).max().unwrap_or(0),
        label: total_label(label),
        pid: 0,
        rss_bytes: rows.iter().map(|row| row.rss_bytes).sum(),
        vms_bytes: rows.iter().map(|row| row.vms_bytes).sum(),
        pss_bytes: sum(|row| row.pss_bytes),
        uss_bytes: sum(|row| row.uss_bytes),
        anon_bytes: sum(|row| row.anon_bytes),
        file_bytes: sum(|row| row.file_bytes),
        shmem_bytes: sum(|row| row.shmem_bytes),
        swap_bytes: sum(|row| row.swap_bytes),
        cgroup_bytes: None,
        gpu_bytes: sum(|row| row.gpu_bytes),
        threads: rows.iter().map(|row| row.threads).sum(),
        minor_faults: counters.minor_faults,
        major_faults: counters.major_faults,
        read_bytes: counters.read_bytes,
        write_bytes: counters.write_bytes,
        cpu_ns: counters.cpu_ns,
        cpu_pct: None,
    }
}

fn both(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.zip(other).map(|(one, other)| one + other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(rss_bytes: u64, pss_bytes: Option<u64>, cpu_ns: u64) -> MemoryRow {
        MemoryRow { rss_bytes, pss_bytes, cpu_ns: Some(cpu_ns), threads: Some(2), ..MemoryRow::default() }
    }

    #[test]
    fn what_one_process_lacks_the_sum_lacks() {
        let whole = total("a", &[row(10, Some(6), 1), row(20, Some(7), 2)], Counters::default());
        assert_eq!((whole.rss_bytes, whole.pss_bytes, whole.threads), (30, Some(13), Some(4)));
        assert_eq!((whole.label.as_str(), whole.pid), ("a:total", 0));
        let lacking = total("a", &[row(10, Some(6), 1), row(20, None, 2)], Counters::default());
        assert_eq!((lacking.rss_bytes, lacking.pss_bytes), (30, None));
    }

    #[test]
    fn counters_that_one_process_lacks_are_lacking() {
        let known = Counters::of(&MemoryRow { minor_faults: Some(5), write_bytes: Some(1), ..row(99, Some(99), 50) });
        let sum = total("a", &[row(10, Some(6), 7)], Counters::default().plus(known).plus(known));
        assert_eq!((sum.rss_bytes, sum.cpu_ns, sum.minor_faults, sum.read_bytes), (10, Some(100), Some(10), None));
    }
}
