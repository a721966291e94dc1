//! One sample.
//!
//! Every field in the order in which the kernel writes it (`perf_output_sample`). What dwell has no use for is skipped,
//! which needs its length: call chains, raw data, branches, registers and stacks all stand before the data source.

use super::attr::Attr;
use super::fields::Fields;
use super::sample_type as st;
use crate::data_source::DataSource;

/// One sampled access. What was not recorded is `None`.
///
/// Fields are kept without their `Option`s, with one set of bits for all: many samples wait to be put in order, and as a
/// struct of options a sample would be twice as large.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    time_ns: u64,
    ip: u64,
    address: u64,
    period: u64,
    weight: u64,
    data_source: u64,
    physical_address: u64,
    process: ProcessThread,
    cpu: u32,
    event: u32,
    /// Which fields there are, as bits of `sample_type`; all that are read are in its lower half.
    fields: u32,
    mode: CpuMode,
}

impl Sample {
    #[inline]
    fn has(&self, bits: u64) -> bool {
        u64::from(self.fields) & bits != 0
    }

    /// Index of the event in [`Recording::events`](super::Recording::events).
    pub fn event(&self) -> usize {
        self.event as usize
    }

    /// In which mode the processor was.
    pub fn mode(&self) -> CpuMode {
        self.mode
    }

    /// When, in nanoseconds of the recording's clock.
    #[inline]
    pub fn time_ns(&self) -> Option<u64> {
        self.has(st::TIME).then_some(self.time_ns)
    }

    /// Address of the instruction.
    pub fn ip(&self) -> Option<u64> {
        self.has(st::IP).then_some(self.ip)
    }

    /// Process and thread.
    pub fn process(&self) -> Option<ProcessThread> {
        self.has(st::TID).then_some(self.process)
    }

    /// Address that was accessed; 0 if the processor did not know it.
    pub fn address(&self) -> Option<u64> {
        self.has(st::ADDR).then_some(self.address)
    }

    /// Processor.
    pub fn cpu(&self) -> Option<u32> {
        self.has(st::CPU).then_some(self.cpu)
    }

    /// How many occurrences of the event the sample stands for.
    pub fn period(&self) -> Option<u64> {
        self.has(st::PERIOD).then_some(self.period)
    }

    /// How long it took.
    pub fn weight(&self) -> Option<Weight> {
        match () {
            () if self.has(st::WEIGHT_STRUCT) => Some(Weight::of_struct(self.weight)),
            () if self.has(st::WEIGHT) => Some(Weight::Cycles(self.weight)),
            () => None,
        }
    }

    /// Where it was answered.
    pub fn data_source(&self) -> Option<DataSource> {
        self.has(st::DATA_SRC).then_some(DataSource(self.data_source))
    }

    /// Physical address; 0 if it is not known.
    pub fn physical_address(&self) -> Option<u64> {
        self.has(st::PHYS_ADDR).then_some(self.physical_address)
    }
}

/// A process and a thread of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessThread {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
}

/// Mode of the processor at a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuMode {
    /// Not stated, or of a hypervisor.
    #[default]
    Other,
    /// In the kernel.
    Kernel,
    /// In a program.
    User,
}

impl CpuMode {
    pub(super) fn of_misc(misc: u16) -> Self {
        match misc & 7 {
            1 => Self::Kernel,
            2 => Self::User,
            _ => Self::Other,
        }
    }
}

/// How long an access took, in cycles of the core. It is no time: the clock of the core is not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// One number (`PERF_SAMPLE_WEIGHT`).
    Cycles(u64),
    /// Three (`PERF_SAMPLE_WEIGHT_STRUCT`).
    Parts {
        /// Intel: from the access to its data. AMD: what a miss of the first cache took; 0 for a hit.
        access_cycles: u32,
        /// Intel: from the dispatch of the instruction to its data. AMD: from tag to retirement.
        instruction_cycles: u16,
        /// Intel: how long the instruction waited to retire.
        retire_cycles: u16,
    },
}

impl Weight {
    fn of_struct(value: u64) -> Self {
        Self::Parts {
            access_cycles: value as u32,
            instruction_cycles: (value >> 32) as u16,
            retire_cycles: (value >> 48) as u16,
        }
    }

    /// Cycles of the access itself, which `perf` prints as weight.
    pub fn access_cycles(self) -> u64 {
        match self {
            Self::Cycles(cycles) => cycles,
            Self::Parts { access_cycles, .. } => access_cycles.into(),
        }
    }
}

