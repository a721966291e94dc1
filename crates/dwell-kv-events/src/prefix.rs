//! Which blocks a prompt finds in the cache: those of its tokens from the beginning, each behind the one before.
//!
//! The server's block hash covers the tokens of the block and of all blocks before it, by a function that only the server knows.
//! Its events name the tokens and the parent of each block, so a prompt can be followed along the blocks without that function.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use crate::event::BlockHash;
use crate::places::PlaceIndex;

/// A prompt of which the server said how much it found in its cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedPrompt {
    /// CLOCK_MONOTONIC time of its first token. The server had looked by then, and keeps what it found while it answers.
    pub time_ns: u64,
    /// Its tokens.
    pub token_ids: Vec<i64>,
    /// How many of them were in the cache.
    pub cached_tokens: u64,
}

/// A block by what is in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Content {
    parent: Option<BlockHash>,
    tokens_hash: u64,
}

/// The blocks of a cache by what is in them.
#[derive(Default)]
pub(crate) struct PrefixIndex {
    hasher: RandomState,
    blocks: HashMap<(PlaceIndex, Content), BlockHash>,
    /// Tokens of a block, by place.
    block_sizes: HashMap<PlaceIndex, usize>,
}

impl PrefixIndex {
    pub(crate) fn add(
        &mut self,
        place: PlaceIndex,
        parent: Option<&BlockHash>,
        tokens: &[i64],
        hash: &BlockHash,
    ) -> Content {
        let content = self.content(parent, tokens);
        self.block_sizes.insert(place, tokens.len());
        self.blocks.insert((place, content.clone()), hash.clone());
        content
    }

    /// Another block with the same content may have taken its place: one of another adapter.
    pub(crate) fn remove(&mut self, place: PlaceIndex, content: Content, hash: &BlockHash) {
        let key = (place, content);
        if self.blocks.get(&key) == Some(hash) {
            self.blocks.remove(&key);
        }
    }

    /// Places that have held blocks with tokens.
    pub(crate) fn places(&self) -> impl Iterator<Item = PlaceIndex> {
        self.block_sizes.keys().copied()
    }

    /// How many blocks of a place a prompt is said to have found.
    pub(crate) fn blocks_found(&self, place: PlaceIndex, prompt: &CachedPrompt) -> u64 {
        self.block_sizes.get(&place).map_or(0, |&size| prompt.cached_tokens / size as u64)
    }

    /// Those of them that are known, from the beginning of the prompt.
    pub(crate) fn chain(&self, place: PlaceIndex, prompt: &CachedPrompt) -> Vec<BlockHash> {
        let Some(&size) = self.block_sizes.get(&place) else { return Vec::new() };
        let most = usize::try_from(self.blocks_found(place, prompt)).unwrap_or(usize::MAX);
        let mut chain: Vec<BlockHash> = Vec::new();
        for tokens in prompt.token_ids.chunks_exact(size).take(most) {
            let content = self.content(chain.last(), tokens);
            let Some(hash) = self.blocks.get(&(place, content)) else { break };
            chain.push(hash.clone());
        }
        chain
    }

    fn content(&self, parent: Option<&BlockHash>, tokens: &[i64]) -> Content {
        Content { parent: parent.cloned(), tokens_hash: self.hasher.hash_one(tokens) }
    }
}
