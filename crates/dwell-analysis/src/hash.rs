//! Hashing of addresses and small numbers: one multiplication instead of a keyed hash, because every row is looked up.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Map whose keys are made of addresses and small numbers.
pub(crate) type AddressMap<K, V> = HashMap<K, V, BuildHasherDefault<AddressHasher>>;

/// Multiplies and folds, so that both ends of the word depend on all of its bits.
#[derive(Default)]
pub(crate) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        // 2^64 divided by the golden ratio, odd.
        const MULTIPLIER: u128 = 0x9e37_79b9_7f4a_7c15;
        let product = u128::from(value ^ self.0.rotate_left(23)) * MULTIPLIER;
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }
}
