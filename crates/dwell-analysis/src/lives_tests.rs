use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// Everything that was heard, one entry per byte, so that it does not matter how bytes were grouped.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    ended: Vec<(u64, Option<u64>, u32, u32, bool)>,
    intervals_ns: Vec<u64>,
    first_bytes: u64,
    new_bytes: u64,
}

impl LifeSink for Heard {
    fn life_ended(&mut self, life: &Life, (start, end): ByteRange) {
        let ended = (life.begin_ns, life.retention_ns(), life.loads, life.region, life.is_inferred);
        (start..end).for_each(|_| self.ended.push(ended));
    }

    fn touched_first(&mut self, (start, end): ByteRange) {
        self.first_bytes += end - start;
    }

    fn touched_again(&mut self, _: &Life, interval_ns: u64, (start, end): ByteRange) {
        (start..end).for_each(|_| self.intervals_ns.push(interval_ns));
    }

    fn new_in_window(&mut self, bytes: u64) {
        self.new_bytes += bytes;
    }
}

impl Heard {
    fn sorted(mut self) -> Self {
        self.ended.sort_unstable();
        self.intervals_ns.sort_unstable();
        self
    }
}

/// The same, a byte at a time and without any cleverness.
#[derive(Default)]
struct NaiveMap {
    lives: BTreeMap<u64, Life>,
    /// How often a region stored a byte.
    stores: BTreeMap<(u64, u32), u32>,
    /// Bytes that a step touched.
    in_steps: BTreeSet<(u64, u32)>,
}

impl NaiveMap {
    fn visit(&mut self, is_store: bool, (start, end): ByteRange, visit: Visit, heard: &mut Heard) {
        for byte in start..end {
            let known = self.lives.get(&byte).copied();
            match known {
                Some(life) => {
                    let interval_ns = visit.now_ns.saturating_sub(life.last_access_ns);
                    heard.touched_again(&life, interval_ns, (byte, byte + 1));
                }
                None => heard.touched_first((byte, byte + 1)),
            }
            if visit.window != 0 && self.in_steps.insert((byte, visit.window)) {
                heard.new_in_window(1);
            }
            if let Some(life) = known.filter(|_| is_store) {
                heard.life_ended(&life, (byte, byte + 1));
            }
            *self.stores.entry((byte, visit.region)).or_default() += u32::from(is_store);
            self.lives.insert(byte, next_life(known, is_store, visit));
        }
    }
}

fn next_life(known: Option<Life>, is_store: bool, visit: Visit) -> Life {
    match known {
        Some(life) if !is_store => Life {
            last_load_ns: life.last_load_ns.max(visit.now_ns),
            last_access_ns: life.last_access_ns.max(visit.now_ns),
            loads: life.loads + 1,
            last_region: visit.region,
            steps: life.steps.with(visit.window),
            ..life
        },
        _ => Life {
            begin_ns: visit.now_ns,
            last_load_ns: visit.now_ns,
            last_access_ns: visit.now_ns,
            loads: u32::from(!is_store),
            region: visit.region,
            last_region: visit.region,
            steps: known.map_or(TouchedSteps::default(), |life| life.steps).with(visit.window),
            is_inferred: !is_store,
            is_rewrite: false,
        },
    }
}

type Operation = (bool, u64, u64, u64, u32, u32);

fn operation() -> impl Strategy<Value = Operation> {
    (any::<bool>(), 0u64..48, 1u64..17, 0u64..40, 0u32..3, 0u32..6)
}

/// Per byte: the life, which must be the same however segments are cut.
fn bytes_of(map: &LifeMap) -> BTreeMap<u64, Life> {
    map.segments().flat_map(|segment| (segment.start..segment.end).map(|byte| (byte, segment.life))).collect()
}

/// What the map says of each byte, with what it may have forgotten taken from the truth after that was checked.
fn checked_bytes(map: &LifeMap, naive: &NaiveMap) -> BTreeMap<u64, Life> {
    let mut bytes = bytes_of(map);
    for (byte, life) in &mut bytes {
        let truth = naive.lives[byte];
        if life.is_rewrite {
            assert!(naive.stores[&(*byte, life.region)] > 1, "no second store of {byte} by {}", life.region);
        }
        if life.last_region == Life::SEVERAL_REGIONS {
            life.last_region = truth.last_region;
        }
        life.is_rewrite = truth.is_rewrite;
    }
    bytes
}

