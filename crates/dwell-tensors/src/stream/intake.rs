//! Where packets get their numbers: one order for tensors, tokens and drops, whatever thread they come from.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::Handover;
use super::drops::Drops;
use super::error::StreamError;
use super::grant::{Grant, Lease, PayloadBuffer};
use super::parcel::{FlushEnd, Item, Parcel, Source};
use super::pipe::Pipe;
use super::spill::Extent;
use super::sync::lock;
use crate::container::{Index, Row};
use crate::{TensorHead, TensorsError, TokenMark};

/// What has been handed over.
pub(super) struct Intake {
    pub(super) state: Mutex<IntakeState>,
}

/// Counts and the parcel that small tensors are gathered in.
#[derive(Default)]
pub(super) struct IntakeState {
    pub(super) next_packet: u64,
    pub(super) next_step: u64,
    pub(super) raw_bytes: u64,
    pub(super) tokens: Vec<TokenMark>,
    pub(super) dropped_packets: u64,
    pub(super) dropped_bytes: u64,
    pub(super) spilled_packets: u64,
    pub(super) spilled_bytes: u64,
    next_place: u64,
    open: Option<OpenParcel>,
    drops: Drops,
}

struct OpenParcel {
    items: Vec<Item>,
    /// `None` as long as there are only notes in it.
    grant: Option<Grant>,
    /// The most that its payloads can take.
    worst_payload_bytes: usize,
    began: Instant,
}

/// What a flush covers.
pub(super) struct FlushPoint {
    /// The parcels before this one.
    pub(super) parcels: u64,
    pub(super) end: FlushEnd,
    pub(super) packets: u64,
    pub(super) next_step: u64,
    pub(super) tokens: u64,
}

/// A tensor on its own, with all that it needs to get to the file.
pub(super) struct Ready {
    pub(super) source: Source,
    pub(super) raw_bytes: usize,
    /// Room for its payload, and what else is paid for; `None` where it waits in the spill file.
    pub(super) room: Option<(PayloadBuffer, Lease)>,
}

impl Intake {
    /// Goes on from a state.
    pub(super) fn new(state: IntakeState) -> Self {
        Self { state: Mutex::new(state) }
    }
}

impl IntakeState {
    /// Goes on behind what is in a file.
    pub(super) fn behind(index: &Index, next_packet: u64, next_step: u64) -> Self {
        let dropped_bytes = index.dropped.iter().map(|row| row.raw_bytes).sum();
        Self {
            next_packet,
            next_step,
            raw_bytes: index.packets.iter().map(|entry| entry.raw_bytes).sum::<u64>() + dropped_bytes,
            tokens: index.tokens.clone(),
            dropped_packets: index.dropped.iter().map(|row| row.count).sum(),
            dropped_bytes,
            ..Default::default()
        }
    }

    /// Takes a number for a tensor.
    fn number(&mut self, head: &TensorHead, raw_bytes: usize) -> u64 {
        let packet = self.next_packet;
        self.next_packet += 1;
        self.raw_bytes = self.raw_bytes.saturating_add(raw_bytes as u64);
        self.next_step = self.next_step.max(head.step.saturating_add(1));
        packet
    }

    fn count_drop(&mut self, head: &TensorHead, raw_bytes: usize) {
        let packet = self.number(head, raw_bytes);
        self.dropped_packets += 1;
        self.dropped_bytes = self.dropped_bytes.saturating_add(raw_bytes as u64);
        self.drops.count(head, packet, raw_bytes as u64);
    }

    /// The parcel in which the next note goes.
    fn open(&mut self) -> &mut OpenParcel {
        let empty = || OpenParcel { items: Vec::new(), grant: None, worst_payload_bytes: 0, began: Instant::now() };
        self.open.get_or_insert_with(empty)
    }

    fn take_place(&mut self) -> u64 {
        self.next_place += 1;
        self.next_place - 1
    }
}

impl OpenParcel {
    fn push(&mut self, packet: u64, head: TensorHead, elements: &[u8], worst_payload_bytes: usize) {
        self.worst_payload_bytes += worst_payload_bytes;
        if let Some(grant) = &mut self.grant {
            grant.raw.append(elements);
        }
        self.items.push(Item::Tensor { packet, head, raw_bytes: elements.len() });
    }
}

