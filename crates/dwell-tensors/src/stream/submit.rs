//! Handing tensors over, under each policy.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use super::error::StreamError;
use super::grant::Grant;
use super::intake::Ready;
use super::memory::{Need, Refused};
use super::parcel::Source;
use super::pipe::Pipe;
use crate::container::{MAX_DIMENSIONS, MAX_TEXT_BYTES};
use crate::{Pressure, TensorHead, TensorsError};

/// Elements in memory of somebody else, such as pinned memory. Dropped on any thread, once they are encoded or
/// written.
pub trait Elements: Send + Sync {
    /// The elements, one after another in row order; the same at every call.
    fn bytes(&self) -> &[u8];
}

/// What became of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// It is on its way to the file.
    Taken,
    /// Memory was full; it is counted under its name.
    Dropped,
}

/// Room for the elements of one tensor. What is in it before it is filled is anything.
pub struct Room {
    grant: Grant,
}

impl Deref for Room {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.grant.raw.bytes()
    }
}

impl DerefMut for Room {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.grant.raw.bytes_mut()
    }
}

/// Elements that are not in memory of the stream yet.
pub(super) enum Given<'a> {
    Slice(&'a [u8]),
    Foreign(Box<dyn Elements>),
}

impl Given<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Slice(elements) => elements,
            Self::Foreign(elements) => elements.bytes(),
        }
    }
}

impl Pipe {
    /// Hands over a tensor.
    pub(super) fn submit(&self, head: TensorHead, given: Given<'_>) -> Result<Handover, TensorsError> {
        let raw_bytes = given.bytes().len();
        check(&head, raw_bytes)?;
        if raw_bytes <= self.layout.small_bytes {
            self.submit_small(head, &given)
        } else {
            self.submit_large(head, given)
        }
    }

    /// Room to be filled; `None` if there is none within `patience`.
    pub(super) fn reserve(&self, bytes: usize, patience: Duration) -> Result<Option<Room>, TensorsError> {
        self.failure.check()?;
        let need = self.layout.tensor_need("", bytes, true);
        let grant = match self.options.pressure {
            Pressure::Drop => self.memory.try_acquire(need),
            Pressure::Block | Pressure::Spill => {
                self.check_size("", bytes, need)?;
                self.wait_for(need, Some(patience))?
            }
        };
        Ok(grant.map(|mut grant| {
            grant.raw.set_length(bytes);
            Room { grant }
        }))
    }

    /// Hands over a tensor that was filled into its room.
    pub(super) fn submit_room(&self, head: TensorHead, room: Room) -> Result<Handover, TensorsError> {
        check(&head, room.len())?;
        let mut head = Some(head);
        if room.len() <= self.layout.small_bytes && self.gather(&mut head, &room, None)? {
            return Ok(Handover::Taken);
        }
        match head {
            Some(head) => self.hand_over(head, in_memory(room.grant)),
            None => Ok(Handover::Taken),
        }
    }

    fn submit_small(&self, head: TensorHead, given: &Given<'_>) -> Result<Handover, TensorsError> {
        let mut head = Some(head);
        let mut spare = None;
        while !self.gather(&mut head, given.bytes(), spare.take())? {
            match (self.options.pressure, &head) {
                (Pressure::Drop, Some(head)) => return self.count_dropped(head, given.bytes().len()),
                (Pressure::Spill, Some(_)) => {
                    let ready = self.in_spill_file(given.bytes())?;
                    return head.map_or(Ok(Handover::Taken), |head| self.hand_over(head, ready));
                }
                _ => spare = self.wait_for(self.layout.parcel_need(), None)?,
            }
        }
        Ok(Handover::Taken)
    }

