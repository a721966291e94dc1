use rustix::time::{ClockId, Timespec, clock_gettime};

/// CLOCK_MONOTONIC nanoseconds, the clock of every table.
pub fn monotonic_ns() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// CPU time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

/// CPU time of this process, all its threads.
pub fn process_cpu_ns() -> u64 {
    nanos(clock_gettime(ClockId::ProcessCPUTime))
}

fn nanos(time: Timespec) -> u64 {
    // None of these clocks is ever negative, and 64 bits of nanoseconds are 584 years.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
