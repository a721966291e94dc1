//! Events of the threads of processes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use dwell_clock::monotonic_ns;
use dwell_decode::perf_data::BuildId;
use dwell_decode::symbols::build_id_of;
use dwell_files::open_ordinary;
use dwell_pages::mappings_of;
use dwell_perf::{Attributes, Opened, Rings, SampledEvent, flags, sampled};
use rustix::io::Errno;

use super::stream;

/// From when on a process is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// From now on.
    Now,
    /// Only the programs that it starts, each from its first instruction.
    WithTheProgramsItStarts,
}

/// Attaches events to threads, and notes what a reader of the records has to know of them.
pub(super) struct Attaching {
    rings: Rings,
    events: Vec<SampledEvent>,
    notes: Sender<Vec<u8>>,
    /// Number of an event, for records that need one.
    any_id: u64,
}

impl Attaching {
    /// Events as this kernel and this user may have them.
    pub(super) fn new(rings: Rings, events: &[SampledEvent], notes: Sender<Vec<u8>>) -> io::Result<Self> {
        let events = events.iter().map(|event| allowed(&rings, event)).collect::<io::Result<_>>()?;
        Ok(Self { rings, events, notes, any_id: 0 })
    }

    /// Whether what the kernel does for programs stays unseen.
    pub(super) fn leaves_the_kernel_out(&self) -> bool {
        self.events.iter().all(|event| event.attributes.flags & flags::EXCLUDE_KERNEL != 0)
    }

    /// Watches all threads of a process, and whatever they start. A thread that is started between the listing of threads and the
    /// attachment to the one that starts it is missed.
    pub(super) fn attach(&mut self, pid: u32, beginning: Beginning) -> io::Result<()> {
        let is_gone = |error: &io::Error| error.raw_os_error() == Some(Errno::SRCH.raw_os_error());
        let mut has_one = false;
        for thread in threads_of(pid)? {
            match self.attach_thread(thread, beginning) {
                Err(error) if is_gone(&error) => {}
                attached => has_one |= attached.map(|()| true)?,
            }
        }
        match has_one {
            true if beginning == Beginning::Now => self.note_mappings(pid),
            true => Ok(()),
            false => Err(Errno::SRCH.into()),
        }
    }

    fn attach_thread(&mut self, thread: u32, beginning: Beginning) -> io::Result<()> {
        let first = match beginning {
            Beginning::Now => flags::DISABLED,
            Beginning::WithTheProgramsItStarts => flags::DISABLED | flags::ENABLE_ON_EXEC,
        };
        let open = |event: &SampledEvent| self.rings.open(event, Some(thread), first);
        let opened: Vec<Opened> = self.events.iter().map(open).collect::<io::Result<_>>()?;
        for (event, opened) in self.events.iter().zip(&opened) {
            self.any_id = opened.ids.first().copied().unwrap_or(self.any_id);
            self.note(stream::event(&event.name, &self.rings.common(event.attributes), &opened.ids));
        }
        for opened in opened {
            if beginning == Beginning::Now {
                opened.enable()?;
            }
            self.rings.keep(opened);
        }
        Ok(())
    }

    /// What the process had mapped when it was attached to.
    fn note_mappings(&self, pid: u32) -> io::Result<()> {
        let time_ns = monotonic_ns();
        let mut build_ids: BTreeMap<Arc<str>, Option<BuildId>> = BTreeMap::new();
        let mut records = Vec::new();
        for mapping in mappings_of(pid)? {
            let build_id = *build_ids.entry(mapping.name.clone()).or_insert_with(|| build_id_at(&mapping.name));
            records.extend(stream::mapping(pid, &mapping, build_id, time_ns, self.any_id));
        }
        self.note(records);
        Ok(())
    }

    /// Stops counting, and notes what the rings had no room for.
    pub(super) fn stop(&self) {
        let counted = self.rings.stop();
        if counted.lost > 0 {
            self.note(stream::lost_samples(counted.lost, monotonic_ns(), self.any_id));
        }
    }

    fn note(&self, records: Vec<u8>) {
        // Without a thread that receives it, nothing is recorded, which is told when that is found.
        let _ = self.notes.send(records);
    }
}

/// The event with the most that it can be opened with: with what the kernel does for a program, where the user may see it, and with
/// fields that only newer kernels have.
fn allowed(rings: &Rings, event: &SampledEvent) -> io::Result<SampledEvent> {
    let mut refused = None;
    for candidate in candidates(event) {
        match rings.open(&candidate, None, flags::DISABLED) {
            Ok(_) => return Ok(candidate),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| Errno::INVAL.into()))
}

/// The event as it is wanted, and with less of it.
fn candidates(event: &SampledEvent) -> Vec<SampledEvent> {
    const KERNEL: u64 = flags::EXCLUDE_KERNEL | flags::EXCLUDE_HYPERVISOR;
    let old_weight = |it: Attributes| match it.sample_type & sampled::WEIGHT_STRUCT {
        0 => it,
        _ => Attributes { sample_type: it.sample_type & !sampled::WEIGHT_STRUCT | sampled::WEIGHT, ..it },
    };
    let changes: [&dyn Fn(Attributes) -> Attributes; 4] =
        [&|it| it.with(KERNEL), &|it| Attributes { counts_lost: false, ..it }, &old_weight, &|it| {
            it.without(flags::BUILD_ID)
        }];
    let mut candidates: Vec<SampledEvent> = Vec::new();
    for chosen in 0..1 << changes.len() {
        let change = |attributes: Attributes| {
            let chosen = changes.iter().enumerate().filter(|(place, _)| chosen >> place & 1 != 0);
            chosen.fold(attributes, |attributes, (_, change)| change(attributes))
        };
        let (leader, attributes) = (event.leader.map(change), change(event.attributes));
        let candidate = SampledEvent { leader, attributes, ..event.clone() };
        if !candidates.contains(&candidate) {
            candidates.push(candidate);
        }
    }
    candidates
}

fn build_id_at(path: &str) -> Option<BuildId> {
    build_id_of(path.starts_with('/').then(|| open_ordinary(path.as_ref()).ok()).flatten()?)
}

fn threads_of(pid: u32) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}
