//! From events to the lives of blocks.

use std::collections::HashMap;
use std::sync::Arc;

use dwell_events::schema::kv_block_lifecycle::{EndCause, KvEventBlockRow};
use dwell_store::ClockAnchor;

use crate::event::{BlockHash, BlockRemoved, BlockStored, Event, EventBatch};
use crate::lifetimes::Lifetimes;
use crate::limits::LIVE_BLOCKS_MAX;
use crate::places::{Place, PlaceIndex, Places};
use crate::prefix::{CachedPrompt, Content, PrefixIndex};
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
    /// Whether another block was attached to it.
    has_child: bool,
    /// Where it stands in the index of prefixes.
    content: Option<Content>,
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
    /// What requests say that they found; none where only events tell what was used again.
    prefixes: Option<Prefixes>,
}

/// Prompts of known requests, and the blocks that they can find.
struct Prefixes {
    index: PrefixIndex,
    /// In order of their times, the next one last.
    coming: Vec<CachedPrompt>,
    /// Prompts that came before any block was known.
    early: Vec<CachedPrompt>,
    /// Prompts that found more blocks in a place than were known at their time, with the number that was.
    incomplete: Vec<(CachedPrompt, PlaceIndex, usize)>,
}

impl BlockTracker {
    /// Begins with an empty cache of a server of whose requests nothing is known.
    pub fn new(options: TrackOptions) -> Self {
        Self::with_prompts(options, Vec::new())
    }

    /// Begins with an empty cache of a server that said of these requests what they found in it.
    pub fn with_prompts(options: TrackOptions, mut prompts: Vec<CachedPrompt>) -> Self {
        prompts.sort_by_key(|prompt| std::cmp::Reverse(prompt.time_ns));
        let prefixes = (!prompts.is_empty()).then(|| Prefixes {
            index: PrefixIndex::default(),
            coming: prompts,
            early: Vec::new(),
            incomplete: Vec::new(),
        });
        Self {
            options,
            places: Places::default(),
            live: HashMap::new(),
            rows: Vec::new(),
            stores: 0,
            next_block_id: 0,
            counts: BlockCounts::default(),
            lifetimes: Lifetimes::default(),
            prefixes,
        }
    }

