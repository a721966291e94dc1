//! Sampled loads with their addresses, by whichever unit the processor has for it.

use std::io;

use dwell_events::host::Outcome;
use dwell_perf::{Attributes, Event, Ring, SampledEvent, Watched, sampled};

use super::perf::sampled_addresses;
use super::syscalls::Pages;
use super::{ProbeContext, perf};
use crate::memory_events::{MemorySampling, NoMemoryEvents, memory_events};

/// Loads between two samples, a prime, so that loops do not hide; and of whatever latency.
const SAMPLING: MemorySampling = MemorySampling { period: 1009, least_latency_cycles: 3 };
/// Memory that is read, larger than the first caches.
const READ_PAGES: usize = 256;
/// The ring must be a power of two of pages.
const RING_PAGES: usize = 8;

pub(super) fn probe(context: &ProbeContext) -> Outcome {
    let root = &context.root;
    let events = match memory_events(root, SAMPLING) {
        Ok(events) => events,
        Err(NoMemoryEvents::NoUnit(reason)) => return Outcome::absent(reason),
        Err(NoMemoryEvents::NotReadable(reason)) => return Outcome::fails(reason),
    };
    let mut found = Vec::new();
    // Stores are sampled by the same unit, and a thread may run on one sort of cores only.
    for event in events.iter().filter(|event| !event.name.contains("mem-stores")) {
        match addresses_of(event) {
            Ok(0) => {}
            Ok(count) => found.push(format!("{} gave {count} samples with addresses", event.name)),
            Err(error) => return perf::refusal(root, &error),
        }
    }
    match found.is_empty() {
        true => Outcome::fails(format!("{} was opened and gave no sample with an address", events[0].name)),
        false => Outcome::works(found.join("; ")),
    }
}

fn addresses_of(event: &SampledEvent) -> io::Result<usize> {
    let mut pages = Pages::new(READ_PAGES)?;
    pages.touch_all();
    let open = |attributes: &Attributes, leader| Event::open(attributes, Watched::OWN_THREAD, leader);
    let leader = event.leader.as_ref().map(|attributes| open(attributes, None)).transpose()?;
    let attributes = Attributes { sample_type: sampled::ADDR, ..event.attributes };
    let event = open(&attributes, leader.as_ref())?;
    let mut ring = Ring::new(&event, RING_PAGES)?;
    (0..64).for_each(|_| pages.read_all());
    Ok(sampled_addresses(&mut ring).into_iter().filter(|&address| address != 0).count())
}
