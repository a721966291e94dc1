//! Names of blocks that are no numbers.

/// Memory that the allocator takes beside what it was asked for.
const ALLOCATION_BYTES: usize = 16;

/// Names with how many lives have them.
#[derive(Default)]
pub(crate) struct LongNames {
    slots: Vec<Used>,
    free: Vec<u32>,
    bytes: usize,
}

#[derive(Default)]
struct Used {
    name: Box<[u8]>,
    uses: u32,
}

impl LongNames {
    /// Keeps a name for one life.
    pub(crate) fn add(&mut self, name: &[u8]) -> u64 {
        let used = Used { name: name.into(), uses: 1 };
        self.bytes += memory_of(&used);
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = used;
                slot.into()
            }
            None => {
                self.slots.push(used);
                self.slots.len() as u64 - 1
            }
        }
    }

    /// Keeps a name that is there for one more life.
    pub(crate) fn share(&mut self, slot: u64) {
        self.slots[slot as usize].uses += 1;
    }

    pub(crate) fn get(&self, slot: u64) -> &[u8] {
        &self.slots[slot as usize].name
    }

    /// One life less has it.
    pub(crate) fn release(&mut self, slot: u64) {
        let used = &mut self.slots[slot as usize];
        used.uses -= 1;
        if used.uses == 0 {
            self.bytes -= memory_of(used);
            *used = Used::default();
            self.free.push(slot as u32);
        }
    }

    /// Memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn memory_of(used: &Used) -> usize {
    size_of::<Used>() + ALLOCATION_BYTES + used.name.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_as_long_as_any_life_has_it() {
        let mut names = LongNames::default();
        let first = names.add(b"first");
        names.share(first);
        let second = names.add(b"second");
        names.release(first);
        assert_eq!((names.get(first), names.get(second)), (&b"first"[..], &b"second"[..]));
        names.release(first);
        assert_eq!(names.add(b"third"), first, "its place is taken again");
        names.release(first);
        names.release(second);
        assert_eq!(names.bytes(), 0);
    }
}
