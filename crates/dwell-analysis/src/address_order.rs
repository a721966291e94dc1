//! Numbers by address, in order.
//!
//! A sorted list in blocks: the first addresses of all blocks stay in the cache, so that a search ends in one block, which lies
//! in one piece of memory. A B-tree with its small nodes takes three to four times as long.

use crate::ranges::ByteRange;

/// Entries of a block at most. Chosen: moving half of them to insert one costs less than to search a list of more blocks.
const BLOCK_MOST: usize = 256;

/// A number for each of some addresses.
#[derive(Debug, Default)]
pub(crate) struct AddressOrder {
    /// The first address of each block; entries of a block are below the first address of the next one. The very first block
    /// may begin with an address below the one noted here.
    firsts: Vec<u64>,
    blocks: Vec<Block>,
}

/// Some entries by address; never empty.
#[derive(Debug)]
struct Block {
    addresses: Vec<u64>,
    numbers: Vec<u32>,
}

impl Block {
    fn with_room() -> Self {
        Self { addresses: Vec::with_capacity(BLOCK_MOST), numbers: Vec::with_capacity(BLOCK_MOST) }
    }

    /// How many addresses are below this one.
    fn below(&self, address: u64) -> usize {
        self.addresses.partition_point(|&known| known < address)
    }

    fn insert(&mut self, place: usize, address: u64, number: u32) {
        self.addresses.insert(place, address);
        self.numbers.insert(place, number);
    }

    /// Takes out the upper half.
    fn split(&mut self) -> Self {
        let mut upper = Self::with_room();
        upper.addresses.extend(self.addresses.drain(BLOCK_MOST / 2..));
        upper.numbers.extend(self.numbers.drain(BLOCK_MOST / 2..));
        upper
    }
}

impl AddressOrder {
    /// Inserts an address that is not there.
    pub(crate) fn insert(&mut self, address: u64, number: u32) {
        if self.blocks.is_empty() {
            self.firsts.push(address);
            self.blocks.push(Block::with_room());
        }
        let mut at = self.block_of(address);
        if self.blocks[at].addresses.len() == BLOCK_MOST {
            let upper = self.blocks[at].split();
            self.firsts.insert(at + 1, upper.addresses[0]);
            self.blocks.insert(at + 1, upper);
            at += usize::from(address >= self.firsts[at + 1]);
        }
        let block = &mut self.blocks[at];
        block.insert(block.below(address), address, number);
    }

    /// Takes an address out, if it is there.
    pub(crate) fn remove(&mut self, address: u64) {
        let at = self.block_of(address);
        let Some(block) = self.blocks.get_mut(at) else { return };
        let Ok(place) = block.addresses.binary_search(&address) else { return };
        block.addresses.remove(place);
        block.numbers.remove(place);
        if block.addresses.is_empty() {
            self.firsts.remove(at);
            self.blocks.remove(at);
        }
    }

    /// The number of the last address below this one.
    pub(crate) fn before(&self, address: u64) -> Option<u32> {
        let at = self.block_of(address);
        let block = self.blocks.get(at)?;
        match block.below(address).checked_sub(1) {
            Some(place) => Some(block.numbers[place]),
            None => self.blocks.get(at.checked_sub(1)?)?.numbers.last().copied(),
        }
    }

    /// The numbers of the addresses in a range, by address.
    pub(crate) fn within(&self, (start, end): ByteRange) -> impl Iterator<Item = u32> {
        let from = self.block_of(start);
        let blocks = self.blocks.get(from..).unwrap_or_default().iter();
        let skipped = self.blocks.get(from).map_or(0, |block| block.below(start));
        let entries = blocks.flat_map(|block| block.addresses.iter().zip(&block.numbers)).skip(skipped);
        entries.take_while(move |&(&address, _)| address < end).map(|(_, &number)| number)
    }

    /// All numbers, by address.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.blocks.iter().flat_map(|block| &block.numbers).copied()
    }

    /// Memory that it holds beside itself.
    pub(crate) fn held_bytes(&self) -> usize {
        let block_bytes = size_of::<Block>() + BLOCK_MOST * (size_of::<u64>() + size_of::<u32>());
        self.blocks.len() * block_bytes + self.firsts.capacity() * size_of::<u64>()
    }

    /// The block that an address is in or would be inserted into.
    fn block_of(&self, address: u64) -> usize {
        self.firsts.partition_point(|&first| first <= address).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_answers_as_a_tree_does(
            changes in prop::collection::vec((0u64..2_000, prop::bool::weighted(0.8)), 0..3_000),
            asked in prop::collection::vec((0u64..2_100, 0u64..300), 20),
        ) {
            let (mut order, mut tree) = (AddressOrder::default(), BTreeMap::new());
            for (number, (address, is_inserted)) in (0u32..).zip(changes) {
                if !is_inserted {
                    order.remove(address);
                    tree.remove(&address);
                } else if tree.insert(address, number).is_none() {
                    order.insert(address, number);
                } else {
                    order.remove(address);
                    order.insert(address, number);
                }
            }
            prop_assert!(order.numbers().eq(tree.values().copied()));
            for (start, size) in asked {
                prop_assert_eq!(order.before(start), tree.range(..start).next_back().map(|(_, &number)| number));
                let within: Vec<u32> = order.within((start, start + size)).collect();
                let expected: Vec<u32> = tree.range(start..start + size).map(|(_, &number)| number).collect();
                prop_assert_eq!(within, expected);
            }
        }
    }
}
