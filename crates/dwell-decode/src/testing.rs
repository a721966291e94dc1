//! Recordings with known content, for tests. The real perf reads the perf.data files, too.

pub mod memray;

/// Bits of a sample's fields that tests ask for, as in `linux/perf_event.h`.
pub mod fields {
    /// What `perf mem record` asks for.
    pub const MEMORY: u64 = 0x1 | 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x8000 | 0x1_0000 | 0x8_0000 | WEIGHT_STRUCT;
    /// One number for the weight.
    pub const WEIGHT: u64 = 1 << 14;
    /// Three numbers for the weight.
    pub const WEIGHT_STRUCT: u64 = 1 << 24;
    /// Everything that stands before the weight and has a length of its own: counts, call chain, raw data, branches,
    /// registers and the stack of the program.
    pub const LONG_BEFORE_WEIGHT: u64 = COUNTS | 0x20 | 0x400 | 0x800 | 0x1000 | 0x2000;
    /// Counts of the events; perf takes the period from their differences.
    pub const COUNTS: u64 = 0x10;
    /// Transaction and registers at the interrupt, between data source and physical address.
    pub const BETWEEN: u64 = 1 << 17 | 1 << 18;
    /// Control group and sizes of pages, behind the physical address.
    pub const BEHIND: u64 = 1 << 21 | 1 << 22 | 1 << 23;
}

/// The values of one sample. Fields that the file's samples do not have are not written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemorySample {
    /// Index of the event.
    pub event: usize,
    /// Address of the instruction.
    pub ip: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Time.
    pub time_ns: u64,
    /// Address of the data.
    pub address: u64,
    /// Processor.
    pub cpu: u32,
    /// Period.
    pub period: u64,
    /// The 64 bits of the weight, whatever they mean.
    pub weight: u64,
    /// Data source.
    pub data_source: u64,
    /// Physical address.
    pub physical_address: u64,
}

/// A perf.data file in the making.
#[derive(Clone, Debug)]
pub struct PerfFile {
    sample_type: u64,
    events: Vec<(String, u64)>,
    records: Vec<u8>,
    clock_id: Option<i32>,
}

/// `raw` events of a core's PMU.
const TYPE_RAW: u32 = 4;
const ATTR_BYTES: usize = 128;
const READ_FORMAT_ID_AND_LOST: u64 = 0x4 | 0x10;
const THREE_REGISTERS: u64 = 0b111;
const BRANCHES_OF_USER: u64 = 0x1 | 0x8;
const STACK_BYTES: u32 = 16;
const USER: u16 = 2;

impl PerfFile {
    /// A file whose samples have these fields, with Intel's two events of memory accesses.
    pub fn new(sample_type: u64) -> Self {
        let events = vec![("cpu/mem-loads,ldlat=30/P".to_owned(), 0x1cd), ("cpu/mem-stores/P".to_owned(), 0x82d0)];
        Self { sample_type, events, records: Vec::new(), clock_id: None }
    }

    /// States the clock of the times.
    pub fn with_clock(mut self, clock_id: i32) -> Self {
        self.clock_id = Some(clock_id);
        self
    }

    /// A process begins a program of this name.
    pub fn comm(&mut self, pid: u32, name: &str) {
        const EXEC: u16 = 1 << 13;
        let mut body = words32(&[pid, pid]);
        body.extend(padded(name.as_bytes()));
        body.extend(self.trailer(pid, 0));
        self.record(3, EXEC, &body);
    }

    /// A process maps a file.
    pub fn mmap2(&mut self, pid: u32, start: u64, length: u64, file_offset: u64, name: &str) {
        let mut body = words32(&[pid, pid]);
        body.extend(words64(&[start, length, file_offset]));
        body.extend(words32(&[8, 1]));
        body.extend(words64(&[77, 0]));
        body.extend(words32(&[5, 2]));
        body.extend(padded(name.as_bytes()));
        body.extend(self.trailer(pid, 0));
        self.record(10, USER, &body);
    }

    /// Another process begins with the memory of one.
    pub fn fork(&mut self, pid: u32, parent_pid: u32, time_ns: u64) {
        let mut body = words32(&[pid, parent_pid, pid, parent_pid]);
        body.extend(words64(&[time_ns]));
        body.extend(self.trailer(parent_pid, time_ns));
        self.record(7, 0, &body);
    }

