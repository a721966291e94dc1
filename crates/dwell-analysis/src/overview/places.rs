//! Which row of the map a region belongs to.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::Place;
use crate::region_type::{KNOWN_TYPES, known_index};
use dwell_events::RegionType;

use crate::region_type::TypeIndex;

/// Rows of the map at most. More could not be told apart on a screen.
const MOST_PLACES: usize = 1024;

/// Region ids that are looked up by position; ids are given from 1.
const DENSE_IDS: u64 = 1 << 20;

/// Stands for no place yet.
const UNKNOWN_PLACE: u32 = u32::MAX;

/// What `region_map` says of a region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverviewRegion {
    /// Its type.
    pub region_type: String,
    /// Tensor that owns the bytes; empty where nothing says so.
    pub tensor: String,
    /// Layer of the tensor, if it belongs to one.
    pub layer: Option<u16>,
    /// Its size.
    pub size_bytes: u64,
}

/// What makes a place one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PlaceKey {
    type_index: usize,
    layer: Option<u16>,
    /// The region, where the place stands for one alone. Names alone do not tell two apart.
    region: Option<(String, u64)>,
}

/// The places of a trace; finds that of a row.
#[derive(Debug)]
pub(super) struct Places {
    regions: BTreeMap<u64, OverviewRegion>,
    /// Types of which each layer is one place, because they have very many regions.
    is_by_layer: [bool; KNOWN_TYPES],
    numbers: BTreeMap<PlaceKey, u32>,
    dense: Vec<u32>,
    sparse: FxHashMap<u64, u32>,
    /// Of rows that belong to no region, by type.
    without_region: [u32; KNOWN_TYPES],
    places: Vec<Place>,
}

impl Places {
    pub(super) fn new(regions: BTreeMap<u64, OverviewRegion>) -> Self {
        Self {
            is_by_layer: types_by_layer(&regions),
            regions,
            numbers: BTreeMap::new(),
            dense: Vec::new(),
            sparse: FxHashMap::default(),
            without_region: [UNKNOWN_PLACE; KNOWN_TYPES],
            places: Vec::new(),
        }
    }

    /// The place of a row.
    #[inline]
    pub(super) fn of(&mut self, region_id: u64, type_index: TypeIndex) -> usize {
        let known = match region_id {
            0 => Some(&self.without_region[known_index(type_index)]),
            _ if region_id < DENSE_IDS => self.dense.get(region_id as usize),
            _ => self.sparse.get(&region_id),
        };
        match known {
            Some(&place) if place != UNKNOWN_PLACE => place as usize,
            _ => self.enter(region_id, known_index(type_index)),
        }
    }

    fn enter(&mut self, region_id: u64, type_index: usize) -> usize {
        let region = self.regions.get(&region_id).cloned().unwrap_or_default();
        let place = self.place_for(region_id, type_index, &region);
        if region_id > 0 {
            let entry = &mut self.places[place as usize];
            entry.regions += 1;
            entry.size_bytes = entry.size_bytes.saturating_add(region.size_bytes);
        }
        match region_id {
            0 => self.without_region[type_index] = place,
            _ if region_id < DENSE_IDS => {
                let needed = region_id as usize + 1;
                if self.dense.len() < needed {
                    self.dense.resize(needed, UNKNOWN_PLACE);
                }
                self.dense[region_id as usize] = place;
            }
            _ => _ = self.sparse.insert(region_id, place),
        }
        place as usize
    }

    /// The place that a region gets: one of its own, that of its layer, or that of its type when there are too many.
    fn place_for(&mut self, region_id: u64, type_index: usize, region: &OverviewRegion) -> u32 {
        let alone = (region_id > 0 && !self.is_by_layer[type_index]).then(|| (region.tensor.clone(), region_id));
        let keys = [
            PlaceKey { type_index, layer: region.layer, region: alone },
            PlaceKey { type_index, layer: region.layer, region: None },
        ];
        for key in keys {
            if let Some(&known) = self.numbers.get(&key) {
                return known;
            }
            if self.places.len() < MOST_PLACES {
                return self.add(key);
            }
        }
        let last = PlaceKey { type_index, layer: None, region: None };
        self.numbers.get(&last).copied().unwrap_or_else(|| self.add(last))
    }

    fn add(&mut self, key: PlaceKey) -> u32 {
        let number = self.places.len() as u32;
        let tensor = key.region.as_ref().map(|(tensor, _)| tensor.clone()).filter(|tensor| !tensor.is_empty());
        self.places.push(Place {
            region_type: RegionType::ALL[key.type_index].name().to_owned(),
            layer: key.layer,
            tensor,
            regions: 0,
            size_bytes: 0,
            read_bytes: 0,
            written_bytes: 0,
            rows: 0,
        });
        self.numbers.insert(key, number);
        number
    }

    /// Counts a row.
    #[inline]
    pub(super) fn count_row(&mut self, place: usize) {
        self.places[place].rows += 1;
    }

    /// The places by type, layer and name, each with its number while rows came.
    pub(super) fn into_ordered(self) -> Vec<(usize, Place)> {
        let mut places = self.places.into_iter().map(Some).collect::<Vec<_>>();
        // The keys are in this order, and each place has one.
        let ordered = self.numbers.into_values().map(|number| number as usize);
        ordered.filter_map(|number| places[number].take().map(|place| (number, place))).collect()
    }
}

/// Types whose layers are places, so that there are few enough: those with the most regions first.
fn types_by_layer(regions: &BTreeMap<u64, OverviewRegion>) -> [bool; KNOWN_TYPES] {
    let mut counts = [0usize; KNOWN_TYPES];
    for region in regions.values() {
        let region_type = RegionType::from_name(&region.region_type).unwrap_or(RegionType::Unknown);
        counts[region_type as usize] += 1;
    }
    let mut is_by_layer = [false; KNOWN_TYPES];
    while counts.iter().sum::<usize>() > MOST_PLACES {
        let Some((largest, _)) = counts.iter().enumerate().max_by_key(|(_, count)| **count) else { break };
        is_by_layer[largest] = true;
        counts[largest] = 0;
    }
    is_by_layer
}