    fn submit_large(&self, head: TensorHead, given: Given<'_>) -> Result<Handover, TensorsError> {
        let raw_bytes = given.bytes().len();
        let need = self.layout.tensor_need(&head.name, raw_bytes, matches!(given, Given::Slice(_)));
        let grant = match self.options.pressure {
            Pressure::Drop => match self.memory.try_acquire(need) {
                None => return self.count_dropped(&head, raw_bytes),
                granted => granted,
            },
            Pressure::Block => {
                self.check_size(&head.name, raw_bytes, need)?;
                self.wait_for(need, None)?
            }
            Pressure::Spill => {
                self.check_size(&head.name, raw_bytes, need)?;
                if self.is_spilling() { None } else { self.memory.try_acquire(need) }
            }
        };
        let ready = match (grant, given) {
            (None, given) => self.in_spill_file(given.bytes())?,
            (Some(mut grant), Given::Slice(elements)) => {
                grant.raw.append(elements);
                in_memory(grant)
            }
            (Some(grant), Given::Foreign(elements)) => {
                Ready { source: Source::Foreign(elements), raw_bytes, room: Some((grant.payload, grant.extra)) }
            }
        };
        self.hand_over(head, ready)
    }

    fn in_spill_file(&self, elements: &[u8]) -> Result<Ready, TensorsError> {
        let extent = self.store(elements)?;
        Ok(Ready { source: Source::Spilled(extent), raw_bytes: elements.len(), room: None })
    }

    /// Waits for memory; `None` if there is none within `patience`.
    fn wait_for(&self, need: Need, patience: Option<Duration>) -> Result<Option<Grant>, TensorsError> {
        match self.memory.acquire(need, patience, || self.seal_now()) {
            Ok(grant) => Ok(Some(grant)),
            Err(Refused::NotYet) => Ok(None),
            Err(Refused::System(error)) => Err(TensorsError::from_io("allocating memory", &self.path, error)),
            Err(Refused::Closed) => {
                self.failure.check()?;
                Err(StreamError::Ended.into())
            }
        }
    }

    /// Fails for a tensor that would wait for ever.
    fn check_size(&self, name: &str, raw_bytes: usize, need: Need) -> Result<(), TensorsError> {
        let name = || name.to_owned();
        if !self.memory.could_hold(need) {
            let limit_bytes = self.memory.limit_bytes();
            return Err(StreamError::TooLarge { name: name(), needed_bytes: need.bytes(), limit_bytes }.into());
        }
        match &self.spill {
            Some(spill) if raw_bytes as u64 > spill.max_bytes() => {
                let reason = format!("{}, and {raw_bytes} bytes are needed for tensor {:?}", spill.max_bytes(), name());
                Err(StreamError::UnfitOption { option: "max_spill_bytes", reason }.into())
            }
            _ => Ok(()),
        }
    }
}

fn in_memory(grant: Grant) -> Ready {
    let raw_bytes = grant.raw.bytes().len();
    Ready { source: Source::Own(grant.raw), raw_bytes, room: Some((grant.payload, grant.extra)) }
}

/// Fails for a tensor that is not what it says, or that the file cannot hold.
pub(super) fn check(head: &TensorHead, given_bytes: usize) -> Result<(), TensorsError> {
    let needed_bytes = head.raw_bytes();
    let reason = if needed_bytes != Some(given_bytes as u64) {
        let needed = needed_bytes.map_or_else(|| "more than any memory".to_owned(), |bytes| bytes.to_string());
        format!("{given_bytes} bytes, and {} × {:?} needs {needed}", head.dtype.name(), head.shape)
    } else if head.name.len() > MAX_TEXT_BYTES {
        format!("a name of {} bytes, and at most {MAX_TEXT_BYTES} are possible", head.name.len())
    } else if head.shape.len() > MAX_DIMENSIONS {
        format!("{} dimensions, and at most {MAX_DIMENSIONS} are possible", head.shape.len())
    } else {
        return Ok(());
    };
    let name = head.name.chars().take(100).collect();
    Err(TensorsError::UnfitTensor { name, reason })
}