    /// So many records were lost.
    pub fn lost(&mut self, count: u64, time_ns: u64) {
        let mut body = words64(&[id(0), count]);
        body.extend(self.trailer(0, time_ns));
        self.record(2, 0, &body);
    }

    /// All buffers were written once.
    pub fn round_ends(&mut self) {
        self.record(68, 0, &[]);
    }

    /// A sample, of a program.
    pub fn sample(&mut self, sample: &MemorySample) {
        let body = self.sample_body(sample);
        self.record(9, USER, &body);
    }

    /// A record of any kind.
    pub fn record(&mut self, kind: u32, misc: u16, body: &[u8]) {
        push_record(&mut self.records, kind, misc, body);
    }

    /// The file.
    pub fn file(&self) -> Vec<u8> {
        const HEAD_BYTES: usize = 104;
        let ids_bytes = 8 * self.events.len();
        let attrs_at = HEAD_BYTES + ids_bytes;
        let data_at = attrs_at + self.events.len() * (ATTR_BYTES + 16);
        let description = self.event_description();
        let features_at = data_at + self.records.len();
        let mut file = b"PERFILE2".to_vec();
        let sizes = [HEAD_BYTES, ATTR_BYTES + 16, attrs_at, data_at - attrs_at, data_at, self.records.len(), 0, 0];
        file.extend(words64(&sizes.map(|size| size as u64)));
        file.extend(words64(&[1 << 12, 0, 0, 0]));
        file.extend((0..self.events.len()).flat_map(|event| words64(&[id(event)])));
        for index in 0..self.events.len() {
            file.extend(self.attr(index));
            file.extend(words64(&[(HEAD_BYTES + 8 * index) as u64, 8]));
        }
        file.extend(&self.records);
        file.extend(words64(&[features_at as u64 + 16, description.len() as u64]));
        file.extend(description);
        file
    }

    /// The same as it comes out of a pipe.
    pub fn pipe(&self) -> Vec<u8> {
        let mut pipe = b"PERFILE2".to_vec();
        pipe.extend(words64(&[16]));
        for index in 0..self.events.len() {
            let mut body = self.attr(index);
            body.extend(words64(&[id(index)]));
            push_record(&mut pipe, 64, 0, &body);
        }
        let mut body = words64(&[12]);
        body.extend(self.event_description());
        push_record(&mut pipe, 80, 0, &body);
        pipe.extend(&self.records);
        pipe
    }

