use dwell_analysis::memory::{Growth, GrowthShape, MemoryKind, MemoryReport, Point, robust_line};

use crate::lab::{Lab, MIB, MS, assert_near, noise, sample, series_of};

const BASE: f64 = 300.0 * MIB as f64;
const PER_TOKEN: f64 = 32_768.0;

fn growth(lab: &Lab) -> Growth {
    MemoryReport::of(&lab.inputs()).growth.unwrap()
}

#[test]
fn a_line_gives_its_slope() {
    let found = growth(&Lab::new(500, 25 * MS, |tokens| BASE + PER_TOKEN * tokens));
    assert_near(found.bytes_per_token, PER_TOKEN, 1e-3);
    assert_eq!((found.shape, found.kind), (GrowthShape::Steady, MemoryKind::Own));
    // 499 tokens after the first take 4,990 ms: a sample at each of their multiples of 25 ms.
    assert_eq!(found.samples, 200);
    assert_near(found.tokens, 497.5, 1e-9);
    assert!(found.low_bytes_per_token <= PER_TOKEN + 1.0 && found.high_bytes_per_token >= PER_TOKEN - 1.0, "{found:?}");
}

#[test]
fn noise_and_outliers_move_it_little_and_the_interval_holds_the_truth() {
    let disturbed = |tokens: f64| {
        let spike = if (tokens as u64).is_multiple_of(17) { 40.0 * MIB as f64 } else { 0.0 };
        BASE + PER_TOKEN * tokens + 200_000.0 * noise(tokens) + spike
    };
    let found = growth(&Lab::new(1_000, 25 * MS, disturbed));
    assert_near(found.bytes_per_token, PER_TOKEN, 0.01);
    let interval = found.low_bytes_per_token..=found.high_bytes_per_token;
    assert!(interval.contains(&PER_TOKEN), "{found:?}");
    assert!(found.high_bytes_per_token - found.low_bytes_per_token < 0.05 * PER_TOKEN, "{found:?}");
}

#[test]
fn growth_in_blocks_has_the_same_slope_and_says_its_blocks() {
    for (block_tokens, tokens) in [(256.0, 2_000), (64.0, 600), (16.0, 1_000)] {
        let block = |tokens: f64| BASE + PER_TOKEN * block_tokens * ((tokens - 1.0) / block_tokens).floor();
        let found = growth(&Lab::new(tokens, 20 * MS, block));
        assert_near(found.bytes_per_token, PER_TOKEN, 0.02);
        assert_eq!(found.shape, GrowthShape::Blocks, "{found:?}");
        assert_near(found.block_tokens.unwrap(), block_tokens, 0.02);
        assert_near(found.block_bytes.unwrap(), PER_TOKEN * block_tokens, 1e-6);
        let interval = found.low_bytes_per_token..=found.high_bytes_per_token;
        assert!(interval.contains(&PER_TOKEN), "{found:?}");
    }
}

#[test]
fn a_block_that_is_seen_while_it_is_filled_is_one_block() {
    // The first tokens of a block touch it: a ramp over 8 tokens, then nothing for 248.
    let ramp = |tokens: f64| {
        let (blocks, within) = ((tokens / 256.0).floor(), tokens % 256.0);
        BASE + PER_TOKEN * 256.0 * (blocks + (within / 8.0).min(1.0))
    };
    let found = growth(&Lab::new(1_800, 20 * MS, ramp));
    assert_eq!(found.shape, GrowthShape::Blocks, "{found:?}");
    assert_near(found.bytes_per_token, PER_TOKEN, 0.02);
}

#[test]
fn one_block_is_called_that() {
    let found = growth(&Lab::new(400, 20 * MS, |tokens| BASE + if tokens > 200.0 { 8e6 } else { 0.0 }));
    assert_eq!((found.shape, found.block_bytes), (GrowthShape::OneBlock, Some(8e6)));
}

#[test]
fn level_memory_has_no_slope() {
    let found = growth(&Lab::new(500, 25 * MS, |_| BASE));
    assert_eq!((found.bytes_per_token, found.noise_bytes, found.shape), (0.0, 0.0, GrowthShape::Steady));
}

#[test]
fn few_samples_or_tokens_give_no_slope() {
    let grows = |tokens: f64| BASE + PER_TOKEN * tokens;
    assert_eq!(MemoryReport::of(&Lab::new(500, 800 * MS, grows).inputs()).growth, None, "7 samples");
    assert_eq!(MemoryReport::of(&Lab::new(8, MS, grows).inputs()).growth, None, "7 tokens after the first");
    assert_eq!(MemoryReport::of(&Lab::new(0, MS, grows).inputs()).growth, None, "no tokens");
}

#[test]
fn without_the_kind_of_pages_resident_memory_is_taken_and_said() {
    let mut lab = Lab::new(500, 25 * MS, |_| 0.0);
    let resident = |time_ms: u64| {
        let row = sample(time_ms * MS, 0, 0);
        dwell_events::schema::memory::MemoryRow {
            rss_bytes: 10_000 * time_ms,
            anon_bytes: None,
            pss_bytes: None,
            ..row
        }
    };
    lab.series = series_of((900..6_500).step_by(25).map(resident));
    let found = growth(&lab);
    assert_eq!(found.kind, MemoryKind::Rss);
    // 10,000 bytes a millisecond, 10 ms a token.
    assert_near(found.bytes_per_token, 100_000.0, 1e-9);
}

#[test]
fn a_line_by_hand() {
    let points = [(0.0, 1.0), (1.0, 3.0), (2.0, 5.0), (3.0, 100.0), (4.0, 9.0)].map(|(x, y)| Point { x, y });
    let line = robust_line(&points).unwrap();
    // Of the ten slopes, six are 2.
    assert_eq!((line.slope, line.intercept, line.noise), (2.0, 1.0, 0.0));
    assert_eq!(robust_line(&points[..1]), None);
    assert_eq!(robust_line(&[Point { x: 1.0, y: 0.0 }, Point { x: 1.0, y: 9.0 }]), None, "no distance");
}

#[test]
fn many_points_are_gathered_and_still_give_the_slope() {
    let points: Vec<Point> = (0..1_000_000).map(|x| Point { x: f64::from(x), y: 7.0 * f64::from(x) }).collect();
    assert_near(robust_line(&points).unwrap().slope, 7.0, 1e-9);
}
