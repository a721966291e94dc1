//! Which file a process has mapped at an address, at the time of the records that were taken so far.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::records::{BuildId, Mapping, Record};

/// Mappings that are kept of all processes together; a process has at most 65,530 by the kernel's default.
const MAX_MAPPINGS: usize = 1 << 21;

/// A file, or another name of memory, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId(u32);

impl FileId {
    /// The number, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where an address is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: FileId,
    /// Offset into it.
    pub file_offset: u64,
}

/// Mappings of every process of a recording.
#[derive(Default)]
pub struct AddressSpaces {
    by_pid: FxHashMap<u32, Arc<Ranges>>,
    files: Vec<MappedFile>,
    file_ids: FxHashMap<(String, Option<BuildId>), FileId>,
    kept: usize,
    /// Mappings that were not kept, because there are too many.
    pub dropped_mappings: u64,
}

struct MappedFile {
    name: String,
    build_id: Option<BuildId>,
}

/// Ranges that do not overlap, by their first address.
type Ranges = BTreeMap<u64, Range>;

#[derive(Clone, Copy)]
struct Range {
    end: u64,
    place: Place,
}

impl Range {
    /// The part from an address on.
    fn from(self, start: u64, address: u64) -> Self {
        Self { place: self.place.plus(address - start), ..self }
    }
}

impl Place {
    fn plus(self, bytes: u64) -> Self {
        Self { file_offset: self.file_offset.wrapping_add(bytes), ..self }
    }
}

impl AddressSpaces {
    /// Takes a record into account; samples change nothing.
    pub fn take(&mut self, record: &Record) {
        match record {
            Record::Mapping(mapping) => self.map(mapping),
            // A thread has the memory of its process already.
            Record::Fork(relation) if relation.pid != relation.parent_pid => {
                if let Some(parent) = self.by_pid.get(&relation.parent_pid).cloned() {
                    self.by_pid.insert(relation.pid, parent);
                }
            }
            // Another program begins with no memory of the one before.
            Record::Comm(comm) if comm.is_exec => drop(self.by_pid.remove(&comm.pid)),
            _ => {}
        }
    }

    /// Where an address of a process is. Addresses of the kernel belong to [`Mapping::KERNEL_PID`].
    #[inline]
    pub fn find(&self, pid: u32, address: u64) -> Option<Place> {
        let (start, range) = self.by_pid.get(&pid)?.range(..=address).next_back()?;
        (address < range.end).then(|| range.place.plus(address - start))
    }

    /// Name of a file.
    pub fn name(&self, file: FileId) -> &str {
        self.files.get(file.index()).map_or("", |file| &file.name)
    }

    /// Build id that the mappings of a file stated.
    pub fn build_id(&self, file: FileId) -> Option<BuildId> {
        self.files.get(file.index())?.build_id
    }

    fn map(&mut self, mapping: &Mapping) {
        let end = mapping.start.saturating_add(mapping.length);
        if end == mapping.start {
            return;
        }
        let shared = self.by_pid.get(&mapping.pid).filter(|ranges| Arc::strong_count(ranges) > 1);
        let added = 1 + shared.map_or(0, |ranges| ranges.len());
        if self.kept + added > MAX_MAPPINGS {
            self.dropped_mappings += 1;
            return;
        }
        self.kept += added;
        let place = Place { file: self.file(mapping), file_offset: mapping.file_offset };
        let ranges = Arc::make_mut(self.by_pid.entry(mapping.pid).or_default());
        cut_out(ranges, mapping.start, end);
        ranges.insert(mapping.start, Range { end, place });
    }

    fn file(&mut self, mapping: &Mapping) -> FileId {
        let next = FileId(self.files.len() as u32);
        let id = *self.file_ids.entry((mapping.name.clone(), mapping.build_id)).or_insert(next);
        if id == next {
            self.files.push(MappedFile { name: mapping.name.clone(), build_id: mapping.build_id });
        }
        id
    }
}

