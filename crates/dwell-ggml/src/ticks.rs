//! A counter that is cheaper to read than the clock, for the times between two readings of the clock.

use dwell_clock::monotonic_ns;

/// A counter that is read after every operation.
///
/// Where the processor has a time-stamp counter of constant rate, that is read: one instruction that touches no memory.
/// `clock_gettime` takes as little time by itself, but the kernel code and data that it needs have been pushed out of
/// the caches by the weights of each operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TickSource {
    /// The processor's counter.
    #[cfg(target_arch = "x86_64")]
    TimeStampCounter,
    /// [`monotonic_ns`].
    Clock,
}

impl TickSource {
    /// The best source on this machine.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if has_invariant_counter() {
            return TickSource::TimeStampCounter;
        }
        TickSource::Clock
    }

    #[inline]
    pub(crate) fn read(self) -> u64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the instruction exists on every x86-64 processor and is not privileged on Linux.
            TickSource::TimeStampCounter => unsafe { core::arch::x86_64::_rdtsc() },
            TickSource::Clock => monotonic_ns(),
        }
    }
}

/// Whether the counter runs at one rate in every power state (leaf 8000_0007h, bit 8 of EDX).
#[cfg(target_arch = "x86_64")]
fn has_invariant_counter() -> bool {
    use core::arch::x86_64::__cpuid;
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx >> 8 & 1 == 1
}

/// One moment on both clocks.
#[derive(Clone, Copy, Default)]
pub(crate) struct Moment {
    pub(crate) ticks: u64,
    pub(crate) ns: u64,
}

impl Moment {
    pub(crate) fn now(source: TickSource) -> Self {
        Self { ticks: source.read(), ns: monotonic_ns() }
    }
}

/// Turns ticks between two moments into nanoseconds, in place. The result never runs backwards and never leaves the
/// span, whatever a thread that moved to another core may have read.
pub(crate) fn ticks_to_ns(ticks: &mut [u64], begin: Moment, end: Moment) {
    let ns_per_tick = (end.ns - begin.ns) as f64 / end.ticks.saturating_sub(begin.ticks).max(1) as f64;
    let mut last_ns = begin.ns;
    for tick in ticks {
        let since_begin = tick.saturating_sub(begin.ticks) as f64 * ns_per_tick;
        last_ns = (begin.ns + since_begin as u64).clamp(last_ns, end.ns);
        *tick = last_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds_inside_the_span_and_in_order() {
        let (begin, end) = (Moment { ticks: 1000, ns: 500 }, Moment { ticks: 3000, ns: 1500 });
        let mut ticks = [1000, 2000, 1900, 3000, 9999];
        ticks_to_ns(&mut ticks, begin, end);
        assert_eq!(ticks, [500, 1000, 1000, 1500, 1500]);
    }

    #[test]
    fn a_span_without_ticks_stays_at_its_begin() {
        let moment = Moment { ticks: 7, ns: 500 };
        let mut ticks = [7, 7];
        ticks_to_ns(&mut ticks, moment, moment);
        assert_eq!(ticks, [500, 500]);
    }
}
