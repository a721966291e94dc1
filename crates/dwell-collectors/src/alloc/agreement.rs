//! How much of a program's memory the recorded allocations account for: the growth of its pages without a file, as the kernel lists
//! them, beside the pages that allocations lay in at that moment.
//!
//! It counts pages that were touched. Memory that is allocated and never touched is not the program's yet, for the kernel.

use std::collections::HashMap;
use std::ops::Range;

use dwell_metadata::Agreement;

use super::NAME;
use super::lives::Lives;
use super::ranges::{both, bytes, only_first};
use super::streams::{AnonymousRow, ImageRow};

/// A look at the pages of a process.
struct Look {
    time_ns: u64,
    image: u32,
    pages: Vec<Range<u64>>,
}

/// Growth of an image up to the look with the most of it.
struct Growth {
    since_ns: u64,
    until_ns: u64,
    first: Vec<Range<u64>>,
    accounted_bytes: u64,
    other_bytes: u64,
}

/// Compares looks with the lives of allocations while these are followed.
pub(super) struct Accounting {
    /// In the order of time, the earliest last.
    looks: Vec<Look>,
    growths: HashMap<u32, Growth>,
}

impl Accounting {
    pub(super) fn new(images: &[ImageRow], rows: &[AnonymousRow]) -> Self {
        let image_at = |pid: u32, time_ns: u64| {
            let begun = images.iter().filter(|row| row.process.pid == pid && row.process.made_ns <= time_ns);
            begun.max_by_key(|row| row.process.made_ns).map(|row| row.image)
        };
        let mut looks: Vec<Look> = Vec::new();
        for row in rows {
            let Some(image) = image_at(row.pid, row.time_ns) else { continue };
            if looks.last().is_none_or(|look| (look.time_ns, look.image) != (row.time_ns, image)) {
                looks.push(Look { time_ns: row.time_ns, image, pages: Vec::new() });
            }
            looks.last_mut().expect("one was pushed").pages.push(row.start..row.end);
        }
        looks.sort_by_key(|look| std::cmp::Reverse(look.time_ns));
        Self { looks, growths: HashMap::new() }
    }

    /// Compares the looks before a time with what is allocated then.
    pub(super) fn look_before(&mut self, time_ns: u64, lives: &Lives) {
        while let Some(look) = self.looks.pop_if(|look| look.time_ns < time_ns) {
            self.compare(look, lives);
        }
    }

    fn compare(&mut self, look: Look, lives: &Lives) {
        let growth = self.growths.entry(look.image).or_insert_with(|| Growth {
            since_ns: look.time_ns,
            until_ns: look.time_ns,
            first: look.pages.clone(),
            accounted_bytes: 0,
            other_bytes: 0,
        });
        // Until the ring of the next program is there, looks at it seem to be of the one before, which shares no page with it.
        if both(&look.pages, &growth.first).is_empty() {
            return;
        }
        let grown = only_first(&look.pages, &growth.first);
        let grown_bytes = bytes(&grown);
        if grown_bytes > growth.accounted_bytes + growth.other_bytes {
            growth.accounted_bytes = bytes(&both(&grown, &lives.pages_of(look.image)));
            growth.other_bytes = grown_bytes - growth.accounted_bytes;
            growth.until_ns = look.time_ns;
        }
    }

    /// The agreement over all images; none if no memory has grown between two looks.
    pub(super) fn agreement(&self) -> Option<Agreement> {
        let grown = || self.growths.values().filter(|growth| growth.until_ns > growth.since_ns);
        Some(Agreement {
            about: "growth of anonymous memory, in bytes".to_owned(),
            first: NAME.name().to_owned(),
            second: "the kernel".to_owned(),
            both: grown().map(|growth| growth.accounted_bytes).sum(),
            first_only: 0,
            second_only: grown().map(|growth| growth.other_bytes).sum(),
            from_ns: grown().map(|growth| growth.since_ns).min()?,
            until_ns: grown().map(|growth| growth.until_ns).max()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use dwell_ring::allocations::{AllocationCall, ReadEvent, RecordedProcess};

    use super::super::streams::CallRow;
    use super::*;

    #[test]
    fn what_has_grown_is_accounted_for_as_far_as_allocations_lie_there() {
        let process = RecordedProcess { pid: 7, made_ns: 5, parent: None, program: String::new() };
        let images = [ImageRow { image: 0, process, lost: (0, 0) }];
        let row = |time_ns, start, end| AnonymousRow { time_ns, pid: 7, start, end };
        let rows = [row(10, 0x1000, 0x3000), row(20, 0x1000, 0x3000), row(20, 0x8000, 0xc000), row(30, 0x8000, 0x9000)];
        let mut accounting = Accounting::new(&images, &rows);
        let mut lives = Lives::new(&images);
        let event = |time_ns, call, address, size_bytes| CallRow {
            image: 0,
            event: ReadEvent { sequence: time_ns, time_ns, thread: 1, call, address, size_bytes },
        };
        let calls = [
            event(15, AllocationCall::MmapAnonymous, 0x8000, 0x3000),
            event(25, AllocationCall::MmapAnonymous, 0xb000, 0x1000),
        ];
        for call in calls {
            accounting.look_before(call.event.time_ns, &lives);
            lives.take_in(&call, &mut |_, _, _| {});
        }
        accounting.look_before(u64::MAX, &lives);
        let agreement =
            accounting.agreement().map(|found| (found.both, found.second_only, found.from_ns, found.until_ns));
        assert_eq!(agreement, Some((0x3000, 0x1000, 10, 20)));
    }

    #[test]
    fn pages_of_the_next_program_are_no_growth_of_the_one_before() {
        let process = RecordedProcess { pid: 7, made_ns: 5, parent: None, program: String::new() };
        let images = [ImageRow { image: 0, process, lost: (0, 0) }];
        let row = |time_ns, start, end| AnonymousRow { time_ns, pid: 7, start, end };
        // After an exec at 25, all of its memory lies elsewhere.
        let rows = [row(10, 0x1000, 0x3000), row(20, 0x1000, 0x4000), row(30, 0x70000, 0x90000)];
        let mut accounting = Accounting::new(&images, &rows);
        accounting.look_before(u64::MAX, &Lives::new(&images));
        let agreement = accounting.agreement().map(|found| (found.both, found.second_only, found.until_ns));
        assert_eq!(agreement, Some((0, 0x1000, 20)));
    }
}
