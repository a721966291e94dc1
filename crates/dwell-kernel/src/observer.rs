//! One line for each interval, from the programs or from the kernel's counters.

use std::collections::{BTreeMap, HashMap};

use dwell_clock::{monotonic_ns, process_cpu_ns, unix_ns};
use dwell_host::Root;
use dwell_observe::{
    CallUse, DeviceInflight, Line, Lost, ProcessUse, RunQueue, Source, SourceKind, TcpUse, buckets_of,
};
use jiff::Timestamp;

use crate::calls::CALLS;
use crate::disks::{
    DeviceEntries, DiskStat, disk_counts, inflight, kernel_inflight, latencies, read_disks, slots_since,
};
use crate::error::KernelError;
use crate::layout::{CallEntry, LOSSES, RunQueueEntry};
use crate::pressure::{pressure_since, read_pressure};
use crate::processes::{ProcessDeltas, run_queue_of};
use crate::programs::{Chosen, Group};
use crate::tcp::{read_tcp, tcp_since};
use crate::threads::ThreadDeltas;
use crate::trace::{Counters, KernelTrace, TraceOptions};

/// What is observed.
#[derive(Clone, Debug)]
pub struct ObserverOptions {
    /// Groups of fields.
    pub groups: Vec<Group>,
    /// Processes.
    pub chosen: Chosen,
    /// What every line is labelled with.
    pub labels: BTreeMap<String, String>,
    /// Whether programs are loaded at all.
    pub uses_programs: bool,
}

/// Makes lines of what happens from its making on.
pub struct Observer {
    options: ObserverOptions,
    root: Root,
    boot_id: String,
    trace: Result<KernelTrace, KernelError>,
    deltas: ThreadDeltas,
    /// Of groups that the programs do not serve.
    processes: ProcessDeltas,
    sources: BTreeMap<String, Source>,
    earlier: Earlier,
    /// Requests of each device that count as completed though that was not seen.
    forgotten: HashMap<u32, u64>,
}

/// Everything at the end of the last interval.
#[derive(Default)]
struct Earlier {
    at_ns: u64,
    cpu_ns: u64,
    disks: Vec<DiskStat>,
    devices: DeviceEntries,
    calls: Vec<CallEntry>,
    run_queue: RunQueueEntry,
    lost: [u64; LOSSES as usize],
    pressure: Option<dwell_observe::PressureLines>,
    tcp: TcpUse,
}

impl Observer {
    /// Begins to observe.
    pub fn begin(options: ObserverOptions) -> Result<Self, KernelError> {
        let root = Root::default();
        let trace = attach(&options)?;
        let sources = sources(&options.groups, &trace, &root);
        let is_counted =
            |group: &Group| sources.get(group.name()).is_some_and(|source| source.source != SourceKind::Ebpf);
        let counted: Vec<Group> = options.groups.iter().copied().filter(is_counted).collect();
        let processes = ProcessDeltas::begin(root.clone(), options.chosen.clone(), counted, monotonic_ns())?;
        let boot_id = std::fs::read_to_string(root.path("proc/sys/kernel/random/boot_id")).unwrap_or_default();
        let boot_id = boot_id.trim().to_owned();
        let (deltas, earlier) = (ThreadDeltas::default(), Earlier::default());
        let mut observer =
            Self { options, root, boot_id, trace, deltas, processes, sources, earlier, forgotten: HashMap::new() };
        // What the counters say now is what the first interval begins with.
        observer.read()?;
        Ok(observer)
    }

    /// Where each group of fields comes from.
    pub fn sources(&self) -> &BTreeMap<String, Source> {
        &self.sources
    }

    /// Why the programs are not used, if they are not.
    pub fn refusal(&self) -> Option<&KernelError> {
        self.trace.as_ref().err().filter(|_| self.options.uses_programs)
    }

    /// What happened since the last line.
    pub fn read(&mut self) -> Result<Line, KernelError> {
        // Counters that go on growing are read right before the time of the line is taken.
        let pressure = if self.has(Group::Psi) { read_pressure(&self.root).ok() } else { None };
        let tcp = if self.has(Group::Net) { read_tcp(&self.root).ok() } else { None };
        let counters = match &mut self.trace {
            Ok(trace) => {
                trace.refresh_members()?;
                Some(trace.read()?)
            }
            Err(_) => None,
        };
        let end_ns = counters.as_ref().map_or_else(monotonic_ns, |counters| counters.at_ns);
        let mut line = self.begin_line(end_ns);
        if self.has(Group::Disk) {
            self.fill_disks(&mut line, counters.as_ref());
        }
        if self.has(Group::Psi) {
            line.pressure = pressure.map(|now| pressure_since(now, self.earlier.pressure.as_ref()));
            self.earlier.pressure.clone_from(&line.pressure);
        }
        if let Some(now) = tcp {
            line.tcp = Some(tcp_since(&now, &self.earlier.tcp));
            self.earlier.tcp = now;
        }
        self.fill_processes(&mut line, counters);
        let cpu_ns = process_cpu_ns();
        line.observer_cpu_ns = cpu_ns - self.earlier.cpu_ns;
        (self.earlier.at_ns, self.earlier.cpu_ns) = (end_ns, cpu_ns);
        Ok(line)
    }

