//! The sequences of a program that does not say which it computes.
//!
//! A server decodes several answers in one computation, and begins the prompt of one while it decodes others. The inputs
//! of a computation show the position of each token, and in which stream of the KV cache its cell is. A sequence goes on
//! where it ended, so from that follows which token belongs to which: each has a lane here.

use super::{Inputs, Place};

/// Most lanes that are remembered; of more, those that computed last.
const LANES_MAX: usize = 256;
/// Computations after which a lane that had no part in them is not expected to go on. A server decodes every answer in
/// every batch; a batch is cut into a few computations.
const ACTIVE_WITHIN: u64 = 8;

/// What one computation did for one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Computed {
    /// Number of the step in the trace; 0 if no answer was decoded in it.
    pub(super) step: u32,
    /// Steps that had been decoded in the run when it was done.
    pub(super) decoded: u32,
    pub(super) begin_ns: u64,
    pub(super) first_position: i32,
    pub(super) last_position: i32,
    /// Whether its tokens are of a prompt, rather than one of an answer.
    pub(super) is_prompt: bool,
    /// Whether a token could be chosen after it.
    pub(super) is_output: bool,
    /// Bytes in the KV cache after it.
    pub(super) kv_bytes: u64,
}

/// Where the cells of a sequence are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Home {
    cache: Option<usize>,
    stream: Option<u32>,
}

/// One sequence.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) id: u32,
    /// The KV cache that it is in, and the stream of it that is its own.
    home: Home,
    next_position: i32,
    /// Whether its prompt is computed, so that its next token is one of the answer.
    pub(super) is_decoding: bool,
    /// Whether it has only computed what the runtime tries itself with when it has loaded a model, and then forgets.
    is_trial: bool,
    /// Number of the computation that it had a part in last.
    touched: u64,
    /// Since the last prompt that no request waits for.
    pub(super) computed: Vec<Computed>,
}

/// The cells of a lane from a position on were given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The lane.
    pub lane: u32,
    /// First position that is gone.
    pub from: i32,
}

impl Lane {
    /// The stream of the cache that is its own; a server has one for each slot, or all share one.
    pub(super) fn stream(&self) -> Option<u32> {
        self.home.stream
    }
}

/// How a computation is to be taken.
#[derive(Clone, Copy)]
pub(super) struct Circumstances {
    /// The runtime tries itself, before anybody asks for anything.
    pub(super) is_trial: bool,
    /// Requests that are being answered.
    pub(super) open_requests: usize,
    /// Sequences that share a stream at most.
    pub(super) slots: usize,
}

/// Tokens of one lane in a computation.
struct Part {
    lane: usize,
    first: i32,
    last: i32,
    rows: usize,
    is_output: bool,
}

/// The lanes of one process.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    next_id: u32,
    computations: u64,
    /// Whether the computation before had no tokens: a context shift, which moves positions back.
    was_shift: bool,
    parts: Vec<(usize, Computed)>,
}

/// What follows from the lanes for a computation.
pub(super) struct Followed {
    /// Whether it decodes a token of an answer.
    pub(super) is_decoding: bool,
    pub(super) dropped: Vec<Dropped>,
}

