//! Where blocks lie: the same content can be in several places at once.

use std::collections::HashMap;
use std::sync::Arc;

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
        self.medium.as_deref().unwrap_or("unnamed")
    }
}

/// Number of a place.
pub(crate) type PlaceIndex = u32;

/// All places, and the names in them, each once.
#[derive(Default)]
pub(crate) struct Places {
    list: Vec<Place>,
    indices: HashMap<Place, PlaceIndex>,
    names: HashMap<Box<str>, Arc<str>>,
    /// Events about the same place come in a row.
    last: Option<PlaceIndex>,
}

impl Places {
    /// The number of a place, which is noted if it is new.
    pub(crate) fn index_of(&mut self, rank: Option<u32>, medium: Option<&str>, group: Option<u32>) -> PlaceIndex {
        if let Some(last) = self.last {
            let place = &self.list[last as usize];
            if place.rank == rank && place.group == group && place.medium.as_deref() == medium {
                return last;
            }
        }
        let place = Place { rank, medium: medium.map(|name| self.name(name)), group };
        let list = &mut self.list;
        let index = *self.indices.entry(place).or_insert_with_key(|place| {
            list.push(place.clone());
            list.len() as PlaceIndex - 1
        });
        self.last = Some(index);
        index
    }

    pub(crate) fn get(&self, index: PlaceIndex) -> &Place {
        &self.list[index as usize]
    }

    /// A name, shared with its other occurrences.
    pub(crate) fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let shared: Arc<str> = name.into();
        self.names.insert(name.into(), shared.clone());
        shared
    }
}
