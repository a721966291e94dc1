//! What a recording says about itself, and what was counted while it was read.

use std::collections::HashMap;

use super::attr::Attr;
use super::fields::Fields;
use super::header::MAX_EVENTS;
use super::records::{self, BuildId};

/// Build ids that are kept at most: each is of one file.
const MAX_BUILD_IDS: usize = 1 << 16;

/// What a recording says about itself. It is complete when all records were read: a recording of a pipe tells as it goes.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Events, in the order of the recording.
    pub events: Vec<Event>,
    /// Name of the machine.
    pub hostname: Option<String>,
    /// Release of its kernel.
    pub os_release: Option<String>,
    /// Its architecture, such as `x86_64`.
    pub arch: Option<String>,
    /// Its processor.
    pub cpu_description: Option<String>,
    /// Version of perf.
    pub perf_version: Option<String>,
    /// Command line of `perf record`.
    pub command_line: Vec<String>,
    /// Time of the first and of the last sample.
    pub sample_time_ns: Option<(u64, u64)>,
    /// What two clocks said at the same moment.
    pub clock_data: Option<ClockData>,
    /// Build ids of files, by name.
    pub build_ids: HashMap<String, BuildId>,
    /// Whether `perf record` was ended before it could complete the header.
    pub is_unfinished: bool,
    /// What was counted.
    pub counts: Counts,
}

/// An event.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// Name, such as `cpu/mem-loads,ldlat=30/P`.
    pub name: String,
    pub(super) attr: Attr,
    pub(super) ids: Vec<u64>,
}

/// Counts of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Samples.
    pub samples: u64,
    /// Records that the kernel had no room for, of any kind.
    pub lost_records: u64,
    /// Samples that were lost, by the kernel's own count; those of the buffers are in `lost_records` too.
    pub lost_samples: u64,
    /// How often the kernel stopped sampling because it took too much time.
    pub throttled: u64,
    /// Samples of events that the recording does not describe.
    pub samples_of_unknown_events: u64,
    /// Records that end before their last field.
    pub short_records: u64,
    /// Where the first of them is.
    pub first_short_record: Option<u64>,
    /// Bytes of traces by other units, such as Arm SPE or Intel PT, which are not decoded.
    pub auxtrace_bytes: u64,
    /// Records that were not in order of time and came too late to be put there.
    pub late_records: u64,
}

/// What the recording's clock and the wall clock said at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockData {
    /// The recording's clock, as for `clock_gettime`.
    pub clock_id: i32,
    /// Wall clock, in nanoseconds since 1970.
    pub wall_ns: u64,
    /// The recording's clock.
    pub clock_ns: u64,
}

/// Clock of the times of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingClock {
    /// The one with this number, as for `clock_gettime`; 1 is CLOCK_MONOTONIC.
    Posix(i32),
    /// The scheduler's clock, perf's default. It is near CLOCK_MONOTONIC and is not it.
    Scheduler,
}

impl Event {
    /// Occurrences of the event for each sample, if they are the same for all; samples then need not state it.
    pub fn fixed_period(&self) -> Option<u64> {
        self.attr.fixed_period
    }

    pub(super) fn new(attr: Attr, ids: Vec<u64>) -> Self {
        Self { name: attr.fallback_name(), attr, ids }
    }
}

impl Recording {
    /// Clock of the times; events that differ in it cannot be recorded together.
    pub fn clock(&self) -> RecordingClock {
        let chosen = self.events.iter().find_map(|event| event.attr.clock_id);
        chosen.map_or(RecordingClock::Scheduler, RecordingClock::Posix)
    }

    pub(super) fn take_build_ids(&mut self, section: &[u8]) {
        let mut rest = section;
        while let Some(head) = rest.first_chunk::<8>() {
            let misc = u16::from_le_bytes([head[4], head[5]]);
            let size: usize = u16::from_le_bytes([head[6], head[7]]).into();
            let Some(body) = rest.get(8..size) else { return };
            self.take_build_id(misc, body);
            rest = &rest[size..];
        }
    }

    pub(super) fn take_build_id(&mut self, misc: u16, body: &[u8]) {
        if let Some((name, id)) = records::build_id(misc, body).filter(|_| self.build_ids.len() < MAX_BUILD_IDS) {
            self.build_ids.insert(name, id);
        }
    }

    /// Takes what one section of the header says; one that is cut short says nothing.
    pub(super) fn take_feature(&mut self, feature: u64, section: &[u8]) {
        let mut fields = Fields(section);
        match feature {
            feature::BUILD_ID => self.take_build_ids(section),
            feature::HOSTNAME => self.hostname = fields.text(),
            feature::OSRELEASE => self.os_release = fields.text(),
            feature::VERSION => self.perf_version = fields.text(),
            feature::ARCH => self.arch = fields.text(),
            feature::CPUDESC => self.cpu_description = fields.text(),
            feature::CMDLINE => self.command_line = texts(fields).unwrap_or_default(),
            feature::EVENT_DESC => drop(self.take_event_names(fields)),
            feature::SAMPLE_TIME => self.sample_time_ns = fields.u64().zip(fields.u64()),
            feature::CLOCK_DATA => self.clock_data = clock_data(fields),
            _ => {}
        }
    }

    fn take_event_names(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let (events, attr_bytes) = (fields.u32()?, fields.u32()?);
        for index in 0..(events as usize).min(MAX_EVENTS) {
            fields.bytes(attr_bytes.into())?;
            let ids = fields.u32()?;
            let name = fields.text()?;
            let first_id = Fields(fields.bytes(u64::from(ids) * 8)?).u64();
            let by_id = first_id.and_then(|id| self.events.iter().position(|event| event.ids.first() == Some(&id)));
            if let Some(event) = self.events.get_mut(by_id.unwrap_or(index)) {
                event.name = name;
            }
        }
        Some(())
    }
}

fn texts(mut fields: Fields<'_>) -> Option<Vec<String>> {
    let count = fields.u32()?;
    (0..count).map(|_| fields.text()).collect()
}

fn clock_data(mut fields: Fields<'_>) -> Option<ClockData> {
    let _version = fields.u32()?;
    Some(ClockData { clock_id: fields.u32()? as i32, wall_ns: fields.u64()?, clock_ns: fields.u64()? })
}

/// Sections of the header that are read.
pub(super) mod feature {
    pub const BUILD_ID: u64 = 2;
    pub const HOSTNAME: u64 = 3;
    pub const OSRELEASE: u64 = 4;
    pub const VERSION: u64 = 5;
    pub const ARCH: u64 = 6;
    pub const CPUDESC: u64 = 8;
    pub const CMDLINE: u64 = 11;
    pub const EVENT_DESC: u64 = 12;
    pub const SAMPLE_TIME: u64 = 21;
    pub const CLOCK_DATA: u64 = 29;

    /// All of them.
    pub const READ: [u64; 10] =
        [BUILD_ID, HOSTNAME, OSRELEASE, VERSION, ARCH, CPUDESC, CMDLINE, EVENT_DESC, SAMPLE_TIME, CLOCK_DATA];
}
