//! From events to the lives of blocks.

use std::collections::{HashMap, VecDeque};

use dwell_events::schema::kv_block_lifecycle::{EndCause, KvEventBlockRow};
use dwell_store::ClockAnchor;

use crate::event::{BlockHash, BlockRemoved, BlockStored, Event, EventBatch};
use crate::lifetimes::Lifetimes;
use crate::limits::{PREFIX_BYTES, STATE_MAX_BYTES};
use crate::live_blocks::{LIFE_BYTES, Life, LiveBlocks, Slot};
use crate::places::{Place, PlaceIndex, Places, UNNAMED_MEDIUM};
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

/// A life that is over and whose row was not taken yet.
struct Ended {
    slot: Slot,
    cause: EndCause,
    evict_ns: Option<u64>,
}

/// Follows the blocks of one server: events in, rows out.
pub struct BlockTracker {
    options: TrackOptions,
    places: Places,
    live: LiveBlocks,
    ended: VecDeque<Ended>,
    /// What is kept of some blocks only: token ids, by slot.
    token_ids: HashMap<Slot, Box<str>>,
    token_ids_bytes: usize,
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
    /// Where blocks stand in the index.
    contents: HashMap<Slot, Content>,
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
            contents: HashMap::new(),
        });
        Self {
            options,
            places: Places::default(),
            live: LiveBlocks::default(),
            ended: VecDeque::new(),
            token_ids: HashMap::new(),
            token_ids_bytes: 0,
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

    /// Lives that have ended and were not taken yet, in their order; at most so many.
    pub fn take_rows(&mut self, most: usize) -> Vec<KvEventBlockRow> {
        let count = self.ended.len().min(most);
        let ended: Vec<Ended> = self.ended.drain(..count).collect();
        ended.iter().map(|ended| self.row(ended)).collect()
    }

    /// How many those are.
    pub fn rows_ready(&self) -> usize {
        self.ended.len()
    }

    /// Ends what still lives; what was counted. The rows are there to be taken.
    pub fn end(&mut self) -> BlockCounts {
        self.find_prompts_until(u64::MAX);
        self.find_incomplete_prompts();
        self.counts.alive = self.live.len() as u64;
        for slot in self.live.slots() {
            let place = self.places.get(self.live.get(slot).place);
            self.counts.media.entry(place.medium_name().to_owned()).or_default().alive += 1;
        }
        self.end_all(|_| true, EndCause::Teardown, None);
        self.counts.lifetime_p50_s = self.lifetimes.percentile_s(0.5);
        self.counts.lifetime_p99_s = self.lifetimes.percentile_s(0.99);
        std::mem::take(&mut self.counts)
    }

    /// The same with all rows that are left, at once.
    pub fn finish(mut self) -> (Vec<KvEventBlockRow>, BlockCounts) {
        let counts = self.end();
        (self.take_rows(usize::MAX), counts)
    }

    fn store(&mut self, event: &BlockStored, rank: Option<u32>, time_ns: u64) {
        let Some(place) = self.places.index_of(rank, event.medium.as_deref(), event.group) else {
            self.counts.not_followed += event.block_hashes.len() as u64;
            return;
        };
        let mut position = match &event.parent {
            None => (event.block_size > 0).then_some(0),
            Some(parent) => self.attach(parent, place, time_ns),
        };
        let mut parent = event.parent.as_ref();
        let size = event.block_size as usize;
        for (index, hash) in event.block_hashes.iter().enumerate() {
            let tokens = event.token_ids.get(index * size..(index + 1) * size).filter(|tokens| !tokens.is_empty());
            position = match self.live.find(hash, place) {
                Some(slot) => {
                    let life = self.live.get_mut(slot);
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
            if let Some(slot) = self.live.find(hash, place) {
                self.live.get_mut(slot).has_child = true;
            }
        }
    }

    /// Notes that blocks are attached to this one. The position behind it, if known.
    ///
    /// The first child may belong to the request that stored the block and continues. Every later child belongs to another
    /// request, which found this block and all blocks before it in the cache.
    fn attach(&mut self, parent: &BlockHash, place: PlaceIndex, time_ns: u64) -> Option<i32> {
        let Some(slot) = self.live.find(parent, place) else {
            self.counts.unknown_parents += 1;
            return None;
        };
        let life = self.live.get_mut(slot);
        let is_found = std::mem::replace(&mut life.has_child, true) && self.prefixes.is_none();
        let end_position = life.end_position();
        if is_found {
            self.use_chain(slot, place, time_ns);
        }
        end_position
    }

    /// Counts the use of a block and of all blocks before it.
    fn use_chain(&mut self, last: Slot, place: PlaceIndex, time_ns: u64) {
        let mut next = Some(last);
        // A publisher may name blocks in a circle.
        for _ in 0..self.live.len() {
            let Some(slot) = next else { break };
            let life = self.live.get_mut(slot);
            life.use_at(time_ns);
            self.counts.reuses += 1;
            let parent = life.parent();
            next = self.live.block_hash(parent).and_then(|parent| self.live.find(&parent, place));
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
            if let Some(slot) = self.live.find(hash, place) {
                self.live.get_mut(slot).use_at(time_ns);
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
        if self.state_bytes() >= STATE_MAX_BYTES {
            self.counts.not_followed += 1;
            return None;
        }
        let kept = KeptTokens::of(tokens, &self.options.tokens);
        let mut life = Life {
            number: self.stores,
            write_ns: time_ns,
            positions: event.block_size,
            place,
            lora: event.lora_name.as_deref().map_or(0, |name| self.places.name_number(name)),
            tokens_hash: kept.hash.unwrap_or(0),
            has_tokens_hash: kept.hash.is_some(),
            ..Life::default()
        };
        life.set_first_position(first_position);
        let end_position = life.end_position();
        let slot = self.live.insert(hash, parent, life);
        if let Some(ids) = kept.ids {
            self.token_ids_bytes += ids.len();
            self.token_ids.insert(slot, ids.into_boxed_str());
        }
        if let Some((prefixes, tokens)) = self.prefixes.as_mut().zip(tokens) {
            let content = prefixes.index.add(place, parent, tokens, hash);
            prefixes.contents.insert(slot, content);
        }
        self.stores += 1;
        self.counts.stored += 1;
        self.counts.media.entry(self.places.get(place).medium_name().to_owned()).or_default().stored += 1;
        end_position
    }

    /// Memory that blocks take, those included whose rows were not taken yet.
    fn state_bytes(&self) -> usize {
        let prefixes = self.prefixes.as_ref().map_or(0, |prefixes| prefixes.contents.len() * PREFIX_BYTES);
        let lives = (self.live.len() + self.ended.len()) * LIFE_BYTES;
        let token_ids = self.token_ids_bytes + self.token_ids.len() * LIFE_BYTES;
        lives + self.live.names_bytes() + token_ids + prefixes
    }

    fn remove(&mut self, event: &BlockRemoved, rank: Option<u32>, time_ns: u64) {
        let place = self.places.index_of(rank, event.medium.as_deref(), event.group);
        for hash in &event.block_hashes {
            match place.and_then(|place| self.live.remove(hash, place)) {
                Some(slot) => {
                    self.counts.removed += 1;
                    self.end_life(slot, EndCause::Removed, Some(time_ns));
                }
                None => {
                    self.counts.unmatched += 1;
                    let medium = event.medium.as_deref().unwrap_or(UNNAMED_MEDIUM);
                    self.counts.first_unmatched.get_or_insert_with(|| format!("block {hash} on {medium}"));
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
        let slots = self.live.remove_all(|place| is_meant(places.get(place)));
        // Growing by doubling would take half as much again.
        self.ended.reserve_exact(slots.len());
        for slot in slots {
            self.end_life(slot, cause, evict_ns);
        }
    }

    /// Ends a life that was taken out of the cache.
    fn end_life(&mut self, slot: Slot, cause: EndCause, evict_ns: Option<u64>) {
        let life = self.live.get(slot);
        if let Some(prefixes) = &mut self.prefixes
            && let Some(content) = prefixes.contents.remove(&slot)
            && let Some(hash) = self.live.block_hash(life.hash())
        {
            prefixes.index.remove(life.place, content, &hash);
        }
        self.counts.reused_blocks += u64::from(life.uses > 0);
        if let Some(evict_ns) = evict_ns {
            self.lifetimes.add(evict_ns.saturating_sub(life.write_ns));
            let medium = self.places.get(life.place).medium_name().to_owned();
            self.counts.media.entry(medium).or_default().ended += 1;
        }
        self.ended.push_back(Ended { slot, cause, evict_ns });
    }

    /// The row of a life; what is known of it is given up.
    fn row(&mut self, ended: &Ended) -> KvEventBlockRow {
        let life = self.live.get(ended.slot);
        let place = self.places.get(life.place);
        let bytes_per_token = self.options.kv_bytes_per_token.filter(|_| life.positions > 0);
        let text = |name| self.live.block_hash(name).map(|hash| hash.to_string());
        let token_ids = self.token_ids.remove(&ended.slot);
        self.token_ids_bytes -= token_ids.as_ref().map_or(0, |ids| ids.len());
        let row = KvEventBlockRow {
            block_id: self.next_block_id,
            write_ns: life.write_ns,
            last_read_ns: life.last_use_ns(),
            evict_ns: ended.evict_ns,
            total_reads: life.uses.into(),
            first_position: life.first_position(),
            positions: life.positions,
            bytes: bytes_per_token.map(|bytes| bytes.saturating_mul(life.positions.into())),
            end_cause: ended.cause,
            block_hash: text(life.hash()).unwrap_or_default(),
            parent_hash: text(life.parent()),
            medium: place.medium.clone(),
            kv_group: place.group,
            server_rank: place.rank,
            lora: self.places.name_of(life.lora),
            token_hash: life.has_tokens_hash.then_some(life.tokens_hash),
            token_ids: token_ids.map(String::from),
        };
        self.next_block_id += 1;
        self.live.free(ended.slot);
        row
    }
}

/// A moment of the server's day on our clock; one before our clock began is its beginning.
fn monotonic_ns(clock: &ClockAnchor, unix_ns: u64) -> u64 {
    let since_ns = i128::from(unix_ns) - i128::from(clock.unix_ns);
    let time_ns = (i128::from(clock.monotonic_ns) + since_ns).max(0);
    // The table's times are signed.
    time_ns.min(i64::MAX.into()) as u64
}
