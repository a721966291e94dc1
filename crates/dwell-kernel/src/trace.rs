//! The programs in the kernel: loaded, attached, and read.
//!
//! They are held by file descriptors of this process alone. However the process ends, the kernel detaches them.

use std::borrow::BorrowMut;
use std::path::PathBuf;

use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, PerCpuValues};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader, Endianness, Pod};
use dwell_clock::monotonic_ns;
use dwell_host::Root;

use crate::calls::{CALLS, moves, places, waits};
use crate::disks::DeviceEntries;
use crate::error::KernelError;
use crate::layout::{CallEntry, DeviceEntry, DeviceKey, IssuedEntry, LOSSES, RunQueueEntry, ThreadEntry};
use crate::members::{filter_number, members, name_words};
use crate::programs::{Chosen, Group, THREAD_PROGRAMS};

static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/observe.bpf.o");

/// What is traced.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// Groups of fields.
    pub groups: Vec<Group>,
    /// Processes.
    pub chosen: Chosen,
    /// Where the kernel says how its structures are laid out.
    pub types: PathBuf,
}

impl Default for TraceOptions {
    fn default() -> Self {
        let types = Root::default().path("sys/kernel/btf/vmlinux");
        Self { groups: Group::ALL.to_vec(), chosen: Chosen::All, types }
    }
}

/// Attached programs and their maps.
pub struct KernelTrace {
    // Dropping it detaches the programs.
    _programs: Ebpf,
    chosen: Chosen,
    refused: Vec<(Group, String)>,
    began_ns: u64,
    requests: Array<MapData, IssuedEntry>,
    devices: PerCpuArray<MapData, DeviceEntry>,
    threads: HashMap<MapData, u32, ThreadEntry>,
    members: HashMap<MapData, u64, u8>,
    calls: PerCpuArray<MapData, CallEntry>,
    run_queues: PerCpuArray<MapData, RunQueueEntry>,
    lost: PerCpuArray<MapData, u64>,
}

/// The counters at one moment, since the programs were attached.
pub(crate) struct Counters {
    pub(crate) at_ns: u64,
    pub(crate) devices: DeviceEntries,
    pub(crate) threads: Vec<(u32, ThreadEntry)>,
    /// By the place of the call.
    pub(crate) calls: Vec<CallEntry>,
    pub(crate) run_queue: RunQueueEntry,
    pub(crate) lost: [u64; LOSSES as usize],
}

impl KernelTrace {
    /// Loads and attaches what the groups need. A group that the kernel has no tracepoints for is [refused](Self::refused).
    pub fn attach(options: &TraceOptions) -> Result<Self, KernelError> {
        let no_types = |reason| KernelError::NoTypes { path: options.types.clone(), reason };
        let types =
            Btf::parse_file(&options.types, Endianness::default()).map_err(|error| no_types(error.to_string()))?;
        let keys = members(&options.chosen)?;
        let mut programs = load(options, &types)?;
        let mut trace = Self {
            chosen: options.chosen.clone(),
            refused: Vec::new(),
            began_ns: 0,
            requests: taken(&mut programs, "requests")?,
            devices: taken(&mut programs, "devices")?,
            threads: taken(&mut programs, "threads")?,
            members: taken(&mut programs, "members")?,
            calls: taken(&mut programs, "calls")?,
            run_queues: taken(&mut programs, "run_queues")?,
            lost: taken(&mut programs, "lost")?,
            _programs: programs,
        };
        trace.add_members(keys)?;
        trace.attach_groups(&options.groups, &types)?;
        trace.began_ns = monotonic_ns();
        let mut began: Array<MapData, u64> = taken(&mut trace._programs, "began")?;
        began.set(0, trace.began_ns, 0).map_err(map_error("began"))?;
        Ok(trace)
    }

    /// Groups that could not be traced, and why.
    pub fn refused(&self) -> &[(Group, String)] {
        &self.refused
    }