impl Pipe {
    /// Whether a small tensor fits into the open parcel.
    fn fits(&self, state: &IntakeState, raw_bytes: usize) -> bool {
        let Some(open) = &state.open else { return false };
        let Some(grant) = &open.grant else { return false };
        open.items.len() < self.layout.parcel_items
            && grant.raw.bytes().len() + raw_bytes <= self.layout.parcel_bytes
            && open.worst_payload_bytes + self.layout.worst_payload_bytes(raw_bytes) <= self.layout.parcel_payload_bytes
    }

    /// Adds a small tensor to the open parcel, or begins one with `spare` or what memory there is. `false` if there is
    /// none; nothing is counted then.
    pub(super) fn gather(
        &self,
        head: &mut Option<TensorHead>,
        elements: &[u8],
        spare: Option<Grant>,
    ) -> Result<bool, TensorsError> {
        let mut state = lock(&self.intake.state);
        self.failure.check()?;
        if !self.fits(&state, elements.len()) {
            // Notes alone are not worth a parcel of their own.
            if state.open.as_ref().is_some_and(|open| open.grant.is_some()) {
                self.seal(&mut state, None)?;
            }
            let Some(grant) = spare.or_else(|| self.memory.try_acquire(self.layout.parcel_need())) else {
                return Ok(false);
            };
            state.open().grant = Some(grant);
        }
        if let Some(head) = head.take() {
            let packet = state.number(&head, elements.len());
            state.open().push(packet, head, elements, self.layout.worst_payload_bytes(elements.len()));
        }
        Ok(true)
    }

    /// Hands over a tensor on its own.
    pub(super) fn hand_over(&self, head: TensorHead, mut ready: Ready) -> Result<Handover, TensorsError> {
        loop {
            let mut state = lock(&self.intake.state);
            self.failure.check()?;
            if self.is_spilling() && ready.room.is_some() {
                drop(state);
                ready = self.spill_now(ready)?;
                continue;
            }
            self.seal(&mut state, None)?;
            if ready.room.is_none() {
                state.spilled_packets += 1;
                state.spilled_bytes += ready.raw_bytes as u64;
            }
            let packet = state.number(&head, ready.raw_bytes);
            let place = state.take_place();
            let (payload_room, lease) = ready.room.unzip();
            let items = vec![Item::Tensor { packet, head, raw_bytes: ready.raw_bytes }];
            let parcel = Parcel {
                place,
                items,
                source: ready.source,
                payload_room,
                lease,
                flush_end: None,
                began: Instant::now(),
            };
            // Under the lock, so that parcels are encoded in the order in which they are needed.
            self.dispatch(parcel);
            return Ok(Handover::Taken);
        }
    }

    /// Moves elements from memory into the spill file.
    fn spill_now(&self, ready: Ready) -> Result<Ready, TensorsError> {
        let extent = self.store_now(ready.source.bytes())?;
        Ok(Ready { source: Source::Spilled(extent), raw_bytes: ready.raw_bytes, room: None })
    }

    /// Counts a tensor that found no memory.
    pub(super) fn count_dropped(&self, head: &TensorHead, raw_bytes: usize) -> Result<Handover, TensorsError> {
        let mut state = lock(&self.intake.state);
        self.failure.check()?;
        state.count_drop(head, raw_bytes);
        Ok(Handover::Dropped)
    }

    /// Puts a token boundary behind all that was handed over so far.
    pub(super) fn record_token(&self, mark_at: impl FnOnce(u64, u64) -> TokenMark) -> Result<TokenMark, TensorsError> {
        let mut state = lock(&self.intake.state);
        self.failure.check()?;
        if state.open().items.len() >= self.layout.parcel_items {
            self.seal(&mut state, None)?;
        }
        let mark = mark_at(state.tokens.len() as u64, state.next_packet);
        state.tokens.push(mark.clone());
        state.open().items.push(Item::Note(Row::Token(mark.clone())));
        Ok(mark)
    }

    /// Sends everything on its way that was handed over so far, with the drops; what is waited for is in the result.
    pub(super) fn flush_point(&self) -> Result<FlushPoint, TensorsError> {
        let mut state = lock(&self.intake.state);
        self.failure.check()?;
        let end = FlushEnd::default();
        self.seal(&mut state, Some(end.clone()))?;
        Ok(FlushPoint {
            parcels: state.next_place,
            end,
            packets: state.next_packet,
            next_step: state.next_step,
            tokens: state.tokens.len() as u64,
        })
    }

