//! The steps of a trace, each with the bytes that it touched.
//!
//! A step is all rows of one process with one number, whatever rows come between: processes compute in turns, and a row
//! without a step may lie inside of one.

use std::collections::VecDeque;

use dwell_events::address_space::{PROCESSES_MAX, process_of};
use rustc_hash::FxHashMap;

use crate::ranges::{ByteRange, RangeSet};
use crate::region_type::KNOWN_TYPES;
use crate::touched_steps::{PROMPT_NUMBER, STEPS_BACK};

/// The `step` of a prompt.
pub(crate) const PROMPT: u32 = 0;

/// A step of a process.
type StepKey = (u8, u32);

/// A step that rows have been in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownStep {
    /// Its place among all steps, in the order in which they were first seen.
    pub(crate) place: usize,
    /// Its number in its process, as [`TouchedSteps`](crate::lives::TouchedSteps) wants it.
    pub(crate) number: u32,
}

/// Numbers the steps of each process.
#[derive(Debug)]
pub(crate) struct StepNumbers {
    known: FxHashMap<StepKey, KnownStep>,
    /// The last number that each process used.
    last_numbers: [u32; PROCESSES_MAX],
    /// The step that was asked for last: rows of a step mostly follow each other.
    recent: Option<(StepKey, KnownStep)>,
}

impl Default for StepNumbers {
    fn default() -> Self {
        Self { known: FxHashMap::default(), last_numbers: [PROMPT_NUMBER; PROCESSES_MAX], recent: None }
    }
}

impl StepNumbers {
    /// The step of a row at this address; none if the row is in none.
    pub(crate) fn enter(&mut self, address: u64, step: Option<u32>) -> Option<KnownStep> {
        step.map(|step| self.find((process_of(address), step)))
    }

    fn find(&mut self, key: StepKey) -> KnownStep {
        if let Some((_, step)) = self.recent.filter(|(recent, _)| *recent == key) {
            return step;
        }
        let place = self.known.len();
        let last_number = &mut self.last_numbers[usize::from(key.0)];
        let step = *self.known.entry(key).or_insert_with(|| {
            *last_number += u32::from(key.1 != PROMPT);
            KnownStep { place, number: if key.1 == PROMPT { PROMPT_NUMBER } else { *last_number } }
        });
        self.recent = Some((key, step));
        step
    }
}

/// Bytes touched in each step, by region type.
#[derive(Debug, Default)]
pub(crate) struct StepWindows {
    numbers: StepNumbers,
    /// Numbers of the steps in their processes, by place.
    numbers_by_place: Vec<u32>,
    /// By place of the step.
    bytes: Vec<[u64; KNOWN_TYPES]>,
}

impl StepWindows {
    /// As [`StepNumbers::enter`].
    pub(crate) fn enter(&mut self, address: u64, step: Option<u32>) -> Option<KnownStep> {
        let step = self.numbers.enter(address, step)?;
        self.make_room(step);
        Some(step)
    }

    fn make_room(&mut self, step: KnownStep) {
        if step.place == self.bytes.len() {
            self.bytes.push([0; KNOWN_TYPES]);
            self.numbers_by_place.push(step.number);
        }
    }

    /// The step at a place.
    #[inline]
    pub(crate) fn at(&self, place: usize) -> KnownStep {
        KnownStep { place, number: self.numbers_by_place[place] }
    }

    /// Adds bytes to a step that was entered.
    pub(crate) fn add(&mut self, step: KnownStep, type_index: usize, bytes: u64) {
        let sum = &mut self.bytes[step.place][type_index];
        *sum = sum.saturating_add(bytes);
    }

    /// Bytes of each step, in the order in which they were first seen.
    pub(crate) fn bytes(&self) -> &[[u64; KNOWN_TYPES]] {
        &self.bytes
    }

    /// The same for good.
    pub(crate) fn into_bytes(self) -> Vec<[u64; KNOWN_TYPES]> {
        self.bytes
    }

    /// Memory that it holds beside itself.
    pub(crate) fn held_bytes(&self) -> usize {
        let known = self.numbers.known.capacity() * 8 / 7 * (size_of::<(StepKey, KnownStep)>() + 1);
        known + self.bytes.capacity() * size_of::<[u64; KNOWN_TYPES]>()
    }
}

/// What the steps of each process touched, for memory whose bytes no life remembers.
#[derive(Debug, Default)]
pub(crate) struct StepRanges {
    processes: FxHashMap<u8, ProcessRanges>,
}

#[derive(Debug, Default)]
struct ProcessRanges {
    prompt: RangeSet,
    /// By number of the step, as far back as a step can come back.
    recent: VecDeque<(u32, RangeSet)>,
    latest: u32,
}

impl StepRanges {
    /// Says that a row of a step is at this address. All rows have to be told, also those of other parts of the trace: a
    /// step is forgotten when later ones have begun.
    pub(crate) fn enter(&mut self, step: KnownStep, address: u64) {
        self.processes.entry(process_of(address)).or_default().enter(step.number);
    }

    /// Adds a range to what a step touched that was entered, and says how many of its bytes are new there.
    pub(crate) fn touch(&mut self, step: KnownStep, range: ByteRange) -> u64 {
        let process = self.processes.entry(process_of(range.0)).or_default();
        process.of_step(step.number).map_or(0, |known| known.insert(range))
    }

    /// Memory that it holds beside itself.
    pub(crate) fn held_bytes(&self) -> usize {
        let sets = self.processes.values().flat_map(ProcessRanges::sets);
        sets.map(RangeSet::held_bytes).sum()
    }
}

impl ProcessRanges {
    fn enter(&mut self, number: u32) {
        if number == PROMPT_NUMBER || number <= self.latest {
            return;
        }
        self.latest = number;
        let oldest = self.oldest();
        while self.recent.front().is_some_and(|(number, _)| *number < oldest) {
            self.recent.pop_front();
        }
    }

    /// The oldest step that is not forgotten.
    fn oldest(&self) -> u32 {
        self.latest.saturating_sub(STEPS_BACK)
    }

    fn sets(&self) -> impl Iterator<Item = &RangeSet> {
        self.recent.iter().map(|(_, ranges)| ranges).chain([&self.prompt])
    }

    /// None of a step that is forgotten.
    fn of_step(&mut self, number: u32) -> Option<&mut RangeSet> {
        if number == PROMPT_NUMBER {
            return Some(&mut self.prompt);
        }
        if number < self.oldest() {
            return None;
        }
        let place = self.recent.partition_point(|(known, _)| *known < number);
        if self.recent.get(place).is_none_or(|(known, _)| *known != number) {
            self.recent.insert(place, (number, RangeSet::default()));
        }
        self.recent.get_mut(place).map(|(_, ranges)| ranges)
    }
}
