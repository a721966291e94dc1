//! perf.data files, with mappings and functions.

use std::io::Cursor;

use dwell_decode::perf_data::{AddressSpaces, PerfData, Record};
use dwell_decode::symbols::Symbols;

pub(crate) fn run(bytes: &[u8]) {
    let Ok(mut data) = PerfData::open(Cursor::new(bytes)) else { return };
    let mut spaces = AddressSpaces::default();
    // The file itself takes the place of every program: a symbol table may be hostile, too.
    let mut symbols = Symbols::new(|_: &str| Some(bytes.to_vec()));
    while let Ok(Some(record)) = data.next_record() {
        match record {
            &Record::Sample(sample) => {
                let place = sample.process().zip(sample.ip()).and_then(|(process, ip)| spaces.find(process.pid, ip));
                place.map(|place| symbols.find(place, &spaces, data.recording()).len());
            }
            other => spaces.take(other),
        }
    }
}