    fn has(&self, group: Group) -> bool {
        self.options.groups.contains(&group)
    }

    /// Whether the programs tell of a group.
    fn is_traced(&self, group: Group) -> bool {
        self.sources.get(group.name()).is_some_and(|source| source.source == SourceKind::Ebpf)
    }

    fn begin_line(&self, end_ns: u64) -> Line {
        let unix_ns = unix_ns();
        Line {
            timestamp: unix_ns as f64 / 1e9,
            iso_timestamp: iso(unix_ns),
            interval_s: end_ns.saturating_sub(self.earlier.at_ns) as f64 / 1e9,
            begin_ns: self.earlier.at_ns,
            end_ns,
            boot_id: self.boot_id.clone(),
            labels: self.options.labels.clone(),
            sources: self.sources.clone(),
            ..Line::default()
        }
    }

    fn fill_disks(&mut self, line: &mut Line, counters: Option<&Counters>) {
        let disks = read_disks(&self.root).unwrap_or_default();
        line.disks = Some(disk_counts(&disks, &self.earlier.disks, line.interval_s.max(f64::MIN_POSITIVE)));
        match counters.filter(|_| self.is_traced(Group::Disk)) {
            Some(counters) => {
                let devices = counters.devices.clone();
                line.latency_histogram = Some(latencies(&devices, &self.earlier.devices, &disks));
                line.inflight = Some(self.healed(inflight(&devices, &disks), &mut line.lost));
                self.earlier.devices = devices;
            }
            None => line.inflight = Some(kernel_inflight(&disks)),
        }
        self.earlier.disks = disks;
    }

    /// Takes away requests that a disk does not have any more: their completion went by unseen.
    fn healed(&mut self, mut inflight: Vec<DeviceInflight>, lost: &mut Lost) -> Vec<DeviceInflight> {
        for device in &mut inflight {
            let forgotten = self.forgotten.entry(device.device_id).or_default();
            device.count = device.count.saturating_sub(*forgotten);
            if device.count > 0
                && device.kernel_count == Some(0)
                && let Ok(trace) = &mut self.trace
            {
                // One that was issued in this interval may be in the kernel's count a moment later.
                let unseen = trace.forget_requests(device.device_id, self.earlier.at_ns);
                *forgotten += unseen;
                lost.completions += unseen;
                device.count = device.count.saturating_sub(unseen);
            }
        }
        inflight
    }

    fn fill_processes(&mut self, line: &mut Line, counters: Option<Counters>) {
        let mut processes = if self.is_counted_by_process() { self.processes.take(line.end_ns) } else { Vec::new() };
        if self.has(Group::Sched) && !self.is_traced(Group::Sched) {
            line.run_queue = Some(run_queue_of(&processes));
        }
        if let Some(counters) = counters {
            self.fill_calls(line, &counters);
            line.lost = Lost { completions: line.lost.completions, ..self.lost_since(&counters) };
            let traced: Vec<Group> =
                self.options.groups.iter().copied().filter(|&group| self.is_traced(group)).collect();
            processes = joined(self.deltas.take(counters.at_ns, counters.threads, &traced), processes);
        }
        let by_pid = |value: fn(&ProcessUse) -> Option<u64>| {
            let values = processes.iter().filter_map(|process| Some((process.pid, value(process)?)));
            values.filter(|(_, value)| *value > 0).collect::<BTreeMap<u32, u64>>()
        };
        line.off_cpu_ns = self.has(Group::Sched).then(|| by_pid(|process| process.off_cpu_ns));
        line.page_faults = self.has(Group::Mem).then(|| by_pid(|process| process.page_faults));
        line.processes = self.options.groups.iter().any(|group| group.is_about_threads()).then_some(processes);
    }

    /// Whether some groups need a walk through `/proc`.
    fn is_counted_by_process(&self) -> bool {
        let needed = [Group::Sched, Group::Mem, Group::Syscalls];
        needed.into_iter().any(|group| self.has(group) && !self.is_traced(group))
    }

