//! From calls to lives: what was allocated is followed until it is given back.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

use dwell_events::PAGE_SHIFT;
use dwell_ring::allocations::{AllocationCall, ReadEvent, RecordedProcess};

use super::streams::{CallRow, ImageRow};

const PAGE: u64 = 1 << PAGE_SHIFT;

/// Memory that a program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) allocated_ns: u64,
    pub(super) thread: u32,
    pub(super) call: AllocationCall,
    pub(super) address: u64,
    pub(super) size_bytes: u64,
    /// Whether the process that this one was forked from had allocated it.
    pub(super) is_inherited: bool,
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) freed_ns: u64,
    pub(super) thread: u32,
    pub(super) call: AllocationCall,
}

/// Takes each life: its process, and its end if that is known.
pub(super) type LifeSink<'a> = dyn FnMut(u32, Life, Option<End>) + 'a;

/// What all calls come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Calls that allocated, and the bytes that they were asked for.
    pub(super) allocations: u64,
    pub(super) allocated_bytes: u64,
    /// Calls that gave memory back.
    pub(super) releases: u64,
    /// Of them, those of memory of which no allocation was recorded.
    pub(super) unmatched_releases: u64,
    /// Allocations in whose place another one came before their end was recorded.
    pub(super) unended: u64,
    /// Bytes that pages were given back of while the memory stayed allocated (`MADV_DONTNEED`, `MADV_FREE`).
    pub(super) advised_bytes: u64,
    /// The most that was allocated at a time by the malloc family and without a file by the mmap family, and when that was.
    pub(super) peak_bytes: u64,
    pub(super) peak_ns: u64,
}

impl Totals {
    /// The totals with their names in the table's file.
    pub(super) fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("allocations", self.allocations),
            ("allocated_bytes", self.allocated_bytes),
            ("releases", self.releases),
            ("unmatched_releases", self.unmatched_releases),
            ("unended_allocations", self.unended),
            ("advised_bytes", self.advised_bytes),
            ("peak_bytes", self.peak_bytes),
            ("peak_ns", self.peak_ns),
        ]
    }
}

/// A program image: its memory at the time up to which calls were taken in.
#[derive(Clone, Default)]
struct Image {
    pid: u32,
    has_begun: bool,
    heap: HashMap<u64, Life>,
    /// Mappings, of which any part can be given back; they do not overlap.
    mappings: BTreeMap<u64, Life>,
    /// What the last call of each thread gave back, as long as that can turn out to have failed.
    unsure: HashMap<u32, (End, Vec<Life>)>,
}

/// A fork whose child is recorded.
struct Fork {
    forked_ns: u64,
    child: u32,
}

/// Follows the memory of all images of a run.
pub(super) struct Lives {
    images: HashMap<u32, Image>,
    /// By the image of the parent, in order.
    forks: HashMap<u32, VecDeque<Fork>>,
    parents: HashMap<u32, u32>,
    live_bytes: u64,
    totals: Totals,
}

impl Lives {
    pub(super) fn new(rows: &[ImageRow]) -> Self {
        let number = |pid: u32, made_ns: u64| {
            rows.iter().find(|row| (row.process.pid, row.process.made_ns) == (pid, made_ns)).map(|row| row.image)
        };
        let mut lives = Self {
            images: HashMap::new(),
            forks: HashMap::new(),
            parents: HashMap::new(),
            live_bytes: 0,
            totals: Totals::default(),
        };
        for ImageRow { image, process: RecordedProcess { pid, parent, .. }, .. } in rows {
            lives.images.insert(*image, Image { pid: *pid, ..Image::default() });
            if let Some((parent_image, parent)) = parent.and_then(|from| Some((number(from.pid, from.made_ns)?, from)))
            {
                let is_new = lives.parents.insert(*image, parent_image).is_none();
                let fork = Fork { forked_ns: parent.forked_ns, child: *image };
                lives.forks.entry(parent_image).or_default().extend(is_new.then_some(fork));
            }
        }
        lives.forks.values_mut().for_each(|forks| forks.make_contiguous().sort_by_key(|fork| fork.forked_ns));
        lives
    }

