//! The blocks of a cache, in few bytes each: servers have millions of them, and hostile publishers name as many as they like.
//!
//! A life lies in a slot of a table without gaps in memory, and an index finds the slot by the block's name and place. Names that
//! are numbers lie in the life itself; others in [`LongNames`], once for a block and the blocks that are attached to it.

use std::hash::{BuildHasher, Hash, RandomState};

use hashbrown::HashTable;

use crate::event::BlockHash;
use crate::long_names::LongNames;
use crate::places::PlaceIndex;

/// Lives that memory is taken for at a time: a table that doubles would need three times its size.
const CHUNK_LIVES: usize = 4096;
/// Memory of a life with its part of the index; a test measures it.
pub(crate) const LIFE_BYTES: usize = 96;

/// Number of a slot.
pub(crate) type Slot = u32;

/// Name of a block as it lies in a life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Name {
    /// The number, or where a long name is.
    bits: u64,
    kind: NameKind,
}

/// What the bits of a name mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum NameKind {
    #[default]
    None,
    Signed,
    Unsigned,
    Bytes,
    Text,
}

/// A block that is in the cache, or whose end was not told yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life {
    pub(crate) hash_bits: u64,
    pub(crate) parent_bits: u64,
    /// Counts the stores, so that lives that end together end in the order in which they began.
    pub(crate) number: u64,
    pub(crate) write_ns: u64,
    /// Meaningful once it has been used.
    pub(crate) last_use_ns: u64,
    pub(crate) tokens_hash: u64,
    pub(crate) uses: u32,
    /// Beyond those of the table if it is not known.
    pub(crate) position: u32,
    pub(crate) positions: u32,
    pub(crate) place: PlaceIndex,
    /// Number of the adapter's name, from 1.
    pub(crate) lora: u32,
    pub(crate) hash_kind: NameKind,
    pub(crate) parent_kind: NameKind,
    pub(crate) has_tokens_hash: bool,
    /// Whether another block was attached to it.
    pub(crate) has_child: bool,
}

/// A position that is not known.
const NO_POSITION: u32 = u32::MAX;

impl Life {
    pub(crate) fn hash(&self) -> Name {
        Name { bits: self.hash_bits, kind: self.hash_kind }
    }

    /// The block before it; `NameKind::None` if it has none.
    pub(crate) fn parent(&self) -> Name {
        Name { bits: self.parent_bits, kind: self.parent_kind }
    }

    pub(crate) fn use_at(&mut self, time_ns: u64) {
        let earliest = if self.uses == 0 { self.write_ns } else { self.last_use_ns };
        self.last_use_ns = earliest.max(time_ns).max(self.write_ns);
        self.uses = self.uses.saturating_add(1);
    }

    pub(crate) fn last_use_ns(&self) -> Option<u64> {
        (self.uses > 0).then_some(self.last_use_ns)
    }

    pub(crate) fn first_position(&self) -> Option<i32> {
        i32::try_from(self.position).ok()
    }

    pub(crate) fn set_first_position(&mut self, position: Option<i32>) {
        self.position = position.and_then(|position| u32::try_from(position).ok()).unwrap_or(NO_POSITION);
    }

    pub(crate) fn end_position(&self) -> Option<i32> {
        self.first_position()?.checked_add(i32::try_from(self.positions).ok()?)
    }
}

/// All blocks that are followed.
#[derive(Default)]
pub(crate) struct LiveBlocks {
    hasher: RandomState,
    index: HashTable<Slot>,
    lives: Lives,
    names: LongNames,
}

/// Slots with lives.
#[derive(Default)]
struct Lives {
    chunks: Vec<Vec<Life>>,
    free: Vec<Slot>,
}

impl Lives {
    fn get(&self, slot: Slot) -> &Life {
        &self.chunks[slot as usize / CHUNK_LIVES][slot as usize % CHUNK_LIVES]
    }

    fn get_mut(&mut self, slot: Slot) -> &mut Life {
        &mut self.chunks[slot as usize / CHUNK_LIVES][slot as usize % CHUNK_LIVES]
    }

    fn put(&mut self, life: Life) -> Slot {
        if let Some(slot) = self.free.pop() {
            *self.get_mut(slot) = life;
            return slot;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_LIVES) {
            self.chunks.push(Vec::with_capacity(CHUNK_LIVES));
        }
        let chunk = self.chunks.len() - 1;
        let lives = &mut self.chunks[chunk];
        lives.push(life);
        (chunk * CHUNK_LIVES + lives.len() - 1) as Slot
    }
}

