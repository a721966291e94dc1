//! Servers that run until they are interrupted.

use std::thread;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Calls `stop` at Ctrl-C, or when another program asks this one to end.
pub(crate) fn when_interrupted(stop: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("listening for signals")?;
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            stop();
        }
    });
    Ok(())
}