    /// When the programs were attached, on CLOCK_MONOTONIC.
    pub fn began_ns(&self) -> u64 {
        self.began_ns
    }

    fn attach_groups(&mut self, groups: &[Group], types: &Btf) -> Result<(), KernelError> {
        let mut attached = Vec::new();
        if groups.iter().any(|group| group.is_about_threads()) {
            THREAD_PROGRAMS.iter().try_for_each(|name| self.attach_program(name, types, &mut attached))?;
        }
        for group in groups {
            let outcome = group.programs().iter().try_for_each(|name| self.attach_program(name, types, &mut attached));
            match outcome {
                Err(KernelError::Forbidden) => return Err(KernelError::Forbidden),
                Err(error) => self.refused.push((*group, error.to_string())),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn attach_program(
        &mut self,
        name: &'static str,
        types: &Btf,
        attached: &mut Vec<&'static str>,
    ) -> Result<(), KernelError> {
        if attached.contains(&name) {
            return Ok(());
        }
        let program = self._programs.program_mut(name).map(TryInto::<&mut BtfTracePoint>::try_into);
        let Some(Ok(program)) = program else { return Err(missing(name)) };
        program.load(name, types)?;
        program.attach()?;
        attached.push(name);
        Ok(())
    }

    /// Control groups that were made since are observed from now on.
    pub(crate) fn refresh_members(&mut self) -> Result<(), KernelError> {
        match &self.chosen {
            // One that was removed has no processes.
            Chosen::Cgroup(_) => self.add_members(members(&self.chosen).unwrap_or_default()),
            _ => Ok(()),
        }
    }

    /// Observes these processes too.
    fn add_members(&mut self, keys: Vec<u64>) -> Result<(), KernelError> {
        keys.into_iter().try_for_each(|key| self.members.insert(key, 1, 0)).map_err(map_error("members"))
    }

    /// The counters now. Threads that have exited are told of once.
    pub(crate) fn read(&mut self) -> Result<Counters, KernelError> {
        let at_ns = monotonic_ns();
        let devices = self.read_devices().map_err(map_error("devices"))?;
        let threads = self.read_threads()?;
        let calls = (0..CALLS.len() as u32).map(|place| Ok(sum_of_calls(&self.calls.get(&place, 0)?)));
        let calls = calls.collect::<Result<_, MapError>>().map_err(map_error("calls"))?;
        let run_queue = sum_of_queues(&self.run_queues.get(&0, 0).map_err(map_error("run_queues"))?);
        let mut lost = [0; LOSSES as usize];
        for (what, count) in lost.iter_mut().enumerate() {
            let values = self.lost.get(&(what as u32), 0).map_err(map_error("lost"))?;
            *count = values.iter().sum();
        }
        Ok(Counters { at_ns, devices, threads, calls, run_queue, lost })
    }

    /// Forgets requests that a device got before this time; how many there were.
    pub(crate) fn forget_requests(&mut self, device: u32, before_ns: u64) -> u64 {
        let is_old = |issued: &IssuedEntry| {
            issued.request != 0 && DeviceKey::of_kind(issued.kind).device == device && issued.at_ns < before_ns
        };
        let places = 0..self.requests.len();
        let old: Vec<u32> =
            places.filter(|place| self.requests.get(place, 0).is_ok_and(|issued| is_old(&issued))).collect();
        // One that is issued again just now completes without having been counted twice.
        old.into_iter().filter(|&place| self.requests.set(place, IssuedEntry::default(), 0).is_ok()).count() as u64
    }

    /// Each processor has its own places, so that one place may be of several kinds.
    fn read_devices(&self) -> Result<DeviceEntries, MapError> {
        let mut devices = DeviceEntries::new();
        for place in 0..self.devices.len() {
            let values = self.devices.get(&place, 0)?;
            values.iter().filter(|value| value.kind != 0).for_each(|value| {
                add_device(devices.entry(DeviceKey::of_kind(value.kind)).or_default(), value);
            });
        }
        Ok(devices)
    }

    fn read_threads(&mut self) -> Result<Vec<(u32, ThreadEntry)>, KernelError> {
        // A walk begins anew if the entry it stands at is removed, so keys come first; a thread may be found twice.
        let mut keys = self.threads.keys().collect::<Result<Vec<u32>, MapError>>().map_err(map_error("threads"))?;
        keys.sort_unstable();
        keys.dedup();
        let mut threads = Vec::with_capacity(keys.len());
        for key in keys {
            match self.threads.get(&key, 0) {
                Ok(entry) => threads.push((key, entry)),
                Err(MapError::KeyNotFound) => continue,
                Err(error) => return Err(map_error("threads")(error)),
            }
            if threads.last().is_some_and(|(_, entry)| entry.has_exited != 0) {
                // Its number may have been given to another thread just now, which then begins again at nothing.
                let _ = self.threads.remove(&key);
            }
        }
        Ok(threads)
    }
}

fn load(options: &TraceOptions, types: &Btf) -> Result<Ebpf, KernelError> {
    let (filter, name) = (filter_number(&options.chosen), name_words(&options.chosen));
    let (places, moves, waits) = (places(&options.groups), moves(), waits());
    let mut loader = EbpfLoader::new();
    loader.btf(Some(types)).override_global("filter", &filter, true);
    loader.override_global("filter_name", name.as_slice(), true);
    loader.override_global("call_places", places.as_slice(), true);
    loader.override_global("call_moves", moves.as_slice(), true);
    loader.override_global("call_waits", waits.as_slice(), true);
    Ok(loader.load(OBJECT)?)
}

/// Takes a map out of the object.
fn taken<M: TryFrom<Map, Error = MapError>>(programs: &mut Ebpf, name: &'static str) -> Result<M, KernelError> {
    let map = programs.take_map(name).ok_or_else(|| missing(name))?;
    M::try_from(map).map_err(map_error(name))
}

fn missing(name: &str) -> KernelError {
    KernelError::NotLoaded { reason: format!("the object has no {name}") }
}

fn map_error(map: &'static str) -> impl Fn(MapError) -> KernelError {
    move |error| KernelError::Map { map, source: Box::new(error) }
}

/// Adds up what every processor counted.
fn sum<T: Pod + Default>(values: &PerCpuValues<T>, add: impl Fn(&mut T, &T)) -> T {
    values.iter().fold(T::default(), |mut total, value| {
        add(total.borrow_mut(), value);
        total
    })
}

fn add_slots(total: &mut [u64], slots: &[u64]) {
    total.iter_mut().zip(slots).for_each(|(total, count)| *total += count);
}

fn add_device(total: &mut DeviceEntry, value: &DeviceEntry) {
    total.inflight += value.inflight;
    total.requests += value.requests;
    total.bytes += value.bytes;
    total.errors += value.errors;
    total.requeues += value.requeues;
    total.latency_ns += value.latency_ns;
    total.latency_max_ns = total.latency_max_ns.max(value.latency_max_ns);
    add_slots(&mut total.slots, &value.slots);
}

fn sum_of_calls(values: &PerCpuValues<CallEntry>) -> CallEntry {
    sum(values, |total, value| {
        total.count += value.count;
        total.errors += value.errors;
        total.bytes += value.bytes;
        total.latency_ns += value.latency_ns;
        total.latency_max_ns = total.latency_max_ns.max(value.latency_max_ns);
        add_slots(&mut total.slots, &value.slots);
    })
}

fn sum_of_queues(values: &PerCpuValues<RunQueueEntry>) -> RunQueueEntry {
    sum(values, |total, value| {
        total.count += value.count;
        total.wait_ns += value.wait_ns;
        total.wait_max_ns = total.wait_max_ns.max(value.wait_max_ns);
        add_slots(&mut total.slots, &value.slots);
    })
}
