//! The counter that events are stamped with: reading it takes less time than reading the clock.

use dwell_clock::monotonic_ns;

/// What ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TickSource {
    /// CLOCK_MONOTONIC, in nanoseconds.
    Clock = 0,
    /// The processor's time-stamp counter, where it runs at one rate in every power state.
    TimeStampCounter = 1,
}

impl TickSource {
    /// The best source on this machine.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if has_invariant_counter() {
            return Self::TimeStampCounter;
        }
        Self::Clock
    }

    /// The source with this number.
    pub fn from_number(number: u32) -> Self {
        if number == Self::TimeStampCounter as u32 { Self::TimeStampCounter } else { Self::Clock }
    }

    /// The time of something that is about to happen: what follows is seen by other threads later.
    #[inline]
    pub fn before(self) -> u64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the instruction exists on every x86-64 processor and is not privileged on Linux.
            Self::TimeStampCounter => unsafe { core::arch::x86_64::_rdtsc() },
            _ => monotonic_ns(),
        }
    }

    /// The time of something that has happened: the counter is read only when all that comes before is done. Without that, a
    /// thread that was given memory could seem to have it before another thread gave it back.
    #[inline]
    pub fn after(self) -> u64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `detect` has made sure that the instruction exists; it writes the number of the core, which nobody needs.
            Self::TimeStampCounter => unsafe { core::arch::x86_64::__rdtscp(&mut 0) },
            _ => monotonic_ns(),
        }
    }
}

/// Whether the counter runs at one rate (leaf 8000_0007h, bit 8 of EDX) and can be read in order (leaf 8000_0001h, bit 27).
#[cfg(target_arch = "x86_64")]
fn has_invariant_counter() -> bool {
    use core::arch::x86_64::__cpuid;
    __cpuid(0x8000_0000).eax >= 0x8000_0007
        && __cpuid(0x8000_0007).edx >> 8 & 1 == 1
        && __cpuid(0x8000_0001).edx >> 27 & 1 == 1
}

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Moment {
    /// By the counter.
    pub ticks: u64,
    /// By CLOCK_MONOTONIC.
    pub ns: u64,
}

impl Moment {
    /// Reads both. A reading during which the thread was off the processor would be wrong by that time, so the quickest of a few
    /// is taken.
    pub fn now(source: TickSource) -> Self {
        let read = |_| {
            let before = source.after();
            let ns = monotonic_ns();
            let after = source.after();
            (after.saturating_sub(before), Self { ticks: before + (after.saturating_sub(before)) / 2, ns })
        };
        if source == TickSource::Clock {
            let ns = monotonic_ns();
            return Self { ticks: ns, ns };
        }
        (0..5).map(read).min_by_key(|(took, _)| *took).map_or(Self::default(), |(_, moment)| moment)
    }

    /// The nanosecond of a tick, on the line through this moment and a later one.
    pub fn ns_of(self, later: Self, ticks: u64) -> u64 {
        let ns_per_tick =
            later.ns.saturating_sub(self.ns) as f64 / later.ticks.saturating_sub(self.ticks).max(1) as f64;
        let since = ticks as i128 - self.ticks as i128;
        (self.ns as i128 + (since as f64 * ns_per_tick) as i128).clamp(0, u64::MAX as i128) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_between_two_moments_and_beyond_lie_on_their_line() {
        let (first, later) = (Moment { ticks: 1000, ns: 500 }, Moment { ticks: 3000, ns: 1500 });
        assert_eq!([1000, 2000, 3000, 4000, 800].map(|ticks| first.ns_of(later, ticks)), [500, 1000, 1500, 2000, 400]);
    }

    #[test]
    fn the_counter_is_read_in_order() {
        let source = TickSource::detect();
        let times: Vec<u64> = (0..1000).flat_map(|_| [source.before(), source.after()]).collect();
        assert!(times.is_sorted());
    }
}