impl Lanes {
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.lanes.iter_mut()
    }

    /// Whether nothing was computed yet.
    pub(super) fn is_empty(&self) -> bool {
        self.computations == 0
    }

    /// Takes in the tokens of a computation and says in `places` to which lane each belongs.
    pub(super) fn follow(&mut self, inputs: &Inputs<'_>, places: &mut [Place], now: Circumstances) -> Followed {
        let was_shift = std::mem::replace(&mut self.was_shift, places.is_empty());
        self.parts.clear();
        if places.is_empty() {
            return Followed { is_decoding: false, dropped: Vec::new() };
        }
        self.computations += 1;
        let parts = self.parts_of(inputs, places, now.slots);
        let mut dropped = if now.is_trial { Vec::new() } else { self.forget_trials(&parts) };
        let mut is_decoding = false;
        for part in parts {
            let lane = &mut self.lanes[part.lane];
            let goes_on = part.first == lane.next_position || (was_shift && part.first < lane.next_position);
            // Without positions, the tokens of several answers cannot be told apart, but counted.
            let is_one_each = part.rows == 1 || (inputs.positions.is_none() && part.rows <= now.open_requests);
            let is_prompt = !(is_one_each && goes_on && lane.is_decoding);
            if part.first < lane.next_position {
                dropped.push(Dropped { lane: lane.id, from: part.first });
            }
            if is_prompt && now.open_requests == 0 && !goes_on {
                lane.computed.clear();
            }
            is_decoding |= !is_prompt;
            (lane.next_position, lane.is_decoding) = (part.last.saturating_add(1), part.is_output);
            lane.is_trial = now.is_trial;
            lane.touched = self.computations;
            let computed = Computed {
                step: 0,
                decoded: 0,
                begin_ns: inputs.begin_ns,
                first_position: part.first,
                last_position: part.last,
                is_prompt,
                is_output: part.is_output,
                kv_bytes: 0,
            };
            self.parts.push((part.lane, computed));
        }
        Followed { is_decoding, dropped }
    }

    /// The computation that was followed last is done, as this step.
    pub(super) fn done(&mut self, step: u32, decoded: u32, kv_bytes: u64) {
        for (lane, computed) in self.parts.drain(..) {
            if let Some(lane) = self.lanes.get_mut(lane) {
                lane.computed.push(Computed { step, decoded, kv_bytes, ..computed });
            }
        }
        self.forget_oldest();
    }

    /// Nobody is answered any more: whatever comes next is a prompt.
    pub(super) fn all_answered(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.is_decoding = false);
    }

    fn parts_of(&mut self, inputs: &Inputs<'_>, places: &mut [Place], slots: usize) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        for (row, place) in places.iter_mut().enumerate() {
            let stream = inputs.streams.and_then(|streams| streams.get(row)).copied();
            let home = Home { cache: inputs.cache, stream };
            let lane = self.lane_of(place.position, home, slots, &parts);
            place.lane = Some(self.lanes[lane].id);
            let is_output = inputs.outputs.is_none_or(|outputs| outputs.contains(&(row as i64)));
            match parts.iter_mut().find(|part| part.lane == lane) {
                Some(part) => {
                    part.last = place.position.unwrap_or_else(|| part.last.saturating_add(1));
                    part.rows += 1;
                    part.is_output |= is_output;
                }
                None => {
                    let first = place.position.unwrap_or(self.lanes[lane].next_position);
                    parts.push(Part { lane, first, last: first, rows: 1, is_output });
                }
            }
        }
        parts
    }

    /// The lane of a token, given what was found for the tokens before it.
    ///
    /// A stream holds one sequence. Where all share one stream, a server puts the tokens of answers first, one for each,
    /// and then whole prompts.
    fn lane_of(&mut self, position: Option<i32>, home: Home, slots: usize, parts: &[Part]) -> usize {
        let at_home = || self.lanes.iter().enumerate().filter(|(_, lane)| lane.home == home);
        let Some(position) = position.filter(|_| home.stream.is_none()) else {
            let found = at_home().next().map(|(index, _)| index);
            return found.unwrap_or_else(|| self.add(home));
        };
        let previous = parts.last().filter(|part| part.last.checked_add(1) == Some(position));
        if let Some(prompt) = previous.filter(|part| part.rows > 1) {
            return prompt.lane;
        }
        let free = || at_home().filter(|(index, _)| !parts.iter().any(|part| part.lane == *index));
        let going_on = || free().filter(|(_, lane)| lane.next_position == position);
        let is_active = |lane: &Lane| lane.is_decoding && lane.touched + ACTIVE_WITHIN >= self.computations;
        let active = going_on().find(|(_, lane)| is_active(lane));
        let idle = || going_on().max_by_key(|(_, lane)| lane.touched);
        let found = active.map(|(index, _)| index);
        let found = found.or_else(|| previous.map(|part| part.lane)).or_else(|| idle().map(|(index, _)| index));
        // A prompt that goes on nowhere takes the place of the one that has waited longest, if all places are taken.
        // Before the server said how many there are, more lanes than places may have been added: those that computed last have them.
        let is_full = at_home().count() >= slots;
        let placed_since = nth_latest(at_home().map(|(_, lane)| lane.touched), slots);
        let has_place = |lane: &Lane| placed_since.is_none_or(|since| lane.touched >= since);
        let replaced = || {
            let placed = free().filter(|(_, lane)| is_full && has_place(lane));
            placed.min_by_key(|(_, lane)| (lane.is_decoding, lane.touched))
        };
        let found = found.or_else(|| replaced().map(|(index, _)| index));
        found.unwrap_or_else(|| self.add(home))
    }

    fn add(&mut self, home: Home) -> usize {
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        self.lanes.push(Lane {
            id,
            home,
            next_position: 0,
            is_decoding: false,
            is_trial: false,
            touched: self.computations,
            computed: Vec::new(),
        });
        self.lanes.len() - 1
    }

    /// What the runtime tried itself with is gone when it begins to work, unless that was no trial: it goes on.
    fn forget_trials(&mut self, parts: &[Part]) -> Vec<Dropped> {
        let mut dropped = Vec::new();
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            let goes_on = parts.iter().any(|part| part.lane == index && part.first == lane.next_position);
            if std::mem::take(&mut lane.is_trial) && !goes_on {
                dropped.push(Dropped { lane: lane.id, from: 0 });
                (lane.next_position, lane.is_decoding) = (0, false);
                lane.computed.clear();
            }
        }
        dropped
    }

    fn forget_oldest(&mut self) {
        if self.lanes.len() > LANES_MAX {
            let oldest = self.lanes.iter().enumerate().min_by_key(|(_, lane)| lane.touched).map(|(index, _)| index);
            oldest.map(|index| self.lanes.swap_remove(index));
        }
    }
}

/// The n-th largest of some times, from 1; none if there are fewer.
fn nth_latest(times: impl Iterator<Item = u64>, n: usize) -> Option<u64> {
    let mut times: Vec<u64> = times.collect();
    times.sort_unstable_by(|first, second| second.cmp(first));
    n.checked_sub(1).and_then(|place| times.get(place).copied())
}
