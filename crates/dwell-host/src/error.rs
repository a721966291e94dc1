use std::io;

use dwell_events::Hint;

/// Why the machine cannot be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The thread could not be started.
    #[error("starting the sensor thread failed with {source}")]
    NoThread {
        /// What the system said.
        source: io::Error,
    },

    /// An interval of zero would look without end.
    #[error("watching the sensors found an interval of zero, and a longer one was needed")]
    ZeroInterval,
}

impl Hint for HostError {
    fn hints(&self) -> Vec<String> {
        Vec::new()
    }
}