    /// The same file with its records compressed, each compressed record with so many bytes of them. Records of the newer
    /// kind state the length of their data and are padded.
    pub fn compressed(&self, bytes_of_each: usize, is_newer_kind: bool) -> std::io::Result<Self> {
        use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};
        let mut encoder = Encoder::new(1)?;
        let mut compressed = Self { records: Vec::new(), ..self.clone() };
        for part in self.records.chunks(bytes_of_each) {
            let mut out = vec![0; 1 << 15];
            let mut output = OutBuffer::around(&mut out[..]);
            encoder.run(&mut InBuffer::around(part), &mut output)?;
            encoder.flush(&mut output)?;
            let length = output.pos();
            if is_newer_kind {
                compressed.record(83, 0, &[&words64(&[length as u64])[..], &out[..length]].concat());
            } else {
                push_unpadded(&mut compressed.records, 81, 0, &out[..length]);
            }
        }
        Ok(compressed)
    }

    fn sample_body(&self, sample: &MemorySample) -> Vec<u8> {
        let mut body = Vec::with_capacity(128);
        let mut put = |bit: u64, bytes: &[u8]| {
            if self.sample_type & bit != 0 {
                body.extend_from_slice(bytes);
            }
        };
        put(1 << 16, &id(sample.event).to_le_bytes());
        put(1 << 0, &sample.ip.to_le_bytes());
        put(1 << 1, &words32(&[sample.pid, sample.tid]));
        put(1 << 2, &sample.time_ns.to_le_bytes());
        put(1 << 3, &sample.address.to_le_bytes());
        put(1 << 6, &id(sample.event).to_le_bytes());
        put(1 << 9, &[9; 8]);
        put(1 << 7, &words32(&[sample.cpu, 0]));
        put(1 << 8, &sample.period.to_le_bytes());
        put(1 << 4, &words64(&[5, id(sample.event), 0]));
        // PERF_CONTEXT_USER, then the instruction.
        put(1 << 5, &words64(&[2, (-512_i64) as u64, sample.ip]));
        put(1 << 10, &words32(&[12, 1, 2, 3]));
        put(1 << 11, &words64(&[2, 1, 2, 3, 4, 5, 6]));
        put(1 << 12, &words64(&[2, 1, 2, 3]));
        put(1 << 13, &words64(&[STACK_BYTES.into(), 1, 2, 8]));
        put(1 << 14 | 1 << 24, &sample.weight.to_le_bytes());
        put(1 << 15, &sample.data_source.to_le_bytes());
        put(1 << 17, &[0; 8]);
        put(1 << 18, &words64(&[2, 1, 2, 3]));
        put(1 << 19, &sample.physical_address.to_le_bytes());
        put(1 << 21, &[1; 8]);
        put(1 << 22, &4096_u64.to_le_bytes());
        put(1 << 23, &4096_u64.to_le_bytes());
        body
    }

    /// Who, when and where of a record that is no sample.
    fn trailer(&self, pid: u32, time_ns: u64) -> Vec<u8> {
        let mut trailer = Vec::new();
        let parts = [(1, words32(&[pid, pid])), (2, words64(&[time_ns])), (6, words64(&[0]))];
        let rest = [(9, words64(&[0])), (7, words64(&[0])), (16, words64(&[0]))];
        for (bit, bytes) in parts.into_iter().chain(rest) {
            if self.sample_type & (1 << bit) != 0 {
                trailer.extend(bytes);
            }
        }
        trailer
    }

    fn attr(&self, index: usize) -> Vec<u8> {
        let use_clock = if self.clock_id.is_some() { 1 << 25 } else { 0 };
        let precise = 2 << 15;
        // mmap, comm, task, sample_id_all, mmap2, comm_exec.
        let flags = 1 << 8 | 1 << 9 | 1 << 13 | 1 << 18 | 1 << 23 | 1 << 24 | precise | use_clock;
        let mut attr = words32(&[TYPE_RAW, ATTR_BYTES as u32]);
        let period = 4000;
        attr.extend(words64(&[
            self.events[index].1,
            period,
            self.sample_type,
            READ_FORMAT_ID_AND_LOST,
            flags,
            0,
            0,
            0,
        ]));
        attr.extend(words64(&[BRANCHES_OF_USER, THREE_REGISTERS]));
        attr.extend(words32(&[STACK_BYTES, self.clock_id.unwrap_or(0) as u32]));
        attr.extend(words64(&[THREE_REGISTERS]));
        attr.resize(ATTR_BYTES, 0);
        attr
    }

    fn event_description(&self) -> Vec<u8> {
        let mut section = words32(&[self.events.len() as u32, ATTR_BYTES as u32]);
        for (index, (name, _)) in self.events.iter().enumerate() {
            section.extend(self.attr(index));
            section.extend(words32(&[1]));
            let mut text = name.clone().into_bytes();
            text.resize((name.len() + 1).next_multiple_of(64), 0);
            section.extend(words32(&[text.len() as u32]));
            section.extend(text);
            section.extend(words64(&[id(index)]));
        }
        section
    }
}

fn id(event: usize) -> u64 {
    11 + event as u64
}

fn push_record(records: &mut Vec<u8>, kind: u32, misc: u16, body: &[u8]) {
    let mut padded = body.to_vec();
    padded.resize(body.len().next_multiple_of(8), 0);
    push_unpadded(records, kind, misc, &padded);
}

fn push_unpadded(records: &mut Vec<u8>, kind: u32, misc: u16, body: &[u8]) {
    records.extend(kind.to_le_bytes());
    records.extend(misc.to_le_bytes());
    records.extend((8 + body.len() as u16).to_le_bytes());
    records.extend(body);
}

fn padded(text: &[u8]) -> Vec<u8> {
    let mut bytes = text.to_vec();
    bytes.resize((text.len() + 1).next_multiple_of(8), 0);
    bytes
}

fn words32(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words64(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
