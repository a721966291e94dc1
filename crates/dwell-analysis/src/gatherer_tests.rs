use proptest::prelude::*;

use super::*;
use crate::observation::Observation;
use crate::part::Part;
use crate::ranges::byte_count;

/// Kind, place, size and step of a sample.
type Sample = (bool, u64, u64, Option<u32>);

fn access(now_ns: u64, (is_store, place, size_bytes, step): Sample) -> Access {
    Access {
        timestamp_ns: now_ns,
        // Close to where one page ends and the next begins.
        address: 0x7f00_0000_0fe0 + place,
        size_bytes,
        region_id: place % 3,
        step,
        region_type: (place % 2) as u16,
        op_type: if is_store { OpType::Store } else { OpType::Load },
        basis: Basis::Sampled,
        period: 4000,
        manner: Manner::Ordinary,
    }
}

/// What was gathered, as far as figures of sampled traces are made of it.
fn gathered(mut gatherer: Gatherer, accesses: &[Access]) -> Vec<String> {
    accesses.iter().for_each(|access| gatherer.push(access));
    gatherer.work_off();
    gatherer.close(1_000_000);
    let observation = Observation::default();
    let regions = gatherer.regions.iter().map(|region| {
        let footprint = &region.footprint;
        let bytes = [footprint.touched(), footprint.stored(), footprint.restored()].map(byte_count);
        let lives = &region.lives;
        let seen: Vec<_> =
            [0.1, 0.5, 0.9].map(|share| (lives.seen_ns(share), lives.samples_of_open_lives(share))).into();
        let intervals: Vec<_> = region.intervals_ns.points().collect();
        let kept = lives.kept_at_pace(1e-7, false).map(|kept| kept.low);
        let ends = (lives.ended_bytes(), lives.open_bytes(), lives.figures(Basis::Sampled, &observation).life_bytes);
        format!("{} {bytes:?} {seen:?} {intervals:?} {kept:?} {ends:?}", region.region_id)
    });
    regions.chain([format!("{:?}", gatherer.step_bytes())]).collect()
}

proptest! {
    #[test]
    fn samples_that_are_dealt_out_give_what_they_give_one_after_the_other(
        samples in prop::collection::vec((any::<bool>(), 0u64..64, 1u64..24, prop::option::of(0u32..4)), 0..200),
    ) {
        let accesses: Vec<Access> = (0u64..).zip(samples).map(|(row, sample)| access(row * 10, sample)).collect();
        let dealt = Gatherer::new(1e9, Followed::Part(Part::WHOLE));
        let at_once = Gatherer { shards: None, ..Gatherer::new(1e9, Followed::Part(Part::WHOLE)) };
        prop_assert!(dealt.shards.is_some());
        prop_assert_eq!(gathered(dealt, &accesses), gathered(at_once, &accesses));
    }
}

#[test]
fn rows_that_are_no_samples_end_the_dealing_and_lose_no_life() {
    let mut gatherer = Gatherer::new(1e9, Followed::Part(Part::WHOLE));
    gatherer.push(&access(10, (true, 0, 8, None)));
    gatherer.push(&access(20, (true, 100_000, 8, None)));
    assert!(gatherer.shards.is_some());
    let exact = Access { basis: Basis::Exact, ..access(50, (false, 0, 8, None)) };
    gatherer.push(&exact);
    assert!(gatherer.shards.is_none());
    gatherer.push(&Access { timestamp_ns: 90, op_type: OpType::Store, ..exact });
    gatherer.close(100);
    let ended: u64 = gatherer.regions.iter().map(|region| region.lives.ended_bytes()).sum();
    let open: u64 = gatherer.regions.iter().map(|region| region.lives.open_bytes()).sum();
    assert_eq!((ended, open), (8, 16), "the first life ended with the second store");
    assert_eq!(gatherer.regions[0].lives.seen_ns(0.5), Some(40.0), "from the sampled store to the exact load");
}
