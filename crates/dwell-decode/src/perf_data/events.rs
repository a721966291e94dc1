//! Which event a record belongs to.

use rustc_hash::FxHashMap;

use super::attr::Attr;
use super::fields::Fields;
use super::header::{MAX_EVENTS, MAX_IDS, at_most, malformed, parse_ids};
use super::recording::Event;
use crate::error::{DecodeError, DecodeReason};

/// Finds the event of a record by the id in it.
#[derive(Default)]
pub(super) struct EventIndex {
    by_id: FxHashMap<u64, u32>,
    events: usize,
    ids: usize,
    /// Where a sample has its id: the same for all events, if there are several.
    id_position: Option<usize>,
}

impl EventIndex {
    /// Adds the next event; an error if its samples could not be told from those of the others.
    pub fn add(&mut self, event: &Event, offset: u64) -> Result<(), DecodeError> {
        self.ids += event.ids.len();
        at_most("events", offset, self.events as u64 + 1, MAX_EVENTS as u64)?;
        at_most("ids of events", offset, self.ids as u64, MAX_IDS as u64)?;
        let position = event.attr.id_position();
        if self.events > 0 && (position.is_none() || position != self.id_position) {
            let found = "samples of several events without an id at the same place in each".to_owned();
            return Err(DecodeError::new(offset, DecodeReason::Unsupported(found)));
        }
        self.by_id.extend(event.ids.iter().map(|id| (*id, self.events as u32)));
        (self.events, self.id_position) = (self.events + 1, position);
        Ok(())
    }

    /// Index of the event with an id.
    pub fn of_id(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).map(|index| *index as usize)
    }

    /// Index of a sample's event.
    #[inline]
    pub fn of_sample(&self, body: &[u8]) -> Option<u32> {
        // A single event needs no id, and some recordings have none then.
        match self.id_position.filter(|_| self.events > 1) {
            None => Some(0),
            Some(position) => self.by_id.get(&Fields(body.get(position..)?).u64()?).copied(),
        }
    }

    /// Attribute that says how a record that is no sample ends. Records that perf made up have no id: they end like those
    /// of the first event.
    pub fn of_other<'a>(&self, events: &'a [Event], body: &[u8]) -> Option<&'a Attr> {
        let first = &events.first()?.attr;
        let identifier = body.last_chunk::<8>().filter(|_| self.id_position == Some(0));
        let index = identifier.and_then(|id| self.of_id(u64::from_le_bytes(*id)));
        Some(index.and_then(|index| events.get(index)).map_or(first, |event| &event.attr))
    }
}

/// An event as a record of a pipe describes it.
pub(super) fn event_of_record(offset: u64, body: &[u8]) -> Result<Event, DecodeError> {
    let (attr, size) = Attr::parse(body).ok_or_else(|| malformed(offset, "an event with an impossible size"))?;
    Ok(Event::new(attr, parse_ids(&body[size..])))
}
