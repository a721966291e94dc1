use proptest::prelude::*;

use super::*;

/// Everything that was heard, one entry per byte, so that it does not matter how bytes were grouped.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    ended: Vec<(u64, Option<u64>, u32, u32, bool)>,
    intervals_ns: Vec<u64>,
    new_bytes: u64,
}

impl LifeSink for Heard {
    fn life_ended(&mut self, life: &Life, bytes: u64) {
        let ended = (life.begin_ns, life.retention_ns(), life.loads, life.region, life.is_inferred);
        (0..bytes).for_each(|_| self.ended.push(ended));
    }

    fn touched_again(&mut self, interval_ns: u64, bytes: u64) {
        (0..bytes).for_each(|_| self.intervals_ns.push(interval_ns));
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
struct NaiveMap(BTreeMap<u64, Life>);

impl NaiveMap {
    fn touch(&mut self, is_store: bool, (start, end): ByteRange, touch: Touch, heard: &mut Heard) {
        for byte in start..end {
            let known = self.0.get(&byte).copied();
            if let Some(life) = known {
                heard.touched_again(touch.now_ns.saturating_sub(life.last_access_ns), 1);
            }
            if touch.window != 0 && known.is_none_or(|life| life.window != touch.window) {
                heard.new_in_window(1);
            }
            let first = Life {
                begin_ns: touch.now_ns,
                last_load_ns: touch.now_ns,
                last_access_ns: touch.now_ns,
                loads: u32::from(!is_store),
                region: touch.region,
                window: touch.window,
                is_inferred: !is_store,
            };
            let next = match known {
                Some(life) if is_store => {
                    heard.life_ended(&life, 1);
                    first
                }
                Some(life) => Life {
                    last_load_ns: life.last_load_ns.max(touch.now_ns),
                    last_access_ns: life.last_access_ns.max(touch.now_ns),
                    loads: life.loads + 1,
                    window: if touch.window == 0 { life.window } else { touch.window },
                    ..life
                },
                None => first,
            };
            self.0.insert(byte, next);
        }
    }
}

type Operation = (bool, u64, u64, u64, u32, u32);

fn operation() -> impl Strategy<Value = Operation> {
    (any::<bool>(), 0u64..48, 1u64..17, 0u64..40, 0u32..3, 0u32..3)
}

/// Per byte: the life, which must be the same however segments are cut.
fn bytes_of(map: &LifeMap) -> BTreeMap<u64, Life> {
    map.segments.iter().flat_map(|(&start, segment)| (start..segment.end).map(|byte| (byte, segment.life))).collect()
}

proptest! {
    #[test]
    fn ranges_hear_and_know_the_same_as_single_bytes(operations in prop::collection::vec(operation(), 0..60)) {
        let (mut map, mut naive) = (LifeMap::default(), NaiveMap::default());
        let (mut heard, mut heard_by_byte) = (Heard::default(), Heard::default());
        for (is_store, start, size, now_ns, region, window) in operations {
            let range = (start, start + size);
            let touch = Touch { now_ns, region, window };
            if is_store {
                map.store(range, touch, &mut heard);
            } else {
                map.load(range, touch, &mut heard);
            }
            naive.touch(is_store, range, touch, &mut heard_by_byte);
            prop_assert_eq!(&bytes_of(&map), &naive.0);
            let ends: Vec<_> = map.segments.iter().map(|(&start, segment)| (start, segment.end)).collect();
            prop_assert!(ends.iter().all(|(start, end)| start < end));
            prop_assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        }
        prop_assert_eq!(heard.sorted(), heard_by_byte.sorted());
    }
}

fn at(now_ns: u64) -> Touch {
    Touch { now_ns, region: 0, window: 0 }
}

#[test]
fn a_store_makes_one_range_of_everything_it_covers() {
    let (mut map, mut heard) = (LifeMap::default(), Heard::default());
    for start in (0..64).step_by(8) {
        map.load((start, start + 8), at(start), &mut heard);
    }
    assert_eq!(map.segments.len(), 8);
    map.store((0, 64), at(100), &mut heard);
    assert_eq!(map.segments.len(), 1);
}

#[test]
fn rows_of_one_operation_become_one_range() {
    let (mut map, mut heard) = (LifeMap::default(), Heard::default());
    for start in (0..64).step_by(8) {
        map.store((start, start + 8), at(5), &mut heard);
    }
    assert_eq!(map.segments.len(), 1);
    for start in (0..64).step_by(8) {
        map.load((start, start + 8), at(6), &mut heard);
    }
    // The last row meets a range of its own size, which is updated where it is.
    assert_eq!(map.segments.len(), 2);
}

#[test]
fn ranges_at_the_end_of_the_address_space_are_followed() {
    let (mut map, mut heard) = (LifeMap::default(), Heard::default());
    map.store((0, u64::MAX), at(1), &mut Ignore);
    map.load((u64::MAX - 4, u64::MAX), at(3), &mut heard);
    map.store((u64::MAX - 4, u64::MAX), at(9), &mut heard);
    assert_eq!(heard.ended, vec![(1, Some(2), 1, 0, false); 4]);
    assert_eq!(map.open_lives().map(|(_, bytes)| bytes).sum::<u64>(), u64::MAX);
}

struct Ignore;

impl LifeSink for Ignore {
    fn life_ended(&mut self, _: &Life, _: u64) {}
    fn touched_again(&mut self, _: u64, _: u64) {}
    fn new_in_window(&mut self, _: u64) {}
}
