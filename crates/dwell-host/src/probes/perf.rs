//! Perf events: page faults and processor counters of this thread.

use std::io;

use dwell_events::host::Outcome;
use dwell_perf::{Attributes, Event, Ring, Watched, kinds, sampled, software};

use super::ProbeContext;
use super::refusal::{is_forbidden, refused};
use super::syscalls::{Pages, page_bytes};
use crate::facts::perf_event_paranoid;
use crate::root::Root;

const CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;
/// Pages that are touched; each is a fault.
const TOUCHED_PAGES: usize = 32;

/// Page faults with their addresses.
pub(super) fn software(context: &ProbeContext) -> Outcome {
    let attempt = || -> io::Result<Outcome> {
        let faults = Attributes::of_user(kinds::SOFTWARE, software::PAGE_FAULTS).sampled(1, sampled::ADDR);
        let event = Event::open(&faults, Watched::OWN_THREAD, None)?;
        let mut ring = Ring::new(&event, 1)?;
        let mut pages = Pages::new(TOUCHED_PAGES)?;
        let before = event.counted()?.events;
        pages.touch_all();
        let faults = event.counted()?.events - before;
        let begin = pages.address();
        let is_ours = |address: &u64| (begin..begin + pages.bytes() as u64).contains(address);
        let mut seen: Vec<u64> = sampled_addresses(&mut ring)
            .into_iter()
            .filter(is_ours)
            .map(|address| address / page_bytes() as u64)
            .collect();
        seen.dedup();
        let found =
            format!("{TOUCHED_PAGES} pages touched, {faults} faults counted, {} of them with addresses", seen.len());
        Ok(match (faults, seen.len()) {
            (0, _) => Outcome::fails(found),
            (_, 0) => Outcome::degraded(found),
            _ => Outcome::works(found),
        })
    };
    attempt().unwrap_or_else(|error| refusal(&context.root, &error))
}

/// Cycles and instructions.
pub(super) fn hardware(context: &ProbeContext) -> Outcome {
    let attempt = || -> io::Result<Outcome> {
        let open = |config| Event::open(&Attributes::of_user(kinds::HARDWARE, config), Watched::OWN_THREAD, None);
        let (cycles, instructions) = (open(CYCLES)?, open(INSTRUCTIONS)?);
        Pages::new(TOUCHED_PAGES)?.touch_all();
        let (cycles, instructions) = (cycles.counted()?.events, instructions.counted()?.events);
        let found = format!("{cycles} cycles and {instructions} instructions counted");
        Ok(if cycles > 0 && instructions > 0 { Outcome::works(found) } else { Outcome::fails(found) })
    };
    attempt().unwrap_or_else(|error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => Outcome::absent(format!(
            "{}; the processor's counters are not given to this machine, as in most virtual machines",
            refused("perf_event_open", &error)
        )),
        _ => refusal(&context.root, &error),
    })
}

/// Addresses in a ring whose samples state nothing else.
pub(super) fn sampled_addresses(ring: &mut Ring) -> Vec<u64> {
    const SAMPLE: u32 = 9;
    let mut records = Vec::new();
    ring.drain(&mut records);
    let (mut rest, mut addresses) = (&records[..], Vec::new());
    // type u32, misc u16, size u16, then the address.
    while let Some(&[t0, t1, t2, t3, _, _, s0, s1]) = rest.first_chunk::<8>() {
        let size = usize::from(u16::from_ne_bytes([s0, s1])).max(8);
        let address = rest.get(8..).and_then(|body| body.first_chunk()).map(|word| u64::from_ne_bytes(*word));
        addresses.extend(address.filter(|_| u32::from_ne_bytes([t0, t1, t2, t3]) == SAMPLE));
        rest = rest.get(size..).unwrap_or_default();
    }
    addresses
}

/// A perf event that may not be opened, and what would allow it.
pub fn refusal(root: &Root, error: &io::Error) -> Outcome {
    let found = refused("perf_event_open", error);
    let paranoid = perf_event_paranoid(root);
    match paranoid.available() {
        Some(paranoid) if is_forbidden(error) && *paranoid > 1 => {
            Outcome::fails(format!("{found}; kernel.perf_event_paranoid is {paranoid}"))
                .remedy("sudo sysctl kernel.perf_event_paranoid=1")
        }
        Some(_) if is_forbidden(error) => {
            Outcome::fails(format!("{found}; it is not perf_event_paranoid that forbids it"))
                .remedy("docker run --cap-add PERFMON --security-opt seccomp=unconfined IMAGE  # in a container")
        }
        _ => Outcome::fails(found),
    }
}