const READ_ENABLED: u64 = 1 << 0;
const READ_RUNNING: u64 = 1 << 1;
const READ_ID: u64 = 1 << 2;
const READ_GROUP: u64 = 1 << 3;
const READ_LOST: u64 = 1 << 4;

const BRANCH_HW_INDEX: u64 = 1 << 17;
const BRANCH_COUNTERS: u64 = 1 << 19;

/// A sample of the event with this index and attribute; none if the record ends before its last field.
#[inline]
pub(super) fn parse(event: u32, attr: &Attr, misc: u16, body: &[u8]) -> Option<Sample> {
    let kind = attr.sample_type;
    let has = |bits: u64| kind & bits != 0;
    let mut fields = Fields(body);
    let mut sample = Sample { event, fields: kind as u32, mode: CpuMode::of_misc(misc), ..Sample::default() };
    fields.u64_if(has(st::IDENTIFIER))?;
    sample.ip = fields.u64_if(has(st::IP))?;
    if has(st::TID) {
        sample.process = ProcessThread { pid: fields.u32()?, tid: fields.u32()? };
    }
    sample.time_ns = fields.u64_if(has(st::TIME))?;
    sample.address = fields.u64_if(has(st::ADDR))?;
    fields.u64_if(has(st::ID))?;
    fields.u64_if(has(st::STREAM_ID))?;
    // The other half is reserved.
    sample.cpu = fields.u64_if(has(st::CPU))? as u32;
    sample.period = fields.u64_if(has(st::PERIOD))?;
    if has(st::READ | st::CALLCHAIN | st::RAW | st::BRANCH_STACK | st::REGS_USER | st::STACK_USER) {
        skip_variable_fields(&mut fields, attr)?;
    }
    sample.weight = fields.u64_if(has(st::WEIGHT | st::WEIGHT_STRUCT))?;
    sample.data_source = fields.u64_if(has(st::DATA_SRC))?;
    fields.u64_if(has(st::TRANSACTION))?;
    if has(st::REGS_INTR) {
        skip_registers(&mut fields, attr.interrupt_registers)?;
    }
    sample.physical_address = fields.u64_if(has(st::PHYS_ADDR))?;
    // The control group, the sizes of pages and the trace of an auxiliary unit follow, and nothing after them is wanted.
    Some(sample)
}

fn skip_variable_fields(fields: &mut Fields<'_>, attr: &Attr) -> Option<()> {
    let has = |bits: u64| attr.sample_type & bits != 0;
    if has(st::READ) {
        skip_counts(fields, attr.read_format)?;
    }
    if has(st::CALLCHAIN) {
        let addresses = fields.u64()?;
        fields.skip_u64s(addresses)?;
    }
    if has(st::RAW) {
        let size = fields.u32()?;
        fields.bytes(size.into())?;
    }
    if has(st::BRANCH_STACK) {
        skip_branches(fields, attr.branch_sample_type)?;
    }
    if has(st::REGS_USER) {
        skip_registers(fields, attr.user_registers)?;
    }
    if has(st::STACK_USER) {
        skip_stack(fields)?;
    }
    Some(())
}

fn skip_counts(fields: &mut Fields<'_>, format: u64) -> Option<()> {
    let of_each = u64::from(1 + (format & (READ_ID | READ_LOST)).count_ones());
    let of_all = u64::from((format & (READ_ENABLED | READ_RUNNING)).count_ones());
    let events = if format & READ_GROUP != 0 { fields.u64()? } else { 1 };
    fields.skip_u64s(events.checked_mul(of_each)?.checked_add(of_all)?)
}

fn skip_branches(fields: &mut Fields<'_>, branch_sample_type: u64) -> Option<()> {
    let branches = fields.u64()?;
    fields.u64_if(branch_sample_type & BRANCH_HW_INDEX != 0)?;
    let of_each = if branch_sample_type & BRANCH_COUNTERS != 0 { 4 } else { 3 };
    fields.skip_u64s(branches.checked_mul(of_each)?)
}

/// Registers are there only if the thread had any: a kernel thread has no registers of a program.
fn skip_registers(fields: &mut Fields<'_>, mask: u64) -> Option<()> {
    let abi = fields.u64()?;
    fields.skip_u64s(if abi == 0 { 0 } else { mask.count_ones().into() })
}

fn skip_stack(fields: &mut Fields<'_>) -> Option<()> {
    let size = fields.u64()?;
    if size > 0 {
        fields.bytes(size)?;
        fields.u64()?;
    }
    Some(())
}