    /// Takes what happened in one step of the server.
    pub fn apply(&mut self, batch: &EventBatch) {
        let time_ns = monotonic_ns(&self.options.clock, batch.unix_ns);
        self.find_prompts_until(time_ns);
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
        self.find_prompts_until(u64::MAX);
        self.find_incomplete_prompts();
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
            Some(parent) => self.attach(parent, place, time_ns),
        };
        let mut parent = event.parent.as_ref();
        let size = event.block_size as usize;
        for (index, hash) in event.block_hashes.iter().enumerate() {
            let tokens = event.token_ids.get(index * size..(index + 1) * size).filter(|tokens| !tokens.is_empty());
            position = match self.live.get_mut(&(hash.clone(), place)) {
                Some(life) => {
                    // A request that is known and stores a block again has computed it again: it did not find it.
                    if self.prefixes.is_none() {
                        life.use_at(time_ns);
                        self.counts.reuses += 1;
                    }
                    life.end_position()
                }
                None => self.begin_life(hash, place, event, parent, position, tokens, time_ns),
            };
            parent = Some(hash);
        }
        self.note_children(event, place);
    }

    /// Each block of an event is the parent of the next.
    fn note_children(&mut self, event: &BlockStored, place: PlaceIndex) {
        for hash in event.block_hashes.iter().rev().skip(1) {
            if let Some(life) = self.live.get_mut(&(hash.clone(), place)) {
                life.has_child = true;
            }
        }
    }

    /// Notes that blocks are attached to this one. The position behind it, if known.
    ///
    /// The first child may belong to the request that stored the block and continues. Every later child belongs to another
    /// request, which found this block and all blocks before it in the cache.
    fn attach(&mut self, parent: &BlockHash, place: PlaceIndex, time_ns: u64) -> Option<i32> {
        let Some(life) = self.live.get_mut(&(parent.clone(), place)) else {
            self.counts.unknown_parents += 1;
            return None;
        };
        let is_found = std::mem::replace(&mut life.has_child, true) && self.prefixes.is_none();
        let end_position = life.end_position();
        if is_found {
            self.use_chain(parent.clone(), place, time_ns);
        }
        end_position
    }

    /// Counts the use of a block and of all blocks before it.
    fn use_chain(&mut self, last: BlockHash, place: PlaceIndex, time_ns: u64) {
        let mut next = Some(last);
        while let Some(life) = next.and_then(|hash| self.live.get_mut(&(hash, place))) {
            life.use_at(time_ns);
            self.counts.reuses += 1;
            next = life.parent.clone();
        }
    }

    /// Counts what requests found whose first token came before this time.
    fn find_prompts_until(&mut self, time_ns: u64) {
        let is_due = |prompt: &mut CachedPrompt| prompt.time_ns < time_ns;
        while let Some(prompt) = self.prefixes.as_mut().and_then(|prefixes| prefixes.coming.pop_if(is_due)) {
            self.find_prompt(&prompt);
        }
    }

    /// Counts the blocks that a prompt found. Of several ranks and media, it found them in the one that has most of them.
    fn find_prompt(&mut self, prompt: &CachedPrompt) {
        let Some(prefixes) = &self.prefixes else { return };
        let mut parts: HashMap<_, Vec<(PlaceIndex, Vec<BlockHash>)>> = HashMap::new();
        for index in prefixes.index.places() {
            let place = self.places.get(index);
            parts
                .entry((place.rank, place.medium.clone()))
                .or_default()
                .push((index, prefixes.index.chain(index, prompt)));
        }
        let blocks =
            |chains: &Vec<(PlaceIndex, Vec<BlockHash>)>| chains.iter().map(|(_, chain)| chain.len()).sum::<usize>();
        let Some(chains) = parts.into_values().max_by_key(blocks) else {
            return self.prefixes.iter_mut().for_each(|prefixes| prefixes.early.push(prompt.clone()));
        };
        for (place, chain) in chains {
            self.use_blocks(&chain, place, prompt.time_ns);
            self.note_incomplete(prompt, place, chain.len());
        }
    }

    fn use_blocks(&mut self, blocks: &[BlockHash], place: PlaceIndex, time_ns: u64) {
        for hash in blocks {
            if let Some(life) = self.live.get_mut(&(hash.clone(), place)) {
                life.use_at(time_ns);
                self.counts.reuses += 1;
            }
        }
    }

    fn note_incomplete(&mut self, prompt: &CachedPrompt, place: PlaceIndex, known: usize) {
        if let Some(prefixes) = &mut self.prefixes
            && (known as u64) < prefixes.index.blocks_found(place, prompt)
        {
            prefixes.incomplete.push((prompt.clone(), place, known));
        }
    }

    /// A server whose clock is ahead of ours tells of blocks after the requests that found them. What is known of none at
    /// the end was stored before anybody listened.
    fn find_incomplete_prompts(&mut self) {
        let early = self.prefixes.as_mut().map(|prefixes| std::mem::take(&mut prefixes.early)).unwrap_or_default();
        early.iter().for_each(|prompt| self.find_prompt(prompt));
        let Some(prefixes) = &mut self.prefixes else { return };
        for (prompt, place, known) in std::mem::take(&mut prefixes.incomplete) {
            let Some(index) = self.prefixes.as_ref().map(|prefixes| &prefixes.index) else { return };
            let (chain, found) = (index.chain(place, &prompt), index.blocks_found(place, &prompt));
            self.use_blocks(chain.get(known..).unwrap_or_default(), place, prompt.time_ns);
            self.counts.unseen_reuses += found - chain.len().max(known) as u64;
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
        let content = self
            .prefixes
            .as_mut()
            .zip(tokens)
            .map(|(prefixes, tokens)| prefixes.index.add(place, parent, tokens, hash));
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
            has_child: false,
            content,
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
        if let Some((prefixes, content)) = self.prefixes.as_mut().zip(life.content) {
            prefixes.index.remove(key.1, content, &key.0);
        }
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
        self.last_use_ns = self.last_use_ns.max(Some(time_ns.max(self.write_ns)));
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
