//! From events to the lives of blocks.

use std::collections::HashMap;
use std::sync::Arc;

use dwell_events::schema::kv_block_lifecycle::{EndCause, KvEventBlockRow};
use dwell_store::ClockAnchor;

use crate::event::{BlockHash, BlockRemoved, BlockStored, Event, EventBatch};
use crate::lifetimes::Lifetimes;
use crate::limits::LIVE_BLOCKS_MAX;
use crate::places::{Place, PlaceIndex, Places};
use crate::tokens::{KeptTokens, TokenPolicy};
use dwell_events::kv_blocks::BlockCounts;

/// How lives are made of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackOptions {
    /// One moment on both clocks: servers tell the time of day.
    pub clock: ClockAnchor,
    /// Bytes of keys and values that one token takes in all layers, if known.
    pub kv_bytes_per_token: Option<u64>,
    /// What is kept of token ids.
    pub tokens: TokenPolicy,
}

/// A block that is in the cache.
struct Life {
    /// Counts the stores, so that lives that end together end in the order in which they began.
    number: u64,
    write_ns: u64,
    last_use_ns: Option<u64>,
    uses: u64,
    first_position: Option<i32>,
    positions: u32,
    parent: Option<BlockHash>,
    tokens: KeptTokens,
    lora: Option<Arc<str>>,
}

/// Follows the blocks of one server: events in, rows out.
pub struct BlockTracker {
    options: TrackOptions,
    places: Places,
    live: HashMap<(BlockHash, PlaceIndex), Life>,
    rows: Vec<KvEventBlockRow>,
    stores: u64,
    next_block_id: u64,
    counts: BlockCounts,
    lifetimes: Lifetimes,
}

impl BlockTracker {
    /// Begins with an empty cache.
    pub fn new(options: TrackOptions) -> Self {
        Self {
            options,
            places: Places::default(),
            live: HashMap::new(),
            rows: Vec::new(),
            stores: 0,
            next_block_id: 0,
            counts: BlockCounts::default(),
            lifetimes: Lifetimes::default(),
        }
    }

    /// Takes what happened in one step of the server.
    pub fn apply(&mut self, batch: &EventBatch) {
        let time_ns = monotonic_ns(&self.options.clock, batch.unix_ns);
        self.counts.events += batch.events.len() as u64;
        self.counts.unknown_events += batch.unknown_events;
        self.counts.unknown_fields += batch.unknown_fields;
        for event in &batch.events {
            match event {
                Event::Stored(stored) => self.store(stored, batch.rank, time_ns),
                Event::Removed(removed) => self.remove(removed, batch.rank, time_ns),
                Event::Cleared => self.clear(batch.rank, time_ns),
            }
        }
    }

    /// Another server takes the place of the one before, whose blocks are gone; when they went was not seen.
    pub fn restart(&mut self) {
        self.counts.ended_with_server += self.live.len() as u64;
        self.end_all(|_| true, EndCause::Teardown, None);
    }

    /// Lives that ended since the last call.
    pub fn take_rows(&mut self) -> Vec<KvEventBlockRow> {
        std::mem::take(&mut self.rows)
    }

    /// How many those are.
    pub fn rows_ready(&self) -> usize {
        self.rows.len()
    }

    /// Ends what still lives. The rest of the rows, and what was counted.
    pub fn finish(mut self) -> (Vec<KvEventBlockRow>, BlockCounts) {
        self.counts.alive = self.live.len() as u64;
        for (_, place) in self.live.keys() {
            self.counts.media.entry(self.places.get(*place).medium_name().to_owned()).or_default().alive += 1;
        }
        self.end_all(|_| true, EndCause::Teardown, None);
        self.counts.lifetime_p50_s = self.lifetimes.percentile_s(0.5);
        self.counts.lifetime_p99_s = self.lifetimes.percentile_s(0.99);
        (self.rows, self.counts)
    }

    fn store(&mut self, event: &BlockStored, rank: Option<u32>, time_ns: u64) {
        let place = self.places.index_of(rank, event.medium.as_deref(), event.group);
        let mut position = match &event.parent {
            None => (event.block_size > 0).then_some(0),
            Some(parent) => self.use_parent(parent, place, time_ns),
        };
        let mut parent = event.parent.as_ref();
        let size = event.block_size as usize;
        for (index, hash) in event.block_hashes.iter().enumerate() {
            let tokens = event.token_ids.get(index * size..(index + 1) * size).filter(|tokens| !tokens.is_empty());
            position = match self.live.get_mut(&(hash.clone(), place)) {
                Some(life) => {
                    life.use_at(time_ns);
                    self.counts.reuses += 1;
                    life.end_position()
                }
                None => self.begin_life(hash, place, event, parent, position, tokens, time_ns),
            };
            parent = Some(hash);
        }
    }

