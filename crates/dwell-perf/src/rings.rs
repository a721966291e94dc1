//! One ring for each processor, and events that write into them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::attributes::{Attributes, SampledEvent, flags, kinds, software};
use crate::event::{Counted, Event, Watched};
use crate::ring::Ring;

/// What an ordinary user may lock for each processor is 512 KiB by default, so two collectors fit with half of it each.
const SMALLEST_DATA_PAGES: usize = 1;
/// Memory of all rings together.
const ALL_RINGS_BYTES: usize = 64 << 20;
/// The largest ring.
const LARGEST_RING_BYTES: usize = 2 << 20;

/// The rings of all processors: the half that attaches events.
#[derive(Debug)]
pub struct Rings {
    cpus: Vec<u32>,
    owners: Arc<Vec<Event>>,
    attached: Vec<Event>,
    clock: i32,
    ring_bytes: usize,
}

/// The half that takes records out, on a thread of its own if wanted.
#[derive(Debug)]
pub struct RingReader {
    owners: Arc<Vec<Event>>,
    rings: Vec<Ring>,
}

impl Rings {
    /// Rings as large as this user may have, of which none is larger than `most_bytes`, for these processors and with times of
    /// this clock.
    pub fn new(cpus: &[u32], clock: i32, most_bytes: usize) -> io::Result<(Self, RingReader)> {
        let page_bytes = rustix::param::page_size();
        let fair_bytes = (ALL_RINGS_BYTES / cpus.len().max(1)).min(LARGEST_RING_BYTES).min(most_bytes);
        let mut pages = (fair_bytes / page_bytes).max(SMALLEST_DATA_PAGES);
        pages = 1 << pages.ilog2();
        loop {
            match Self::with_pages(cpus, clock, pages) {
                Err(error) if is_too_large(&error) && pages > SMALLEST_DATA_PAGES => pages /= 2,
                other => return other,
            }
        }
    }

    fn with_pages(cpus: &[u32], clock: i32, pages: usize) -> io::Result<(Self, RingReader)> {
        let ring_bytes = pages * rustix::param::page_size();
        let attributes = Attributes {
            watermark_bytes: watermark(ring_bytes),
            clock,
            ..Attributes::of_user(kinds::SOFTWARE, software::DUMMY)
        };
        let attributes = attributes.with(flags::USE_CLOCK | flags::WATERMARK);
        let owner = |cpu: &u32| Event::open(&attributes, Watched { thread: None, cpu: Some(*cpu) }, None);
        let owners: Vec<Event> = cpus.iter().map(owner).collect::<io::Result<_>>()?;
        let rings = owners.iter().map(|owner| Ring::new(owner, pages)).collect::<io::Result<_>>()?;
        let owners = Arc::new(owners);
        let reader = RingReader { owners: owners.clone(), rings };
        Ok((Self { cpus: cpus.to_vec(), owners, attached: Vec::new(), clock, ring_bytes }, reader))
    }

    /// Bytes of each ring.
    pub fn ring_bytes(&self) -> usize {
        self.ring_bytes
    }

    /// Attributes with what every event of these rings has in common.
    pub fn common(&self, attributes: Attributes) -> Attributes {
        let common = Attributes { watermark_bytes: watermark(self.ring_bytes), clock: self.clock, ..attributes };
        common.with(flags::USE_CLOCK | flags::WATERMARK)
    }

    /// Opens an event on a thread (this one, if none is named), once for each processor, with these flags for what is opened first of it. If it cannot be opened
    /// on one of them, it is on none.
    pub fn open(&self, event: &SampledEvent, thread: Option<u32>, first: u64) -> io::Result<Opened> {
        let mut opened = Opened { ids: Vec::new(), events: Vec::new() };
        let has_event = |cpu: &u32| event.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu));
        for (cpu, owner) in self.cpus.iter().zip(self.owners.iter()).filter(|(cpu, _)| has_event(cpu)) {
            let watched = Watched { thread, cpu: Some(*cpu) };
            let open = |attributes: Attributes, leader: Option<&Event>| -> io::Result<Event> {
                let first = if leader.is_none() { first } else { 0 };
                let event = Event::open(&self.common(attributes).with(first), watched, leader)?;
                event.redirect_to(owner)?;
                Ok(event)
            };
            let leader = event.leader.map(|leader| open(leader, None)).transpose()?;
            let sampled = open(event.attributes, leader.as_ref())?;
            opened.ids.push(sampled.id()?);
            opened.events.extend(leader.into_iter().chain([sampled]));
        }
        Ok(opened)
    }

    /// Keeps opened events until the rings are dropped.
    pub fn keep(&mut self, opened: Opened) {
        self.attached.extend(opened.events);
    }

    /// Stops all events; what they counted.
    pub fn stop(&self) -> Counted {
        let mut ended = Counted::default();
        for event in &self.attached {
            // An event that cannot be stopped or read tells nothing more.
            let _ = event.disable();
            let counted = event.counted().unwrap_or_default();
            ended.events += counted.events;
            ended.lost += counted.lost;
        }
        ended
    }
}

/// An event on a thread and all processors.
#[derive(Debug)]
pub struct Opened {
    /// Numbers that its samples state.
    pub ids: Vec<u64>,
    events: Vec<Event>,
}

impl Opened {
    /// Begins to count.
    pub fn enable(&self) -> io::Result<()> {
        self.events.iter().try_for_each(Event::enable)
    }
}

impl RingReader {
    /// Waits until a ring is a quarter full, or for so long.
    pub fn wait(&self, timeout: Duration) {
        let mut polled: Vec<PollFd<'_>> = self.owners.iter().map(|owner| PollFd::new(owner, PollFlags::IN)).collect();
        let timeout = Timespec::try_from(timeout).ok();
        // Interrupted or not, the rings are looked at next.
        let _ = poll(&mut polled, timeout.as_ref());
    }

    /// Takes the records out of all rings once, one ring after the other.
    pub fn drain(&mut self, into: &mut Vec<u8>) {
        self.rings.iter_mut().for_each(|ring| ring.drain(into));
    }
}

/// Early enough that the rest is not full before the reader has run.
fn watermark(ring_bytes: usize) -> u32 {
    (ring_bytes / 4) as u32
}

/// Whether less could be had: locked memory is limited for each user, and memory in one piece may be short.
fn is_too_large(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM))
}
