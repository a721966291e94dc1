//! Perf events of this process, for finding out whether they work.

use std::io;
use std::sync::mpsc;

use dwell_decode::perf_data::{PerfData, Record, Sample};
use dwell_host::{Root, online_cpus};
use dwell_perf::{Rings, SampledEvent};

use super::attaching::{Attaching, Beginning};
use super::{CLOCK, stream};

/// Enough for a trial, and not much of what an ordinary user may have.
const TRIAL_RING_BYTES: usize = 64 << 10;

/// The samples of this process while it does some work.
pub(crate) fn samples_of(events: &[SampledEvent], work: impl FnOnce()) -> io::Result<Vec<Sample>> {
    let (rings, mut reader) = Rings::new(&online_cpus(&Root::default()), CLOCK, TRIAL_RING_BYTES)?;
    let (notes, noted) = mpsc::channel();
    let mut attaching = Attaching::new(rings, events, notes)?;
    attaching.attach(std::process::id(), Beginning::Now)?;
    work();
    attaching.stop();
    let mut recording = stream::head();
    noted.try_iter().for_each(|note| recording.extend(note));
    reader.drain(&mut recording);
    let mut data = PerfData::stream(&recording[..]).map_err(io::Error::other)?;
    let mut samples = Vec::new();
    while let Some(record) = data.next_record().map_err(io::Error::other)? {
        if let Record::Sample(sample) = record {
            samples.push(*sample);
        }
    }
    Ok(samples)
}
