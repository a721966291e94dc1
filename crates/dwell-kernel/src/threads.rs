//! From the counters of threads to what each process did in an interval.

use std::collections::{BTreeMap, HashMap};

use dwell_observe::ProcessUse;

use crate::layout::ThreadEntry;
use crate::programs::Group;

/// Counters of the threads at the last reading.
#[derive(Default)]
pub(crate) struct ThreadDeltas {
    earlier: HashMap<(u32, u64), ThreadEntry>,
}

impl ThreadDeltas {
    /// What the processes did since the last reading; those that did nothing are left out.
    pub(crate) fn take(&mut self, at_ns: u64, threads: Vec<(u32, ThreadEntry)>, groups: &[Group]) -> Vec<ProcessUse> {
        let mut processes: BTreeMap<u32, ProcessUse> = BTreeMap::new();
        let mut seen = HashMap::with_capacity(threads.len());
        for (thread, entry) in threads {
            let entry = closed_at(entry, at_ns);
            let key = (thread, entry.start_ns);
            let earlier = self.earlier.get(&key).copied().unwrap_or_default();
            let process = processes.entry(entry.process).or_insert_with(|| named(&entry));
            add(process, &entry, &earlier, groups);
            if entry.has_exited == 0 {
                seen.insert(key, entry);
            }
        }
        self.earlier = seen;
        processes.into_values().filter(has_done_anything).collect()
    }
}

/// The same with the time up to now that the thread is off the processor already.
fn closed_at(mut entry: ThreadEntry, at_ns: u64) -> ThreadEntry {
    // A thread that exits leaves the processor for good.
    if entry.has_exited == 0 && entry.off_since_ns > 0 {
        entry.off_ns += at_ns.saturating_sub(entry.off_since_ns);
    }
    entry
}

fn named(entry: &ThreadEntry) -> ProcessUse {
    let name = String::from_utf8_lossy(&entry.name);
    let name = name.split('\0').next().unwrap_or_default().to_owned();
    ProcessUse { pid: entry.process, name, ..ProcessUse::default() }
}

/// Adds what a thread did to its process. Fields of groups that were not asked for stay empty.
fn add(process: &mut ProcessUse, now: &ThreadEntry, earlier: &ThreadEntry, groups: &[Group]) {
    let since = |value: fn(&ThreadEntry) -> u64| value(now).saturating_sub(value(earlier));
    let has = |wanted: &[Group]| groups.iter().any(|group| wanted.contains(group));
    let count = |field: &mut Option<u64>, wanted: &[Group], value: fn(&ThreadEntry) -> u64| {
        if has(wanted) {
            *field.get_or_insert(0) += since(value);
        }
    };
    process.threads += 1;
    count(&mut process.off_cpu_ns, &[Group::Sched], |thread| thread.off_ns);
    count(&mut process.run_queue_ns, &[Group::Sched], |thread| thread.ready_ns);
    count(&mut process.switches, &[Group::Sched], |thread| thread.switches);
    count(&mut process.page_faults, &[Group::Mem], |thread| thread.faults);
    count(&mut process.write_faults, &[Group::Mem], |thread| thread.write_faults);
    count(&mut process.calls, &[Group::Syscalls, Group::Sync], |thread| thread.calls);
    count(&mut process.call_ns, &[Group::Syscalls, Group::Sync], |thread| thread.call_ns);
    count(&mut process.wait_ns, &[Group::Sync], |thread| thread.wait_ns);
    count(&mut process.read_bytes, &[Group::Syscalls], |thread| thread.read_bytes);
    count(&mut process.written_bytes, &[Group::Syscalls], |thread| thread.written_bytes);
    count(&mut process.tcp_sent_bytes, &[Group::Net], |thread| thread.tcp_sent_bytes);
    count(&mut process.tcp_received_bytes, &[Group::Net], |thread| thread.tcp_received_bytes);
    count(&mut process.tcp_retransmits, &[Group::Net], |thread| thread.tcp_retransmits);
}

fn has_done_anything(process: &ProcessUse) -> bool {
    let counts = [
        process.off_cpu_ns,
        process.switches,
        process.page_faults,
        process.calls,
        process.tcp_sent_bytes,
        process.tcp_received_bytes,
        process.tcp_retransmits,
    ];
    counts.into_iter().flatten().any(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(process: u32, off_since_ns: u64, off_ns: u64) -> ThreadEntry {
        let mut name = [0; 16];
        name[..5].copy_from_slice(b"llama");
        ThreadEntry { process, off_since_ns, off_ns, start_ns: 1, name, ..ThreadEntry::default() }
    }

    #[test]
    fn time_off_the_processor_is_charged_to_the_interval_that_it_passes_in() {
        let mut deltas = ThreadDeltas::default();
        let groups = [Group::Sched];
        // Off since 100, seen at 300 and at 600; on again at 700, seen at 800.
        let mut off_ns = |at_ns, entry: ThreadEntry| deltas.take(at_ns, vec![(7, entry)], &groups)[0].off_cpu_ns;
        assert_eq!(off_ns(300, entry(5, 100, 0)), Some(200));
        assert_eq!(off_ns(600, entry(5, 100, 0)), Some(300));
        let mut last = entry(5, 0, 600);
        last.switches = 1;
        assert_eq!(off_ns(800, last), Some(100));
    }

    #[test]
    fn threads_add_up_to_their_process_and_idle_ones_are_left_out() {
        let mut deltas = ThreadDeltas::default();
        let mut exited = entry(5, 50, 3);
        exited.has_exited = 1;
        let processes = deltas.take(100, vec![(7, entry(5, 0, 4)), (8, exited), (9, entry(6, 0, 0))], &[Group::Sched]);
        assert_eq!(processes.len(), 1);
        let process = &processes[0];
        assert_eq!((process.pid, process.name.as_str(), process.threads, process.off_cpu_ns), (5, "llama", 2, Some(7)));
        assert_eq!((process.page_faults, process.calls), (None, None));
        assert!(!deltas.earlier.contains_key(&(8, 1)), "an exited thread is forgotten");
    }
}