    /// Takes in the next call.
    pub(super) fn take_in(&mut self, row: &CallRow, tell: &mut LifeSink<'_>) {
        self.hand_on_before(row.image, row.event.time_ns);
        let Some(image) = self.images.get_mut(&row.image) else { return };
        image.has_begun = true;
        let (pid, event) = (image.pid, &row.event);
        if event.call == AllocationCall::Undo {
            for life in image.unsure.remove(&event.thread).into_iter().flat_map(|(_, lives)| lives) {
                self.live_bytes += counted(&life);
                self.totals.releases -= 1;
                image.place(life);
            }
            return;
        }
        if let Some((end, lives)) = image.unsure.remove(&event.thread) {
            lives.into_iter().for_each(|life| tell(pid, life, Some(end)));
        }
        if event.call.allocates() {
            self.allocate(row.image, event, tell);
        } else if event.call.releases() {
            self.release(row.image, event, tell);
        } else {
            self.totals.advised_bytes += event.size_bytes;
        }
    }

    /// Gives children the memory that their parent had when it forked, before the parent goes on.
    fn hand_on_before(&mut self, image: u32, time_ns: u64) {
        if self.images.get(&image).is_some_and(|image| !image.has_begun)
            && let Some(&parent) = self.parents.get(&image)
            && let Some(index) =
                self.forks.get(&parent).and_then(|forks| forks.iter().position(|fork| fork.child == image))
        {
            self.forks.get_mut(&parent).and_then(|forks| forks.remove(index));
            self.hand_on(parent, image);
        }
        let Some(forks) = self.forks.get_mut(&image) else { return };
        let due = forks.partition_point(|fork| fork.forked_ns < time_ns);
        let due: Vec<u32> = forks.drain(..due).map(|fork| fork.child).collect();
        due.into_iter().for_each(|child| self.hand_on(image, child));
    }

    fn hand_on(&mut self, parent: u32, child: u32) {
        let Some(parent) = self.images.get(&parent) else { return };
        let inherited = |life: &Life| Life { is_inherited: true, ..*life };
        let heap = parent.heap.iter().map(|(address, life)| (*address, inherited(life))).collect();
        let mappings = parent.mappings.iter().map(|(address, life)| (*address, inherited(life))).collect();
        if let Some(child) = self.images.get_mut(&child) {
            (child.heap, child.mappings, child.has_begun) = (heap, mappings, true);
        }
    }

    fn allocate(&mut self, image: u32, event: &ReadEvent, tell: &mut LifeSink<'_>) {
        let Some(image) = self.images.get_mut(&image) else { return };
        let ReadEvent { time_ns, thread, call, address, size_bytes, .. } = *event;
        let is_mapping =
            matches!(call, AllocationCall::MmapAnonymous | AllocationCall::MmapFile | AllocationCall::Mremap);
        let size_bytes = if is_mapping { size_bytes.next_multiple_of(PAGE) } else { size_bytes };
        let life = Life { allocated_ns: time_ns, thread, call, address, size_bytes, is_inherited: false };
        if call.is_of_pages() {
            // A mapping can be made in the place of others.
            let end = End { freed_ns: time_ns, thread, call };
            for replaced in image.cut(&(address..address.saturating_add(size_bytes)), time_ns) {
                self.live_bytes = self.live_bytes.saturating_sub(counted(&replaced));
                tell(image.pid, replaced, Some(end));
            }
        }
        if let Some(before) = image.place(life) {
            self.live_bytes = self.live_bytes.saturating_sub(counted(&before));
            self.totals.unended += 1;
            tell(image.pid, before, None);
        }
        self.totals.allocations += 1;
        self.totals.allocated_bytes += size_bytes;
        self.live_bytes += counted(&life);
        if self.live_bytes > self.totals.peak_bytes {
            (self.totals.peak_bytes, self.totals.peak_ns) = (self.live_bytes, time_ns);
        }
    }

    fn release(&mut self, image: u32, event: &ReadEvent, tell: &mut LifeSink<'_>) {
        let Some(image) = self.images.get_mut(&image) else { return };
        let ReadEvent { time_ns, thread, call, address, size_bytes, .. } = *event;
        let end = End { freed_ns: time_ns, thread, call };
        self.totals.releases += 1;
        let released = match call.is_of_pages() {
            true => image.cut(&(address..address.saturating_add(size_bytes.next_multiple_of(PAGE))), time_ns),
            false => image.heap.remove(&address).into_iter().collect(),
        };
        self.totals.unmatched_releases += u64::from(released.is_empty());
        self.live_bytes = self.live_bytes.saturating_sub(released.iter().map(counted).sum());
        if call == AllocationCall::Free {
            released.into_iter().for_each(|life| tell(image.pid, life, Some(end)));
        } else {
            image.unsure.insert(thread, (end, released));
        }
    }

