//! Perf events: page faults and processor counters of this thread.

use std::io;

use dwell_events::host::Outcome;

use super::ProbeContext;
use super::refusal::{is_forbidden, refused};
use super::syscalls::{Pages, PerfAttributes, PerfEvent, page_bytes};
use crate::facts::perf_event_paranoid;
use crate::root::Root;

const PERF_TYPE_HARDWARE: u32 = 0;
const PERF_TYPE_SOFTWARE: u32 = 1;
const CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;
const PAGE_FAULTS: u64 = 2;
/// Pages that are touched; each is a fault.
const TOUCHED_PAGES: usize = 32;

/// Page faults with their addresses.
pub(super) fn software(context: &ProbeContext) -> Outcome {
    let attempt = || -> io::Result<Outcome> {
        let event = PerfEvent::open(&PerfAttributes::new(PERF_TYPE_SOFTWARE, PAGE_FAULTS).sampled(1), None)?;
        let ring = event.ring(1)?;
        let mut pages = Pages::new(TOUCHED_PAGES)?;
        let before = event.count()?;
        pages.touch_all();
        let faults = event.count()? - before;
        let begin = pages.address();
        let is_ours = |address: &u64| (begin..begin + pages.bytes() as u64).contains(address);
        let mut seen: Vec<u64> =
            ring.addresses().into_iter().filter(is_ours).map(|address| address / page_bytes() as u64).collect();
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
        let open = |config| PerfEvent::open(&PerfAttributes::new(PERF_TYPE_HARDWARE, config), None);
        let (cycles, instructions) = (open(CYCLES)?, open(INSTRUCTIONS)?);
        Pages::new(TOUCHED_PAGES)?.touch_all();
        let (cycles, instructions) = (cycles.count()?, instructions.count()?);
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

/// A perf event that may not be opened, and what would allow it.
pub(super) fn refusal(root: &Root, error: &io::Error) -> Outcome {
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