    /// Counts the use of a block that others are attached to. The position behind it, if known.
    fn use_parent(&mut self, parent: &BlockHash, place: PlaceIndex, time_ns: u64) -> Option<i32> {
        match self.live.get_mut(&(parent.clone(), place)) {
            Some(life) => {
                life.use_at(time_ns);
                self.counts.reuses += 1;
                life.end_position()
            }
            None => {
                self.counts.unknown_parents += 1;
                None
            }
        }
    }

    /// The position behind the block, if known.
    #[allow(clippy::too_many_arguments, reason = "each says another thing about one block")]
    fn begin_life(
        &mut self,
        hash: &BlockHash,
        place: PlaceIndex,
        event: &BlockStored,
        parent: Option<&BlockHash>,
        first_position: Option<i32>,
        tokens: Option<&[i64]>,
        time_ns: u64,
    ) -> Option<i32> {
        if self.live.len() >= LIVE_BLOCKS_MAX {
            self.counts.not_followed += 1;
            return None;
        }
        let life = Life {
            number: self.stores,
            write_ns: time_ns,
            last_use_ns: None,
            uses: 0,
            first_position,
            positions: event.block_size,
            parent: parent.cloned(),
            tokens: KeptTokens::of(tokens, &self.options.tokens),
            lora: event.lora_name.as_deref().map(|name| self.places.name(name)),
        };
        self.stores += 1;
        self.counts.stored += 1;
        self.counts.media.entry(self.places.get(place).medium_name().to_owned()).or_default().stored += 1;
        let end_position = life.end_position();
        self.live.insert((hash.clone(), place), life);
        end_position
    }

    fn remove(&mut self, event: &BlockRemoved, rank: Option<u32>, time_ns: u64) {
        let place = self.places.index_of(rank, event.medium.as_deref(), event.group);
        for hash in &event.block_hashes {
            let key = (hash.clone(), place);
            match self.live.remove(&key) {
                Some(life) => {
                    self.counts.removed += 1;
                    self.end_life(key, life, EndCause::Removed, Some(time_ns));
                }
                None => {
                    self.counts.unmatched += 1;
                    let place = self.places.get(place);
                    self.counts
                        .first_unmatched
                        .get_or_insert_with(|| format!("block {hash} on {}", place.medium_name()));
                }
            }
        }
    }

    /// The event does not say of which medium; consumers of the servers take it as all of them.
    fn clear(&mut self, rank: Option<u32>, time_ns: u64) {
        let before = self.live.len();
        self.end_all(|place| place.rank == rank, EndCause::Cleared, Some(time_ns));
        self.counts.cleared += (before - self.live.len()) as u64;
    }

    fn end_all(&mut self, is_meant: impl Fn(&Place) -> bool, cause: EndCause, evict_ns: Option<u64>) {
        let places = &self.places;
        let mut ended: Vec<_> = self.live.extract_if(|(_, place), _| is_meant(places.get(*place))).collect();
        ended.sort_unstable_by_key(|(_, life)| life.number);
        for (key, life) in ended {
            self.end_life(key, life, cause, evict_ns);
        }
    }

    fn end_life(&mut self, key: (BlockHash, PlaceIndex), life: Life, end_cause: EndCause, evict_ns: Option<u64>) {
        let (hash, place) = (key.0, self.places.get(key.1));
        let bytes_per_token = self.options.kv_bytes_per_token.filter(|_| life.positions > 0);
        let row = KvEventBlockRow {
            block_id: self.next_block_id,
            write_ns: life.write_ns,
            last_read_ns: life.last_use_ns,
            evict_ns,
            total_reads: life.uses,
            first_position: life.first_position,
            positions: life.positions,
            bytes: bytes_per_token.map(|bytes| bytes.saturating_mul(life.positions.into())),
            end_cause,
            block_hash: hash.to_string(),
            parent_hash: life.parent.map(|parent| parent.to_string()),
            medium: place.medium.clone(),
            kv_group: place.group,
            server_rank: place.rank,
            lora: life.lora,
            token_hash: life.tokens.hash,
            token_ids: life.tokens.ids,
        };
        self.next_block_id += 1;
        self.counts.reused_blocks += u64::from(row.total_reads > 0);
        if evict_ns.is_some() {
            self.lifetimes.add(row.lifetime_ns());
            self.counts.media.entry(place.medium_name().to_owned()).or_default().ended += 1;
        }
        self.rows.push(row);
    }
}

impl Life {
    fn use_at(&mut self, time_ns: u64) {
        self.uses += 1;
        self.last_use_ns = Some(time_ns);
    }

    fn end_position(&self) -> Option<i32> {
        self.first_position?.checked_add(i32::try_from(self.positions).ok()?)
    }
}

/// A moment of the server's day on our clock; one before our clock began is its beginning.
fn monotonic_ns(clock: &ClockAnchor, unix_ns: u64) -> u64 {
    let since_ns = i128::from(unix_ns) - i128::from(clock.unix_ns);
    let time_ns = (i128::from(clock.monotonic_ns) + since_ns).max(0);
    // The table's times are signed.
    time_ns.min(i64::MAX.into()) as u64
}
