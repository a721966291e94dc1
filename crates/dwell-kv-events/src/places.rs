//! Where blocks lie: the same content can be in several places at once.

use std::collections::HashMap;
use std::sync::Arc;

/// A medium that the server does not name.
pub(crate) const UNNAMED_MEDIUM: &str = "unnamed";

/// Places and names that are told apart. Servers have a few; more are made up, and stay in memory.
const PLACES_MAX: usize = 4096;

/// A part of the cache of one server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) rank: Option<u32>,
    pub(crate) medium: Option<Arc<str>>,
    pub(crate) group: Option<u32>,
}

impl Place {
    /// The medium for people.
    pub(crate) fn medium_name(&self) -> &str {
        self.medium.as_deref().unwrap_or(UNNAMED_MEDIUM)
    }
}

/// Number of a place.
pub(crate) type PlaceIndex = u32;

/// All places, and the names in them, each once.
#[derive(Default)]
pub(crate) struct Places {
    list: Vec<Place>,
    indices: HashMap<Place, PlaceIndex>,
    names: Vec<Arc<str>>,
    /// Numbers of the names, from 1.
    numbers: HashMap<Arc<str>, u32>,
    /// Events about the same place come in a row.
    last: Option<PlaceIndex>,
}

impl Places {
    /// The number of a place, which is noted if it is new; none if there are too many.
    pub(crate) fn index_of(
        &mut self,
        rank: Option<u32>,
        medium: Option<&str>,
        group: Option<u32>,
    ) -> Option<PlaceIndex> {
        if let Some(last) = self.last {
            let place = &self.list[last as usize];
            if place.rank == rank && place.group == group && place.medium.as_deref() == medium {
                return Some(last);
            }
        }
        let number = medium.map(|name| self.name_number(name));
        let place = Place { rank, medium: number.and_then(|number| self.name_of(number)), group };
        let is_new = !self.indices.contains_key(&place);
        if is_new && (self.list.len() >= PLACES_MAX || number == Some(0)) {
            return None;
        }
        let list = &mut self.list;
        let index = *self.indices.entry(place).or_insert_with_key(|place| {
            list.push(place.clone());
            list.len() as PlaceIndex - 1
        });
        self.last = Some(index);
        Some(index)
    }

    pub(crate) fn get(&self, index: PlaceIndex) -> &Place {
        &self.list[index as usize]
    }

    /// The number of a name, from 1; 0 if there are too many.
    pub(crate) fn name_number(&mut self, name: &str) -> u32 {
        if let Some(&known) = self.numbers.get(name) {
            return known;
        }
        if self.names.len() >= PLACES_MAX {
            return 0;
        }
        let shared: Arc<str> = name.into();
        self.names.push(shared.clone());
        let number = self.names.len() as u32;
        self.numbers.insert(shared, number);
        number
    }

    /// The name of a number, shared with its other occurrences.
    pub(crate) fn name_of(&self, number: u32) -> Option<Arc<str>> {
        self.names.get((number as usize).checked_sub(1)?).cloned()
    }
}
