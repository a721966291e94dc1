use std::io;

use dwell_events::Hint;

/// Why nothing can be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopbackError {
    /// The port cannot be had.
    #[error("listening on 127.0.0.1:{port} failed with {source}")]
    Port {
        /// The port; 0 for any.
        port: u16,
        /// Why.
        source: io::Error,
    },

    /// The operating system gives no random numbers, or no sockets.
    #[error("starting the server failed with {source}")]
    Start {
        /// Why.
        source: io::Error,
    },
}

impl Hint for LoopbackError {
    fn hints(&self) -> Vec<String> {
        match self {
            LoopbackError::Port { port: 1.., .. } => {
                vec!["choose another port, or leave --port out for any that is free".to_owned()]
            }
            _ => Vec::new(),
        }
    }
}
