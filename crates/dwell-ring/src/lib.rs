//! How records get from a recorded process to the observer: a mapped file of fixed size.
//!
//! The recorded process makes the ring, in a folder that the observer names in its environment, and sends its records
//! with a [`RecordSender`]. The observer empties the ring as a [`Consumer`]. What the bytes mean is the business of the
//! `dwell-records` crate.
//!
//! Besides that one and the clock, the crate depends on libc alone, because it runs inside other people's programs.

pub mod allocations;
mod record_sender;
mod ring;

pub use record_sender::RecordSender;
pub use ring::{
    Consumer, DEFAULT_CAPACITY_BYTES, EVENTS_CAPACITY_BYTES, NOTICE_ENDING, Producer, RingError, file_name,
    leave_notice, process_exists,
};

/// Environment variable with the folder in which a recorded process makes its ring.
pub const RING_DIR_VARIABLE: &str = "DWELL_RING_DIR";

/// Environment variable with the process id of the observer. The producer waits for room only while that process
/// exists.
pub const OBSERVER_PID_VARIABLE: &str = "DWELL_OBSERVER_PID";