    /// Sends the open parcel and the drops on their way if they have waited long enough, or if somebody waits for the
    /// memory that the parcel holds.
    pub(super) fn seal_if_due(&self) {
        let due = if self.memory.is_awaited() { Duration::ZERO } else { self.options.flush_interval / 2 };
        let mut state = lock(&self.intake.state);
        let is_old = |began: Option<Instant>| began.is_some_and(|began| began.elapsed() >= due);
        if is_old(state.open.as_ref().map(|open| open.began)) || is_old(state.drops.began()) {
            // An error of the spill file comes back with the next tensor: nothing is lost by trying again.
            let _ = self.seal(&mut state, None);
        }
    }

    /// Sends the open parcel on its way because somebody waits for the memory it holds.
    pub(super) fn seal_now(&self) {
        // As in `seal_if_due`.
        let _ = self.seal(&mut lock(&self.intake.state), None);
        self.reorder.poke();
    }

    /// Dispatches the open parcel, and the drops if they are due; a batch ends behind them if `flush_end` is given.
    fn seal(&self, state: &mut IntakeState, flush_end: Option<FlushEnd>) -> Result<(), TensorsError> {
        let mut parcels = Vec::new();
        if let Some(open) = state.open.take() {
            parcels.push(self.sealed(state, open)?);
        }
        let are_drops_due = state.drops.began().is_some_and(|began| began.elapsed() >= self.options.flush_interval / 2);
        if flush_end.is_some() || are_drops_due {
            for rows in state.drops.take_rows() {
                parcels.push(notes(state.take_place(), rows.into_iter().map(Item::Note).collect()));
            }
        }
        if flush_end.is_some() && parcels.is_empty() {
            parcels.push(notes(state.take_place(), Vec::new()));
        }
        if let Some(last) = parcels.last_mut() {
            last.flush_end = flush_end;
        }
        parcels.into_iter().for_each(|parcel| self.dispatch(parcel));
        Ok(())
    }

    /// The open parcel with its place. Where tensors before it wait in the spill file, it goes there as well.
    fn sealed(&self, state: &mut IntakeState, mut open: OpenParcel) -> Result<Parcel, TensorsError> {
        // Also one whose tensors have no elements: those before it may need the memory that it holds.
        let stored = open.grant.as_ref().filter(|_| self.is_spilling()).map(|grant| self.store_now(grant.raw.bytes()));
        let spilled = match stored.transpose() {
            Ok(spilled) => spilled,
            Err(error) => {
                state.open = Some(open);
                return Err(error);
            }
        };
        let place = state.take_place();
        let grant = open.grant.take();
        let (source, payload_room, lease) = match (spilled, grant) {
            (Some(extent), _) => {
                state.spilled_packets +=
                    open.items.iter().filter(|item| matches!(item, Item::Tensor { .. })).count() as u64;
                state.spilled_bytes += extent.bytes;
                (Source::Spilled(extent), None, None)
            }
            (None, Some(grant)) => (Source::Own(grant.raw), Some(grant.payload), Some(grant.extra)),
            (None, None) => (Source::Nothing, None, None),
        };
        Ok(Parcel { place, items: open.items, source, payload_room, lease, flush_end: None, began: open.began })
    }

    /// Puts elements that hold memory into the spill file.
    fn store_now(&self, elements: &[u8]) -> Result<Extent, TensorsError> {
        self.spill.as_ref().ok_or(StreamError::Ended)?.store_now(elements)
    }

    /// Puts other elements into the spill file, as soon as there is space.
    pub(super) fn store(&self, elements: &[u8]) -> Result<Extent, TensorsError> {
        let spill = self.spill.as_ref().ok_or(StreamError::Ended)?;
        match spill.store(elements, || self.failure.is_set())? {
            Some(extent) => Ok(extent),
            None => Err(self.failure.check().err().unwrap_or(StreamError::Ended.into())),
        }
    }
}

fn notes(place: u64, items: Vec<Item>) -> Parcel {
    Parcel {
        place,
        items,
        source: Source::Nothing,
        payload_room: None,
        lease: None,
        flush_end: None,
        began: Instant::now(),
    }
}