proptest! {
    #[test]
    fn ranges_hear_and_know_the_same_as_single_bytes(operations in prop::collection::vec(operation(), 0..60)) {
        let (mut map, mut naive) = (LifeMap::default(), NaiveMap::default());
        let (mut heard, mut heard_by_byte) = (Heard::default(), Heard::default());
        for (is_store, start, size, now_ns, region, window) in operations {
            let range = (start, start + size);
            let visit = Visit { now_ns, region, window, is_concluded: false };
            if is_store {
                map.store(range, visit, &mut heard);
            } else {
                map.load(range, visit, &mut heard);
            }
            naive.visit(is_store, range, visit, &mut heard_by_byte);
            prop_assert_eq!(&checked_bytes(&map, &naive), &naive.lives);
            let ends: Vec<_> = map.segments().map(|segment| (segment.start, segment.end)).collect();
            prop_assert_eq!(map.places.len(), ends.len());
            prop_assert_eq!(map.segments.len() - map.unused.len(), ends.len());
            prop_assert!(ends.iter().all(|(start, end)| start < end));
            prop_assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        }
        prop_assert_eq!(heard.sorted(), heard_by_byte.sorted());
    }

    #[test]
    fn two_maps_of_disjoint_bytes_merge_to_the_map_of_all(
        operations in prop::collection::vec(operation(), 0..60),
        cut in 0u64..64,
    ) {
        let mut whole = LifeMap::default();
        let mut parts = [LifeMap::default(), LifeMap::default()];
        for (is_store, start, size, now_ns, region, window) in operations {
            let (end, visit) = (start + size, Visit { now_ns, region, window, is_concluded: false });
            let follow = |map: &mut LifeMap, range: ByteRange| match is_store {
                true => map.store(range, visit, &mut ()),
                false => map.load(range, visit, &mut ()),
            };
            follow(&mut whole, (start, end));
            follow(&mut parts[0], (start, end.min(cut)));
            follow(&mut parts[1], (start.max(cut), end));
        }
        let [mut merged, other] = parts;
        merged.merge(other, |region| region);
        let forgotten = |life: Life| Life { last_region: 0, is_rewrite: false, ..life };
        let histories = |map: &LifeMap| bytes_of(map).into_iter().map(|(byte, life)| (byte, forgotten(life))).collect::<Vec<_>>();
        prop_assert_eq!(histories(&merged), histories(&whole));
    }
}

fn at(now_ns: u64) -> Visit {
    Visit { now_ns, ..Visit::default() }
}

#[test]
fn a_store_makes_one_range_of_everything_it_covers() {
    let (mut map, mut heard) = (LifeMap::default(), Heard::default());
    for start in (0..64).step_by(8) {
        map.load((start, start + 8), at(start), &mut heard);
    }
    assert_eq!(map.segments().count(), 8);
    map.store((0, 64), at(100), &mut heard);
    assert_eq!(map.segments().count(), 1);
}

#[test]
fn rows_of_one_operation_become_one_range() {
    let (mut map, mut heard) = (LifeMap::default(), Heard::default());
    for start in (0..64).step_by(8) {
        map.store((start, start + 8), at(5), &mut heard);
    }
    assert_eq!(map.segments().count(), 1);
    for start in (0..64).step_by(8) {
        map.load((start, start + 8), at(6), &mut heard);
    }
    // The last row meets a range of its own size, which is updated where it is.
    assert_eq!(map.segments().count(), 2);
}

#[test]
fn ranges_at_the_end_of_the_address_space_are_followed() {
    let (mut map, mut heard) = (LifeMap::default(), Heard::default());
    map.store((0, u64::MAX), at(1), &mut ());
    map.load((u64::MAX - 4, u64::MAX), at(3), &mut heard);
    map.store((u64::MAX - 4, u64::MAX), at(9), &mut heard);
    assert_eq!(heard.ended, vec![(1, Some(2), 1, 0, false); 4]);
    let mut open = OpenBytes::default();
    map.close(&mut open);
    assert_eq!(open.0, u64::MAX);
}

/// Bytes of lives that nothing ended.
#[derive(Default)]
struct OpenBytes(u64);

impl LifeSink for OpenBytes {
    fn life_left_open(&mut self, _: &Life, (start, end): ByteRange) {
        self.0 += end - start;
    }
}

#[test]
fn a_second_store_by_the_same_region_is_a_rewrite() {
    let mut map = LifeMap::default();
    let by = |region, now_ns| Visit { now_ns, region, ..Visit::default() };
    let is_rewrite = |map: &LifeMap| map.segments().map(|segment| segment.life.is_rewrite).collect::<Vec<_>>();
    map.store((0, 8), by(1, 1), &mut ());
    assert_eq!(is_rewrite(&map), [false]);
    map.store((0, 8), by(1, 2), &mut ());
    assert_eq!(is_rewrite(&map), [true]);
    map.store((0, 8), by(2, 3), &mut ());
    assert_eq!(is_rewrite(&map), [false]);
    map.store((0, 16), by(2, 4), &mut ());
    assert_eq!(is_rewrite(&map), [false], "only half of the bytes were stored before");
}