impl LiveBlocks {
    /// Blocks that are in the cache.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    pub(crate) fn find(&self, hash: &BlockHash, place: PlaceIndex) -> Option<Slot> {
        let (kind, number, bytes) = parts(hash);
        let is_it = |&slot: &Slot| {
            let life = self.lives.get(slot);
            life.place == place && life.hash_kind == kind && self.is_named(life.hash(), number, bytes)
        };
        self.index.find(key_hash(&self.hasher, kind, number, bytes, place), is_it).copied()
    }

    fn is_named(&self, name: Name, number: u64, bytes: &[u8]) -> bool {
        match name.kind {
            NameKind::Bytes | NameKind::Text => self.names.get(name.bits) == bytes,
            _ => name.bits == number,
        }
    }

    pub(crate) fn get(&self, slot: Slot) -> &Life {
        self.lives.get(slot)
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Life {
        self.lives.get_mut(slot)
    }

    /// Adds a block that is not there, attached to another that need not be.
    pub(crate) fn insert(&mut self, hash: &BlockHash, parent: Option<&BlockHash>, life: Life) -> Slot {
        let place = life.place;
        let parent = parent.map_or_else(Name::default, |parent| match self.find(parent, place) {
            Some(slot) => self.shared(self.lives.get(slot).hash()),
            None => self.named(parent),
        });
        let name = self.named(hash);
        let life = Life {
            hash_bits: name.bits,
            hash_kind: name.kind,
            parent_bits: parent.bits,
            parent_kind: parent.kind,
            ..life
        };
        let slot = self.lives.put(life);
        let (kind, number, bytes) = parts(hash);
        let key = key_hash(&self.hasher, kind, number, bytes, place);
        let (hasher, lives, names) = (&self.hasher, &self.lives, &self.names);
        self.index.insert_unique(key, slot, |&slot| life_hash(hasher, names, lives.get(slot)));
        slot
    }

    fn named(&mut self, hash: &BlockHash) -> Name {
        let (kind, number, bytes) = parts(hash);
        Name { bits: if is_long(kind) { self.names.add(bytes) } else { number }, kind }
    }

    fn shared(&mut self, name: Name) -> Name {
        if is_long(name.kind) {
            self.names.share(name.bits);
        }
        name
    }

    /// Takes a block out of the cache; its life stays until it is [freed](LiveBlocks::free).
    pub(crate) fn remove(&mut self, hash: &BlockHash, place: PlaceIndex) -> Option<Slot> {
        let slot = self.find(hash, place)?;
        self.unindex(slot);
        Some(slot)
    }

    fn unindex(&mut self, slot: Slot) {
        let key = life_hash(&self.hasher, &self.names, self.lives.get(slot));
        if let Ok(entry) = self.index.find_entry(key, |&other| other == slot) {
            entry.remove();
        }
    }

    /// Takes all blocks of these places out, in the order in which they came.
    pub(crate) fn remove_all(&mut self, is_meant: impl Fn(PlaceIndex) -> bool) -> Vec<Slot> {
        let mut slots: Vec<Slot> = self.index.extract_if(|&mut slot| is_meant(self.lives.get(slot).place)).collect();
        slots.sort_unstable_by_key(|&slot| self.lives.get(slot).number);
        slots
    }

    /// Blocks that are in the cache, in no order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.index.iter().copied()
    }

    /// Gives up what is known of a block that was taken out.
    pub(crate) fn free(&mut self, slot: Slot) {
        let life = std::mem::take(self.lives.get_mut(slot));
        for name in [life.hash(), life.parent()] {
            if is_long(name.kind) {
                self.names.release(name.bits);
            }
        }
        self.lives.free.push(slot);
    }

    /// A name as the server said it; none if there is none.
    pub(crate) fn block_hash(&self, name: Name) -> Option<BlockHash> {
        let bytes = || self.names.get(name.bits);
        Some(match name.kind {
            NameKind::None => return None,
            NameKind::Signed => BlockHash::Signed(name.bits.cast_signed()),
            NameKind::Unsigned => BlockHash::Unsigned(name.bits),
            NameKind::Bytes => BlockHash::Bytes(bytes().into()),
            NameKind::Text => BlockHash::Text(String::from_utf8_lossy(bytes()).into()),
        })
    }

    /// Memory that names take beside the lives.
    pub(crate) fn names_bytes(&self) -> usize {
        self.names.bytes()
    }
}

fn is_long(kind: NameKind) -> bool {
    matches!(kind, NameKind::Bytes | NameKind::Text)
}

/// Kind, number and bytes of a name: a number, or bytes.
fn parts(hash: &BlockHash) -> (NameKind, u64, &[u8]) {
    match hash {
        BlockHash::Signed(number) => (NameKind::Signed, number.cast_unsigned(), &[]),
        BlockHash::Unsigned(number) => (NameKind::Unsigned, *number, &[]),
        BlockHash::Bytes(bytes) => (NameKind::Bytes, 0, bytes),
        BlockHash::Text(text) => (NameKind::Text, 0, text.as_bytes()),
    }
}

fn key_hash(hasher: &RandomState, kind: NameKind, number: u64, bytes: &[u8], place: PlaceIndex) -> u64 {
    hasher.hash_one((kind, number, bytes, place))
}

fn life_hash(hasher: &RandomState, names: &LongNames, life: &Life) -> u64 {
    match is_long(life.hash_kind) {
        true => key_hash(hasher, life.hash_kind, 0, names.get(life.hash_bits), life.place),
        false => key_hash(hasher, life.hash_kind, life.hash_bits, &[], life.place),
    }
}
