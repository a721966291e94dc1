//! The text of `perf script`, with the fields that users of perf mem print.
//!
//! Fields may be missing; a sample needs a time and an address of data (`-F …,time,addr`). The data source is taken from
//! its number, not from the text behind it. Of a call chain the innermost function is taken.
//!
//! What the text does not say: one number before the time is a thread by default and a process with `-F pid`, and nothing
//! tells which, so it is taken as a thread. Times have whole microseconds without `--ns`.

mod column;
mod layout;
mod line;
mod lines;

use std::collections::BTreeMap;
use std::io::Read;

use crate::data_source::DataSource;
use crate::error::DecodeError;
use layout::Layout;
use lines::Lines;

/// Lines that are kept of each reason, for showing.
const MAX_KEPT_LINES: usize = 3;
/// Bytes of each of them.
const MAX_KEPT_BYTES: usize = 200;

/// One sample of the text. What was not printed is `None`, or empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptSample<'a> {
    /// Program, in whatever encoding it named itself.
    pub comm: &'a [u8],
    /// Process, if it was printed beside the thread.
    pub pid: Option<u32>,
    /// Thread.
    pub tid: Option<u32>,
    /// Processor.
    pub cpu: Option<u32>,
    /// When, in nanoseconds of the recording's clock.
    pub time_ns: u64,
    /// Period.
    pub period: Option<u64>,
    /// Event, with its modifiers.
    pub event: &'a str,
    /// Address that was accessed.
    pub address: u64,
    /// Where it was answered.
    pub data_source: Option<DataSource>,
    /// How long it took, in cycles.
    pub weight: Option<u64>,
    /// Address of the instruction.
    pub ip: Option<u64>,
    /// Function of the instruction, without an offset.
    pub symbol: &'a str,
    /// File of the instruction.
    pub dso: &'a str,
    /// If it is known without looking: two numbers that are the same in samples with the same event, data source, symbol and
    /// file, and in no others.
    pub alike: Option<(u64, u64)>,
}

/// Why a line gave no sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It has no time.
    NoTime,
    /// It has no address of data.
    NoAddress,
    /// It has the text of a data source without its number.
    NoDataSource,
    /// It has a number that is none, or is too large.
    BadNumber,
    /// Its fields are in an order in which perf does not print them.
    OtherOrder,
    /// It is a record that is no sample (`--show-mmap-events`).
    OtherRecord,
    /// It is longer than any that is read.
    TooLong,
    /// The text ends within it, so that a number may be cut.
    Unfinished,
    /// It is not UTF-8.
    NotUtf8,
}

impl Reason {
    /// The reason in words.
    pub fn text(self) -> &'static str {
        match self {
            Self::NoTime => "no time of a sample",
            Self::NoAddress => "no address of data",
            Self::NoDataSource => "a data source without its number",
            Self::BadNumber => "a number out of range",
            Self::OtherOrder => "fields in another order than perf prints them",
            Self::OtherRecord => "a record that is no sample",
            Self::TooLong => "longer than 64 KiB",
            Self::Unfinished => "the text ends within it",
            Self::NotUtf8 => "not UTF-8",
        }
    }
}

/// Lines that gave no sample, of one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkippedLines {
    /// How many.
    pub count: u64,
    /// The first of them: number of the line, from 1, and its beginning.
    pub first: Vec<(u64, String)>,
}

/// Counts of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptCounts {
    /// Lines.
    pub lines: u64,
    /// Samples.
    pub samples: u64,
    /// Lines of call chains.
    pub chain_lines: u64,
    /// Records that were lost, as far as the text says so (`--show-lost-events`).
    pub lost_records: u64,
    /// Lines that gave no sample and should have, by reason.
    pub skipped: BTreeMap<Reason, SkippedLines>,
}

/// A reader of the text.
pub struct PerfScript<R> {
    lines: Lines<R>,
    layout: Layout,
    counts: ScriptCounts,
}

impl<R: Read> PerfScript<R> {
    /// Reads a text.
    pub fn new(reader: R) -> Self {
        Self { lines: Lines::new(reader), layout: Layout::default(), counts: ScriptCounts::default() }
    }

    /// Counts of what was read so far.
    pub fn counts(&self) -> &ScriptCounts {
        &self.counts
    }

    /// Gives every sample to `take`, to the end of the text or its first error.
    pub fn read<E: From<DecodeError>>(
        &mut self,
        mut take: impl FnMut(&ScriptSample<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(line) = self.lines.next()? {
            self.counts.lines += 1;
            let is_alone = line.fault.is_none() && line.chain.is_none();
            if let Some(sample) = is_alone.then(|| self.layout.parse(line.text)).flatten() {
                self.counts.samples += 1;
                take(&sample)?;
                continue;
            }
            if line.fault.is_none() && self.counts.is_no_sample(line.text) {
                continue;
            }
            match line.fault.map_or_else(|| line::parse(line.text, line.chain), Err) {
                Ok(sample) => {
                    self.counts.samples += 1;
                    take(&sample)?;
                    if is_alone {
                        self.layout.learn(line.text, &sample);
                    }
                }
                Err(reason) => self.counts.skip(reason, line.text),
            }
        }
        Ok(())
    }
}

impl ScriptCounts {
    /// Whether a line is one that belongs to the text and is no sample: empty, a comment, or part of a call chain.
    fn is_no_sample(&mut self, line: &[u8]) -> bool {
        let is_chain = line.first() == Some(&b'\t');
        self.chain_lines += u64::from(is_chain);
        is_chain || line.first() == Some(&b'#') || line.trim_ascii().is_empty()
    }

    fn skip(&mut self, reason: Reason, line: &[u8]) {
        if reason == Reason::OtherRecord {
            self.lost_records = self.lost_records.saturating_add(lost_count(line).unwrap_or(0));
        }
        let skipped = self.skipped.entry(reason).or_default();
        skipped.count += 1;
        if skipped.first.len() < MAX_KEPT_LINES {
            let beginning = &line[..line.len().min(MAX_KEPT_BYTES)];
            skipped.first.push((self.lines, String::from_utf8_lossy(beginning).into_owned()));
        }
    }
}

/// `PERF_RECORD_LOST lost 42`.
fn lost_count(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?;
    line.split_once("PERF_RECORD_LOST lost ")?.1.split_whitespace().next()?.parse().ok()
}