    /// Tells of what was never given back.
    pub(super) fn finish(mut self, tell: &mut LifeSink<'_>) -> Totals {
        let mut images: Vec<(u32, Image)> = std::mem::take(&mut self.images).into_iter().collect();
        images.sort_by_key(|(number, _)| *number);
        for (_, image) in images {
            for (end, lives) in image.unsure.into_values() {
                lives.into_iter().for_each(|life| tell(image.pid, life, Some(end)));
            }
            let mut left: Vec<Life> = image.heap.into_values().chain(image.mappings.into_values()).collect();
            left.sort_by_key(|life| (life.allocated_ns, life.address));
            // What was inherited and not given back is its parent's.
            left.into_iter().filter(|life| !life.is_inherited).for_each(|life| tell(image.pid, life, None));
        }
        self.totals
    }

    /// What is allocated now without a file.
    pub(super) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// The pages that an image's allocations lie in, joined and in order.
    pub(super) fn pages_of(&self, image: u32) -> Vec<Range<u64>> {
        let Some(image) = self.images.get(&image) else { return Vec::new() };
        let pages = |life: &Life| {
            let end = life.address.saturating_add(life.size_bytes.max(1)).saturating_add(PAGE - 1);
            life.address & !(PAGE - 1)..end & !(PAGE - 1)
        };
        let mut all: Vec<Range<u64>> = image.heap.values().chain(image.mappings.values()).map(pages).collect();
        all.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in all {
            match joined.last_mut().filter(|last| last.end >= range.start) {
                Some(last) => last.end = last.end.max(range.end),
                None => joined.push(range),
            }
        }
        joined
    }
}

/// Bytes of a life that count as the process's own memory.
fn counted(life: &Life) -> u64 {
    if life.call == AllocationCall::MmapFile || life.is_inherited { 0 } else { life.size_bytes }
}

impl Image {
    /// Enters a life; gives the one that is still at its place.
    fn place(&mut self, life: Life) -> Option<Life> {
        match life.call.is_of_pages() {
            true => self.mappings.insert(life.address, life),
            false => self.heap.insert(life.address, life),
        }
    }

