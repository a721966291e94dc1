//! The clocks: one function for each, used by every other crate.
//!
//! It is a crate of its own, with no dependency but libc, because the recorder reads the same clock inside other people's
//! programs. Code that only measures its own duration, or waits until a deadline, uses `std::time::Instant`.

/// CLOCK_MONOTONIC in nanoseconds: the clock of every table, and of Python's `time.monotonic_ns`.
pub fn monotonic_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

/// Wall time: nanoseconds since 1970 in UTC.
pub fn unix_ns() -> u64 {
    read_ns(libc::CLOCK_REALTIME)
}

/// CPU time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of this process, all its threads.
pub fn process_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec to write to. It keeps its zeros if the call fails, and it cannot: these four
    // clocks exist on every Linux and macOS.
    unsafe { libc::clock_gettime(clock, &mut now) };
    // Only a wall clock that is set to before 1970 is negative; recording must go on with it. 64 bits of nanoseconds are
    // 584 years.
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn wall_time_is_that_of_the_standard_library() {
        let std_ns = || SystemTime::now().duration_since(UNIX_EPOCH).expect("this is later than 1970").as_nanos();
        let (before_ns, ours_ns, after_ns) = (std_ns(), u128::from(unix_ns()), std_ns());
        assert!((before_ns..=after_ns).contains(&ours_ns), "{before_ns} {ours_ns} {after_ns}");
    }

    #[test]
    fn cpu_time_of_a_thread_is_a_part_of_its_process() {
        let (thread_ns, process_ns) = (thread_cpu_ns(), process_cpu_ns());
        assert!(thread_ns > 0 && thread_ns <= process_ns, "{thread_ns} {process_ns}");
    }

    #[test]
    fn the_monotonic_clock_never_goes_back() {
        let times: Vec<u64> = (0..1000).map(|_| monotonic_ns()).collect();
        assert!(times.is_sorted() && times[0] > 0);
    }
}
