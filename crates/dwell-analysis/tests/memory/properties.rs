use dwell_analysis::memory::{MemoryReport, Series, VerdictKind};
use proptest::prelude::*;

use crate::lab::{Lab, MS, noise};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn interpolated_memory_lies_between_its_neighbours(
        points in prop::collection::btree_map(0u64..1_000_000, 0u64..u64::MAX, 1..40),
        time_ns in 0u64..1_000_000,
    ) {
        let mut series = Series::default();
        points.iter().for_each(|(&time_ns, &bytes)| series.push(time_ns, bytes));
        let before = points.range(..=time_ns).next_back();
        let after = points.range(time_ns..).next();
        match (before, after) {
            (Some((&before_ns, &earlier)), Some((&after_ns, &later))) => {
                let found = series.at(time_ns).unwrap();
                prop_assert!((earlier.min(later)..=earlier.max(later)).contains(&found.bytes));
                prop_assert_eq!(found.gap_ns, (time_ns - before_ns).min(after_ns - time_ns));
            }
            _ => prop_assert_eq!(series.at(time_ns), None),
        }
    }

    #[test]
    fn any_slope_is_found_at_any_interval_whatever_the_block(
        per_token in 8_000.0f64..1e6,
        interval_ms in 5u64..40,
        block_tokens in prop::sample::select(vec![1.0, 16.0, 32.0, 128.0]),
        base in 0.0f64..1e10,
    ) {
        let memory = |tokens: f64| base + per_token * block_tokens * (tokens / block_tokens).floor();
        let report = Lab::new(1_500, interval_ms * MS, memory).report(per_token.round() as u64, 8_192);
        let growth = report.growth.unwrap();
        prop_assert!((growth.bytes_per_token / per_token - 1.0).abs() < 0.02, "{growth:?}");
        prop_assert_eq!(report.verdict.kind, VerdictKind::KvGrowthExplained);
    }

    #[test]
    fn parts_add_up_and_a_leak_is_never_called_explained(
        per_token in 8_000.0f64..1e5,
        leak_share in 0.1f64..3.0,
        noise_bytes in 0.0f64..50_000.0,
    ) {
        let memory = |tokens: f64| 2e8 + per_token * (1.0 + leak_share) * tokens + noise_bytes * noise(tokens);
        let report = Lab::new(1_000, 20 * MS, memory).report(per_token.round() as u64, 8_192);
        prop_assert_eq!(report.verdict.kind, VerdictKind::UnexplainedGrowth);
        for split in [report.steady.unwrap(), report.peak.unwrap()] {
            prop_assert_eq!(split.parts.iter().map(|part| part.bytes).sum::<i64>(), split.total_bytes as i64);
        }
    }

    #[test]
    fn no_samples_and_tokens_make_it_panic(
        samples in prop::collection::vec((0u64..1_000, any::<u64>()), 0..40),
        tokens in prop::collection::vec(0u64..1_000, 0..40),
        theory in any::<u64>(),
    ) {
        let mut lab = Lab::new(0, MS, |_| 0.0);
        let row = |&(time_ns, bytes): &(u64, u64)| dwell_events::schema::memory::MemoryRow {
            timestamp_ns: time_ns,
            rss_bytes: bytes,
            pss_bytes: Some(bytes),
            anon_bytes: Some(bytes),
            file_bytes: Some(bytes),
            gpu_bytes: Some(bytes),
            ..Default::default()
        };
        lab.series = crate::lab::series_of(samples.iter().map(row));
        let rows = tokens.iter().enumerate().map(|(index, &time_ns)| crate::lab::token(index as u64, time_ns));
        lab.tokens = crate::lab::times_of(rows);
        let theory = dwell_analysis::memory::KvTheory { bytes_per_token: theory, ..crate::lab::theory(1, 1) };
        let inputs = dwell_analysis::memory::MemoryInputs { theory: Some(theory), ..lab.inputs() };
        prop_assert_eq!(MemoryReport::of(&inputs).samples as usize, lab.series.of(dwell_analysis::memory::MemoryKind::Rss).points().len());
    }
}
