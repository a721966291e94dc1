//! The function and the file of each sampled instruction.

use crate::perf_data::{AddressSpaces, CpuMode, Mapping, Place, Record, Recording, Sample};
use crate::symbols::{ObjectCounts, Symbols};

/// Follows the mappings of a recording, and names the instructions of its samples.
pub struct SampledCode<L> {
    spaces: AddressSpaces,
    symbols: Symbols<L>,
}

/// Where an instruction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Number of the function's name; 0 if it is not known.
    pub name: u32,
    /// The file that it is in, if that is known.
    pub place: Option<Place>,
}

impl<L: FnMut(&str) -> Option<Vec<u8>>> SampledCode<L> {
    /// Names functions from the files that `load` gives.
    pub fn new(load: L) -> Self {
        Self { spaces: AddressSpaces::default(), symbols: Symbols::new(load) }
    }

    /// Takes a record into account; samples change nothing.
    pub fn take(&mut self, record: &Record) {
        self.spaces.take(record);
    }

    /// Where the instruction of a sample is.
    #[inline]
    pub fn of(&mut self, sample: &Sample, recording: &Recording) -> Code {
        let process = sample.process().map(|process| process.pid);
        let pid = if sample.mode() == CpuMode::Kernel { Some(Mapping::KERNEL_PID) } else { process };
        let place = pid.zip(sample.ip()).and_then(|(pid, ip)| self.spaces.find(pid, ip));
        let name = place.map_or(0, |place| self.symbols.number_of(place, &self.spaces, recording));
        Code { name, place }
    }

    /// Name of the function; empty if it is not known.
    #[inline]
    pub fn symbol(&self, code: Code) -> &str {
        self.symbols.name(code.name)
    }

    /// Name of the file; empty if it is not known.
    #[inline]
    pub fn dso(&self, code: Code) -> &str {
        code.place.map_or("", |place| self.spaces.name(place.file))
    }

    /// What processes have mapped.
    pub fn spaces(&self) -> &AddressSpaces {
        &self.spaces
    }

    /// What became of the files.
    pub fn objects(&self) -> ObjectCounts {
        self.symbols.counts
    }
}