    /// Takes a range out of the mappings: what lay in it before the time. What is left of a mapping stays, with its begin.
    fn cut(&mut self, range: &Range<u64>, time_ns: u64) -> Vec<Life> {
        let end_of = |life: &Life| life.address.saturating_add(life.size_bytes);
        let before = self.mappings.range(..range.start).next_back().filter(|(_, life)| end_of(life) > range.start);
        let within = self.mappings.range(range.start..range.end.max(range.start));
        // A thread can be late to publish that it gave up what another thread already has.
        let touched: Vec<Life> = before
            .into_iter()
            .chain(within)
            .map(|(_, life)| *life)
            .filter(|life| life.allocated_ns <= time_ns)
            .collect();
        let mut taken = Vec::new();
        for life in touched {
            self.mappings.remove(&life.address);
            let (start, end) = (life.address, end_of(&life));
            let part = |from: u64, to: u64| {
                (from < to).then_some(Life { address: from, size_bytes: to.wrapping_sub(from), ..life })
            };
            let outside = [part(start, range.start.min(end)), part(range.end.max(start), end)];
            for left in outside.into_iter().flatten() {
                self.mappings.insert(left.address, left);
            }
            taken.extend(part(start.max(range.start), end.min(range.end)));
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use dwell_ring::allocations::ForkedFrom;

    use super::*;
    use AllocationCall::{Free, Malloc, MmapAnonymous, Munmap, Realloc, ReallocFree, Undo};

    fn image(image: u32, parent: Option<ForkedFrom>) -> ImageRow {
        let process = RecordedProcess { pid: 100 + image, made_ns: u64::from(image), parent, program: String::new() };
        ImageRow { image, process, lost: (0, 0) }
    }

    fn call(image: u32, time_ns: u64, thread: u32, call: AllocationCall, address: u64, size_bytes: u64) -> CallRow {
        CallRow { image, event: ReadEvent { sequence: time_ns, time_ns, thread, call, address, size_bytes } }
    }

    /// Process, address, size, begin and end.
    type ToldLife = (u32, u64, u64, u64, Option<u64>);

    /// All lives, in the order in which they ended.
    fn lives(images: &[ImageRow], calls: &[CallRow]) -> (Vec<ToldLife>, Totals) {
        let mut told = Vec::new();
        let mut tell = |pid: u32, life: Life, end: Option<End>| {
            told.push((pid, life.address, life.size_bytes, life.allocated_ns, end.map(|end| end.freed_ns)));
        };
        let mut lives = Lives::new(images);
        calls.iter().for_each(|row| lives.take_in(row, &mut tell));
        let totals = lives.finish(&mut tell);
        (told, totals)
    }

    #[test]
    fn what_is_freed_by_another_thread_has_an_end_and_what_stays_has_none() {
        let calls = [
            call(0, 10, 1, Malloc, 0x1000, 30),
            call(0, 20, 2, Malloc, 0x2000, 50),
            call(0, 30, 2, Free, 0x1000, 0),
            call(0, 40, 1, Malloc, 0x1000, 70),
            call(0, 50, 1, Free, 0x9000, 0),
        ];
        let (told, totals) = lives(&[image(0, None)], &calls);
        let expected = [(100, 0x1000, 30, 10, Some(30)), (100, 0x2000, 50, 20, None), (100, 0x1000, 70, 40, None)];
        assert_eq!(told, expected);
        assert_eq!((totals.allocations, totals.allocated_bytes, totals.releases), (3, 150, 2));
        assert_eq!((totals.unmatched_releases, totals.peak_bytes, totals.peak_ns), (1, 120, 40));
    }

    #[test]
    fn a_realloc_ends_one_life_and_begins_another_unless_it_failed() {
        let calls = [
            call(0, 10, 1, Malloc, 0x1000, 30),
            call(0, 20, 1, ReallocFree, 0x1000, 0),
            call(0, 21, 1, Undo, 0x1000, 0),
            call(0, 30, 1, ReallocFree, 0x1000, 0),
            call(0, 31, 1, Realloc, 0x3000, 60),
        ];
        let (told, totals) = lives(&[image(0, None)], &calls);
        assert_eq!(told, [(100, 0x1000, 30, 10, Some(30)), (100, 0x3000, 60, 31, None)]);
        assert_eq!((totals.releases, totals.peak_bytes), (1, 60));
    }

    #[test]
    fn a_mapping_of_which_the_middle_is_unmapped_has_three_parts() {
        let calls = [call(0, 10, 1, MmapAnonymous, 0x10000, 3 * PAGE), call(0, 20, 1, Munmap, 0x11000, 1)];
        let (told, _) = lives(&[image(0, None)], &calls);
        let expected =
            [(100, 0x11000, PAGE, 10, Some(20)), (100, 0x10000, PAGE, 10, None), (100, 0x12000, PAGE, 10, None)];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_mapping_in_the_place_of_another_ends_it_and_a_late_unmapping_of_that_does_nothing() {
        let calls = [
            call(0, 10, 1, MmapAnonymous, 0x10000, PAGE),
            call(0, 30, 2, MmapAnonymous, 0x10000, PAGE),
            call(0, 20, 1, Munmap, 0x10000, PAGE),
        ];
        let (told, totals) = lives(&[image(0, None)], &calls);
        assert_eq!(told, [(100, 0x10000, PAGE, 10, Some(30)), (100, 0x10000, PAGE, 30, None)]);
        assert_eq!(totals.peak_bytes, PAGE);
    }

    #[test]
    fn a_child_frees_what_its_parent_had_when_it_forked() {
        let parent = ForkedFrom { pid: 100, made_ns: 0, forked_ns: 20 };
        let calls = [
            call(0, 10, 1, Malloc, 0x1000, 30),
            call(0, 30, 1, Free, 0x1000, 0),
            call(0, 31, 1, Malloc, 0x1000, 99),
            call(1, 40, 2, Free, 0x1000, 0),
        ];
        let (told, totals) = lives(&[image(0, None), image(1, Some(parent))], &calls);
        let expected = [(100, 0x1000, 30, 10, Some(30)), (101, 0x1000, 30, 10, Some(40)), (100, 0x1000, 99, 31, None)];
        assert_eq!(told, expected);
        assert_eq!(totals.unmatched_releases, 0);
    }

    #[test]
    fn pages_of_allocations_are_joined() {
        let mut lives = Lives::new(&[image(0, None)]);
        let calls = [
            call(0, 10, 1, Malloc, 0x1010, 30),
            call(0, 11, 1, Malloc, 0x1f00, 0x200),
            call(0, 12, 1, MmapAnonymous, 0x9000, 1),
        ];
        calls.iter().for_each(|row| lives.take_in(row, &mut |_, _, _| {}));
        assert_eq!(lives.pages_of(0), [0x1000..0x3000, 0x9000..0xa000]);
    }
}
