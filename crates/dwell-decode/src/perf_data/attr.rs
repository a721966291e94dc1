//! `perf_event_attr`: what was recorded for one event, and so what its samples look like.

use super::fields::Fields;
use super::sample_type as st;

/// Bytes of the first version of the structure; later ones only append.
const FIRST_VERSION_BYTES: usize = 64;

/// What is stated is samples for each second, and the kernel chooses the period.
const IS_FREQUENCY: u64 = 1 << 10;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCKID: u64 = 1 << 25;

/// Structure of one event's records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attr {
    pub kind: u32,
    pub config: u64,
    /// Occurrences of the event from one sample to the next, if that is the same for all samples.
    pub fixed_period: Option<u64>,
    pub sample_type: u64,
    pub read_format: u64,
    pub branch_sample_type: u64,
    pub user_registers: u64,
    pub interrupt_registers: u64,
    /// Whether records that are no samples end with who, when and where, too.
    pub has_sample_id_all: bool,
    /// Clock of the times, if one was asked for.
    pub clock_id: Option<i32>,
}

impl Attr {
    /// The attribute at the start of `bytes`, and how many bytes of them it says it takes.
    pub fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let stated = u32::from_le_bytes(*bytes.get(4..8)?.first_chunk()?) as usize;
        // 0 stands for the first version.
        let size = if stated == 0 { FIRST_VERSION_BYTES } else { stated };
        if size < FIRST_VERSION_BYTES || size > bytes.len() {
            return None;
        }
        let bytes = &bytes[..size];
        let u64_at = |at: usize| bytes.get(at..).and_then(|rest| Fields(rest).u64()).unwrap_or(0);
        let u32_at = |at: usize| bytes.get(at..).and_then(|rest| Fields(rest).u32()).unwrap_or(0);
        let flags = u64_at(40);
        let attr = Self {
            kind: u32_at(0),
            config: u64_at(8),
            fixed_period: (flags & IS_FREQUENCY == 0).then(|| u64_at(16)),
            sample_type: u64_at(24),
            read_format: u64_at(32),
            branch_sample_type: u64_at(72),
            user_registers: u64_at(80),
            interrupt_registers: u64_at(96),
            has_sample_id_all: flags & SAMPLE_ID_ALL != 0,
            clock_id: (flags & USE_CLOCKID != 0).then(|| u32_at(92) as i32),
        };
        Some((attr, size))
    }

    /// Offset of the event's id within a sample; none if samples do not have it.
    pub fn id_position(&self) -> Option<usize> {
        if self.sample_type & st::IDENTIFIER != 0 {
            return Some(0);
        }
        let before = st::IP | st::TID | st::TIME | st::ADDR;
        (self.sample_type & st::ID != 0).then(|| 8 * (self.sample_type & before).count_ones() as usize)
    }

    /// Bytes of who, when and where at the end of records that are no samples.
    pub fn trailer_bytes(&self) -> usize {
        if self.has_sample_id_all { 8 * (self.sample_type & st::TRAILER).count_ones() as usize } else { 0 }
    }

    /// The time that such an end states.
    pub fn trailer_time(&self, trailer: &[u8]) -> Option<u64> {
        let has_time = self.has_sample_id_all && self.sample_type & st::TIME != 0;
        let at = if self.sample_type & st::TID != 0 { 8 } else { 0 };
        has_time.then(|| Fields(trailer.get(at..)?).u64()).flatten()
    }

    /// What `perf` calls an event of this type and configuration, for recordings that do not name it.
    pub fn fallback_name(&self) -> String {
        let software = [
            "cpu-clock",
            "task-clock",
            "page-faults",
            "context-switches",
            "cpu-migrations",
            "minor-faults",
            "major-faults",
            "alignment-faults",
            "emulation-faults",
            "dummy",
        ];
        match (self.kind, usize::try_from(self.config).ok().and_then(|config| software.get(config))) {
            (1, Some(name)) => (*name).to_owned(),
            (4, _) => format!("r{:x}", self.config),
            (kind, _) => format!("type {kind} config {:#x}", self.config),
        }
    }
}