/// Removes what a new mapping covers, and keeps what is before and behind it.
fn cut_out(ranges: &mut Ranges, start: u64, end: u64) {
    let before = ranges.range(..start).next_back().map(|(start, range)| (*start, *range));
    if let Some((before_start, before)) = before.filter(|(_, before)| before.end > start) {
        ranges.insert(before_start, Range { end: start, ..before });
        if before.end > end {
            ranges.insert(end, before.from(before_start, end));
        }
    }
    while let Some((covered_start, covered)) = ranges.range(start..end).next().map(|(start, range)| (*start, *range)) {
        ranges.remove(&covered_start);
        if covered.end > end {
            ranges.insert(end, covered.from(covered_start, end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf_data::{Comm, Relation};

    fn mapped(pid: u32, start: u64, length: u64, file_offset: u64, name: &str) -> Record {
        let name = name.to_owned();
        Record::Mapping(Box::new(Mapping { pid, start, length, file_offset, name, build_id: None }))
    }

    fn spaces(records: &[Record]) -> AddressSpaces {
        let mut spaces = AddressSpaces::default();
        records.iter().for_each(|record| spaces.take(record));
        spaces
    }

    fn found(spaces: &AddressSpaces, pid: u32, address: u64) -> Option<(String, u64)> {
        spaces.find(pid, address).map(|place| (spaces.name(place.file).to_owned(), place.file_offset))
    }

    #[test]
    fn a_mapping_in_the_middle_leaves_both_ends() {
        let spaces = spaces(&[mapped(1, 0x1000, 0x3000, 0, "a"), mapped(1, 0x2000, 0x1000, 0x500, "b")]);
        assert_eq!(found(&spaces, 1, 0xfff), None);
        assert_eq!(found(&spaces, 1, 0x1fff), Some(("a".into(), 0xfff)));
        assert_eq!(found(&spaces, 1, 0x2010), Some(("b".into(), 0x510)));
        assert_eq!(found(&spaces, 1, 0x3004), Some(("a".into(), 0x2004)));
        assert_eq!(found(&spaces, 1, 0x4000), None);
        assert_eq!(found(&spaces, 2, 0x1000), None);
    }

    #[test]
    fn a_mapping_over_several_removes_them() {
        let small = (0..4).map(|index| mapped(1, 0x1000 * (index + 1), 0x1000, 0, "small"));
        let mut records: Vec<Record> = small.collect();
        records.push(mapped(1, 0x1800, 0x2000, 0, "large"));
        let spaces = spaces(&records);
        let names: Vec<String> =
            [0x1000, 0x1800, 0x37ff, 0x3800, 0x4fff].iter().map(|at| found(&spaces, 1, *at).unwrap().0).collect();
        assert_eq!(names, ["small", "large", "large", "small", "small"]);
        assert_eq!(found(&spaces, 1, 0x3800), Some(("small".into(), 0x800)));
    }

    #[test]
    fn a_forked_process_inherits_and_then_goes_its_own_way() {
        let fork = Record::Fork(Relation { pid: 2, parent_pid: 1, tid: 2 });
        let spaces = spaces(&[mapped(1, 0x1000, 0x1000, 0, "a"), fork, mapped(2, 0x1000, 0x1000, 0, "b")]);
        assert_eq!(found(&spaces, 1, 0x1000), Some(("a".into(), 0)));
        assert_eq!(found(&spaces, 2, 0x1000), Some(("b".into(), 0)));
    }

    #[test]
    fn a_process_that_executes_another_program_has_no_memory_of_the_old_one() {
        let comm = |is_exec| Record::Comm(Box::new(Comm { pid: 1, tid: 1, name: "x".into(), is_exec }));
        let named = spaces(&[mapped(1, 0x1000, 0x1000, 0, "a"), comm(false)]);
        assert!(named.find(1, 0x1000).is_some());
        let executed = spaces(&[mapped(1, 0x1000, 0x1000, 0, "a"), comm(true)]);
        assert!(executed.find(1, 0x1000).is_none());
    }
}
