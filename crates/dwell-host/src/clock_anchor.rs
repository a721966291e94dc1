use dwell_clock::{monotonic_ns, unix_ns};
use dwell_events::ClockAnchor;

/// One moment on both clocks, which tells the wall time of every other.
pub fn clock_anchor() -> ClockAnchor {
    ClockAnchor { monotonic_ns: monotonic_ns(), unix_ns: unix_ns() }
}
