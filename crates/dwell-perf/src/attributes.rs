//! What an event counts, and what its samples say: `perf_event_attr`.

/// Bytes of the attributes, up to the clock: the fourth version of the structure (Linux 4.1).
pub const ATTRIBUTES_BYTES: usize = 104;

/// Types of events; those of the processor's units are numbered by the kernel.
pub mod kinds {
    /// Events of the processor that the kernel knows by name.
    pub const HARDWARE: u32 = 0;
    /// Events of the kernel itself.
    pub const SOFTWARE: u32 = 1;
}

/// Events of the kernel itself.
pub mod software {
    /// Page faults of all kinds.
    pub const PAGE_FAULTS: u64 = 2;
    /// Counts nothing; for records of mappings, and for rings.
    pub const DUMMY: u64 = 9;
}

/// Fields of samples.
pub mod sampled {
    /// Address of the instruction.
    pub const IP: u64 = 1 << 0;
    /// Process and thread.
    pub const TID: u64 = 1 << 1;
    /// Time.
    pub const TIME: u64 = 1 << 2;
    /// Address of the data.
    pub const ADDR: u64 = 1 << 3;
    /// Processor.
    pub const CPU: u64 = 1 << 7;
    /// Events since the sample before.
    pub const PERIOD: u64 = 1 << 8;
    /// Latency, as one number.
    pub const WEIGHT: u64 = 1 << 14;
    /// Where the access was answered.
    pub const DATA_SRC: u64 = 1 << 15;
    /// Number of the event, at the begin of samples and the end of other records.
    pub const IDENTIFIER: u64 = 1 << 16;
    /// Latency, as three numbers.
    pub const WEIGHT_STRUCT: u64 = 1 << 24;
}

/// Bits of [`Attributes::flags`].
pub mod flags {
    /// Does not count before it is enabled.
    pub const DISABLED: u64 = 1 << 0;
    /// Threads and processes that are started have it too.
    pub const INHERIT: u64 = 1 << 1;
    /// Not while the kernel works for the program.
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    /// Not while a hypervisor works.
    pub const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    /// Records of mappings that hold code.
    pub const MMAP: u64 = 1 << 8;
    /// Records of names of threads.
    pub const COMM: u64 = 1 << 9;
    /// Begins to count when the program becomes another one.
    pub const ENABLE_ON_EXEC: u64 = 1 << 12;
    /// Records of begins and ends of threads.
    pub const TASK: u64 = 1 << 13;
    /// Wakes the reader by bytes in the ring, not by samples.
    pub const WATERMARK: u64 = 1 << 14;
    /// Least skid that allows an address: `precise_ip` 2, bits 15 and 16.
    pub const PRECISE: u64 = 2 << 15;
    /// Records of mappings that hold no code.
    pub const MMAP_DATA: u64 = 1 << 17;
    /// All records say at their end when and where they were written.
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    /// Records of mappings name the file by its number too.
    pub const MMAP2: u64 = 1 << 23;
    /// Names of threads say whether another program was begun.
    pub const COMM_EXEC: u64 = 1 << 24;
    /// Records of mappings name the file by its build id (Linux 5.12).
    pub const BUILD_ID: u64 = 1 << 34;
    /// Everything that tells which process had which file mapped where.
    pub const PROCESSES: u64 = MMAP | MMAP2 | MMAP_DATA | COMM | COMM_EXEC | TASK | SAMPLE_ID_ALL | BUILD_ID;
    /// Times are of [`Attributes::clock`](super::Attributes::clock).
    pub const USE_CLOCK: u64 = 1 << 25;
}

const READ_LOST: u64 = 1 << 4;

/// What an event counts, and what its samples say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Type of the event.
    pub kind: u32,
    /// The event.
    pub config: u64,
    /// More of it.
    pub config1: u64,
    /// More of it.
    pub config2: u64,
    /// Events from one sample to the next; 0 for an event that only counts.
    pub period: u64,
    /// Fields of samples: [`sampled`].
    pub sample_type: u64,
    /// [`flags`].
    pub flags: u64,
    /// Bytes in the ring that wake its reader.
    pub watermark_bytes: u32,
    /// Clock of the times, as for `clock_gettime`.
    pub clock: i32,
    /// Whether the kernel counts records for which the ring had no room (Linux 6.0).
    pub counts_lost: bool,
}

impl Attributes {
    /// An event of a program's own code.
    pub fn of_user(kind: u32, config: u64) -> Self {
        Self { kind, config, flags: flags::EXCLUDE_KERNEL | flags::EXCLUDE_HYPERVISOR, ..Self::default() }
    }

    /// With a sample every so many events.
    pub fn sampled(self, period: u64, sample_type: u64) -> Self {
        Self { period, sample_type, ..self }
    }

    /// With these flags too.
    pub fn with(self, flags: u64) -> Self {
        Self { flags: self.flags | flags, ..self }
    }

    /// Without these flags.
    pub fn without(self, flags: u64) -> Self {
        Self { flags: self.flags & !flags, ..self }
    }

    /// As the kernel reads them, and as they stand in a recording.
    pub fn to_bytes(&self) -> [u8; ATTRIBUTES_BYTES] {
        let mut bytes = [0; ATTRIBUTES_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &self.kind.to_ne_bytes());
        put(4, &(ATTRIBUTES_BYTES as u32).to_ne_bytes());
        put(8, &self.config.to_ne_bytes());
        put(16, &self.period.to_ne_bytes());
        put(24, &self.sample_type.to_ne_bytes());
        put(32, &(if self.counts_lost { READ_LOST } else { 0 }).to_ne_bytes());
        put(40, &self.flags.to_ne_bytes());
        put(48, &self.watermark_bytes.to_ne_bytes());
        put(56, &self.config1.to_ne_bytes());
        put(64, &self.config2.to_ne_bytes());
        put(92, &self.clock.to_ne_bytes());
        bytes
    }
}

/// An event whose samples are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledEvent {
    /// What perf calls it, such as `cpu/mem-loads,ldlat=30/`.
    pub name: String,
    /// An event that has to be opened before it, in one group.
    pub leader: Option<Attributes>,
    /// The event.
    pub attributes: Attributes,
    /// Processors that have it; none if all do.
    pub cpus: Option<Vec<u32>>,
}