    fn fill_calls(&mut self, line: &mut Line, counters: &Counters) {
        let use_of = |group: Group| {
            let places = CALLS.iter().enumerate().filter(|(_, call)| call.group == group);
            let calls = places.map(|(place, call)| {
                call_since(
                    call.name,
                    &counters.calls[place],
                    self.earlier.calls.get(place).unwrap_or(&CallEntry::default()),
                )
            });
            Some(calls.filter(|call| call.count > 0).collect())
        };
        if self.is_traced(Group::Syscalls) {
            line.syscalls = use_of(Group::Syscalls);
        }
        if self.is_traced(Group::Sync) {
            line.sync = use_of(Group::Sync);
        }
        self.earlier.calls.clone_from(&counters.calls);
        if self.is_traced(Group::Sched) {
            let (now, earlier) = (&counters.run_queue, &self.earlier.run_queue);
            line.run_queue = Some(RunQueue {
                count: now.count - earlier.count,
                wait_ns: now.wait_ns - earlier.wait_ns,
                buckets: buckets_of(&slots_since(&now.slots, &earlier.slots)),
            });
            self.earlier.run_queue = *now;
        }
    }

    fn lost_since(&mut self, counters: &Counters) -> Lost {
        let mut since = counters.lost;
        since.iter_mut().zip(self.earlier.lost).for_each(|(now, earlier)| *now -= earlier);
        self.earlier.lost = counters.lost;
        let [requests, devices, threads, sockets] = since;
        Lost { requests, devices, threads, sockets, completions: 0 }
    }
}

/// Attaches the programs. What the user named wrongly is an error; that they cannot be loaded is not.
fn attach(options: &ObserverOptions) -> Result<Result<KernelTrace, KernelError>, KernelError> {
    if !options.uses_programs || options.groups == [Group::Psi] {
        return Ok(Err(KernelError::NotLoaded { reason: "not asked for".to_owned() }));
    }
    let options =
        TraceOptions { groups: options.groups.clone(), chosen: options.chosen.clone(), ..TraceOptions::default() };
    match KernelTrace::attach(&options) {
        Err(error @ (KernelError::NoSuchProcess { .. } | KernelError::NoSuchCgroup { .. })) => Err(error),
        attached => Ok(attached),
    }
}

fn sources(groups: &[Group], trace: &Result<KernelTrace, KernelError>, root: &Root) -> BTreeMap<String, Source> {
    groups.iter().map(|&group| (group.name().to_owned(), source(group, trace, root))).collect()
}

fn source(group: Group, trace: &Result<KernelTrace, KernelError>, root: &Root) -> Source {
    let reason = match trace {
        _ if group == Group::Psi => {
            return match read_pressure(root) {
                Ok(_) => Source { source: SourceKind::Procfs, reason: None },
                Err(reason) => Source { source: SourceKind::Unavailable, reason: Some(reason) },
            };
        }
        Err(error) => error.to_string(),
        Ok(trace) => match trace.refused().iter().find(|(refused, _)| *refused == group) {
            Some((_, reason)) => reason.clone(),
            None => return Source { source: SourceKind::Ebpf, reason: None },
        },
    };
    let kind = if group == Group::Sync { SourceKind::Unavailable } else { SourceKind::Procfs };
    Source { source: kind, reason: Some(reason) }
}

fn call_since(name: &str, now: &CallEntry, earlier: &CallEntry) -> CallUse {
    CallUse {
        syscall: name.to_owned(),
        count: now.count.saturating_sub(earlier.count),
        errors: now.errors.saturating_sub(earlier.errors),
        bytes: now.bytes.saturating_sub(earlier.bytes),
        latency_ns: now.latency_ns.saturating_sub(earlier.latency_ns),
        latency_max_ns: now.latency_max_ns,
        buckets: buckets_of(&slots_since(&now.slots, &earlier.slots)),
    }
}

/// Fields of the second list fill those that the first one does not have.
fn joined(traced: Vec<ProcessUse>, counted: Vec<ProcessUse>) -> Vec<ProcessUse> {
    let mut by_pid: HashMap<u32, ProcessUse> = counted.into_iter().map(|process| (process.pid, process)).collect();
    let mut all: Vec<ProcessUse> = traced
        .into_iter()
        .map(|process| match by_pid.remove(&process.pid) {
            Some(counted) => ProcessUse {
                off_cpu_ns: process.off_cpu_ns.or(counted.off_cpu_ns),
                run_queue_ns: process.run_queue_ns.or(counted.run_queue_ns),
                switches: process.switches.or(counted.switches),
                page_faults: process.page_faults.or(counted.page_faults),
                major_faults: counted.major_faults,
                read_bytes: process.read_bytes.or(counted.read_bytes),
                written_bytes: process.written_bytes.or(counted.written_bytes),
                ..process
            },
            None => process,
        })
        .collect();
    all.extend(by_pid.into_values());
    all.sort_unstable_by_key(|process| process.pid);
    all
}

/// A moment in UTC with microseconds, in the form that Python's `isoformat` has.
fn iso(unix_ns: u64) -> String {
    let moment = Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    moment.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_look_as_pythons_do() {
        assert_eq!(iso(1_700_000_000_500_000_000), "2023-11-14T22:13:20.500000+00:00");
    }
}
