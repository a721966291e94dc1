use dwell_analysis::memory::{
    KvTheory, MemoryInputs, MemoryKind, MemoryPart, MemoryReport, Split, VerdictKind, Weights,
};
use dwell_events::Phase;
use dwell_events::schema::memory::MemoryRow;
use dwell_events::server::{BufferKind, ReportedBuffer};

use crate::lab::{BEGIN_NS, Lab, MIB, MS, sample, series_of, theory};

fn buffer(kind: BufferKind, device: &str, mib: u64, is_mapped: bool) -> ReportedBuffer {
    ReportedBuffer { kind, device: device.to_owned(), bytes: mib * MIB, is_mapped }
}

fn parts(split: &Split) -> Vec<(&'static str, i64, &'static str)> {
    let mib = |bytes: i64| bytes / MIB as i64;
    split.parts.iter().map(|part| (part.part.name(), mib(part.bytes), part.basis.name())).collect()
}

/// 600 tokens with 200 MiB of their own and 90 MiB of a file.
fn level() -> Lab {
    let mut lab = Lab::new(600, 25 * MS, |_| 0.0);
    lab.series = series_of((0..400).map(|index| sample(500 * MS + index * 25 * MS, 200 * MIB, 90 * MIB)));
    lab
}

#[test]
fn reported_buffers_and_the_rest_add_up_to_the_total() {
    let lab = level();
    let buffers = [
        buffer(BufferKind::Weights, "CPU_Mapped", 100, true),
        buffer(BufferKind::Weights, "CPU_REPACK", 30, false),
        buffer(BufferKind::KvCache, "CPU", 64, false),
        buffer(BufferKind::Compute, "CPU", 40, false),
        buffer(BufferKind::Other, "CPU", 2, false),
    ];
    let inputs = MemoryInputs { buffers: &buffers, theory: Some(theory(32_768, 2_048)), ..lab.inputs() };
    let report = MemoryReport::of(&inputs);
    let steady = report.steady.as_ref().unwrap();
    assert_eq!((steady.total_kind, steady.total_bytes), (MemoryKind::Pss, 290 * MIB));
    let expected = [
        // Of 100 MiB that are mapped, 90 are resident.
        ("weights_mapped", 90, "sampled"),
        ("weights_copied", 30, "reported"),
        ("kv_cache", 64, "reported"),
        ("compute", 40, "reported"),
        ("other", 2, "reported"),
        ("unaccounted", 64, "inferred"),
    ];
    assert_eq!(parts(steady), expected);
    assert!(!steady.is_overfull);
    assert_eq!(steady.parts.iter().map(|part| part.bytes).sum::<i64>(), 290 * MIB as i64);
    assert_eq!(report.steady_part(MemoryPart::KvCache), Some(64 * MIB as i64));
}

#[test]
fn state_is_told_apart_from_the_kv_cache_reported_or_by_theory() {
    let lab = level();
    let theory = KvTheory { state_bytes: Some(8 * MIB), ..theory(32_768, 2_048) };
    let inputs = MemoryInputs { theory: Some(theory), ..lab.inputs() };
    let part_of = |inputs: &MemoryInputs<'_>, name: &str| {
        let report = MemoryReport::of(inputs);
        parts(report.steady.as_ref().unwrap()).into_iter().find(|part| part.0 == name)
    };
    assert_eq!(part_of(&inputs, "recurrent_state"), Some(("recurrent_state", 8, "inferred")));
    assert_eq!(part_of(&inputs, "kv_cache"), Some(("kv_cache", 64, "inferred")));
    let buffers = [buffer(BufferKind::KvCache, "CPU", 63, false), buffer(BufferKind::RecurrentState, "CPU", 9, false)];
    let reported = MemoryInputs { buffers: &buffers, ..inputs };
    assert_eq!(part_of(&reported, "recurrent_state"), Some(("recurrent_state", 9, "reported")));
    assert_eq!(part_of(&reported, "kv_cache"), Some(("kv_cache", 63, "reported")));
    let without = MemoryInputs { theory: Some(KvTheory { state_bytes: Some(0), ..theory }), ..inputs };
    assert_eq!(part_of(&without, "recurrent_state"), None);
}

#[test]
fn without_reports_the_file_and_theory_speak() {
    let lab = level();
    let weights = Some(Weights { bytes: 80 * MIB, is_mapped: Some(true) });
    let inputs = MemoryInputs { weights, theory: Some(theory(32_768, 2_048)), ..lab.inputs() };
    let report = MemoryReport::of(&inputs);
    assert_eq!(report.verdict.kind, VerdictKind::Preallocated);
    let expected = [("weights_mapped", 80, "sampled"), ("kv_cache", 64, "inferred"), ("unaccounted", 146, "inferred")];
    assert_eq!(parts(report.steady.as_ref().unwrap()), expected);
    let copied = Some(Weights { bytes: 80 * MIB, is_mapped: Some(false) });
    let report = MemoryReport::of(&MemoryInputs { weights: copied, ..inputs });
    assert_eq!(parts(&report.steady.unwrap())[0], ("weights_copied", 80, "inferred"));
    let unknown = Some(Weights { bytes: 80 * MIB, is_mapped: None });
    let report = MemoryReport::of(&MemoryInputs { weights: unknown, ..inputs });
    assert_eq!(parts(&report.steady.unwrap())[0].0, "kv_cache", "nobody knows where the weights are");
}

#[test]
fn buffers_that_are_more_than_is_resident_are_taken_off_by_name_and_the_rest_stays_whole() {
    let lab = level();
    let report =
        MemoryReport::of(&MemoryInputs { buffers: &[buffer(BufferKind::KvCache, "CPU", 500, false)], ..lab.inputs() });
    let steady = report.steady.as_ref().unwrap();
    // 200 MiB of 500 can be resident; 90 MiB of a file are the rest.
    let expected = [("kv_cache", 500, "reported"), ("not_resident", -300, "inferred"), ("unaccounted", 90, "inferred")];
    assert_eq!(parts(steady), expected);
    assert!(steady.is_overfull);
    assert_eq!(steady.parts.iter().map(|part| part.bytes).sum::<i64>(), steady.total_bytes as i64);
    // Fewer than the total, but more than is private: of compute buffers, pages are touched as they are needed.
    let buffers = [buffer(BufferKind::KvCache, "CPU", 150, false), buffer(BufferKind::Compute, "CPU", 70, false)];
    let report = MemoryReport::of(&MemoryInputs { buffers: &buffers, ..lab.inputs() });
    assert_eq!(report.steady_part(MemoryPart::NotResident), Some(-20 * MIB as i64));
    assert_eq!(report.steady_part(MemoryPart::Unaccounted), Some(90 * MIB as i64));
}

#[test]
fn weights_that_others_map_too_count_as_far_as_the_total_has_them() {
    let mut lab = level();
    // Half of the file's pages are another process's too: 45 MiB of 90 in PSS.
    let row = |index: u64| MemoryRow {
        pss_bytes: Some(245 * MIB),
        ..sample(500 * MS + index * 25 * MS, 200 * MIB, 90 * MIB)
    };
    lab.series = series_of((0..400).map(row));
    let buffers = [buffer(BufferKind::Weights, "CPU", 90, true), buffer(BufferKind::KvCache, "CPU", 200, false)];
    let report = MemoryReport::of(&MemoryInputs { buffers: &buffers, ..lab.inputs() });
    let expected = [("weights_mapped", 45, "sampled"), ("kv_cache", 200, "reported"), ("unaccounted", 0, "inferred")];
    assert_eq!(parts(report.steady.as_ref().unwrap()), expected);
}

#[test]
fn a_rest_below_zero_of_an_earlier_version_is_read_as_what_is_not_resident() {
    let lab = level();
    let mut report = MemoryReport::of(&lab.inputs());
    report.steady.as_mut().unwrap().parts[0].bytes = -7;
    assert_eq!(report.steady_part(MemoryPart::Unaccounted), Some(0));
    assert_eq!(report.steady_part(MemoryPart::NotResident), Some(-7));
}

#[test]
fn without_kinds_of_memory_the_total_is_the_room() {
    let mut lab = level();
    let row = |index: u64| MemoryRow {
        anon_bytes: None,
        file_bytes: None,
        ..sample(500 * MS + index * 25 * MS, 200 * MIB, 90 * MIB)
    };
    lab.series = series_of((0..400).map(row));
    let report =
        MemoryReport::of(&MemoryInputs { buffers: &[buffer(BufferKind::KvCache, "CPU", 500, false)], ..lab.inputs() });
    let expected = [("kv_cache", 500, "reported"), ("not_resident", -210, "inferred"), ("unaccounted", 0, "inferred")];
    assert_eq!(parts(report.steady.as_ref().unwrap()), expected);
}

#[test]
fn a_cache_that_grows_is_counted_up_to_the_moment() {
    let lab = Lab::new(600, 25 * MS, |tokens| 100.0 * MIB as f64 + 65_536.0 * tokens);
    let report = lab.report(65_536, 4_096);
    assert_eq!(report.verdict.kind, VerdictKind::KvGrowthExplained);
    let (steady, peak) = (report.steady.unwrap(), report.peak.unwrap());
    // The median sample lies in the middle: 300 tokens of 64 KiB are 18.75 MiB.
    assert_eq!(parts(&steady), [("kv_cache", 18, "inferred"), ("unaccounted", 100, "inferred")]);
    assert_eq!(peak.total_bytes, 100 * MIB + 600 * 65_536);
    assert_eq!(parts(&peak), [("kv_cache", 37, "inferred"), ("unaccounted", 100, "inferred")]);
}

#[test]
fn buffers_on_a_gpu_count_only_where_its_memory_was_sampled() {
    let buffers =
        [buffer(BufferKind::KvCache, "CUDA0", 64, false), buffer(BufferKind::Compute, "CUDA_Host", 10, false)];
    let mut lab = level();
    let report =
        MemoryReport::of(&MemoryInputs { buffers: &buffers, theory: Some(theory(32_768, 2_048)), ..lab.inputs() });
    assert_eq!(parts(&report.steady.unwrap()), [("compute", 10, "reported"), ("unaccounted", 280, "inferred")]);
    let row =
        |index: u64| MemoryRow { gpu_bytes: Some(70 * MIB), ..sample(500 * MS + index * 25 * MS, 200 * MIB, 90 * MIB) };
    lab.series = series_of((0..400).map(row));
    let report = MemoryReport::of(&MemoryInputs { buffers: &buffers, ..lab.inputs() });
    let steady = report.steady.unwrap();
    assert_eq!(steady.total_bytes, 360 * MIB);
    let expected = [("kv_cache", 64, "reported"), ("compute", 10, "reported"), ("unaccounted", 286, "inferred")];
    assert_eq!(parts(&steady), expected);
}

#[test]
fn a_share_that_was_seldom_sampled_gives_way_to_resident_memory() {
    let mut lab = level();
    let row = |pss_mib: u64, every: u64| {
        move |index: u64| {
            let row = sample(500 * MS + index * 25 * MS, 200 * MIB, 90 * MIB);
            MemoryRow { pss_bytes: index.is_multiple_of(every).then_some(pss_mib * MIB), ..row }
        }
    };
    // 240 samples between the first and the last token. Where most memory is shared, few samples of shares count too.
    for (pss_mib, every, kind, total_mib) in [
        (250, 20, MemoryKind::Pss, 250),
        (250, 40, MemoryKind::Rss, 290),
        (100, 40, MemoryKind::Pss, 100),
        (100, 400, MemoryKind::Rss, 290),
    ] {
        lab.series = series_of((0..400).map(row(pss_mib, every)));
        let steady = MemoryReport::of(&lab.inputs()).steady.unwrap();
        assert_eq!((steady.total_kind, steady.total_bytes), (kind, total_mib * MIB));
    }
}

#[test]
fn without_samples_there_is_no_split_and_no_zero() {
    let mut lab = level();
    lab.series = series_of([]);
    let report = MemoryReport::of(&MemoryInputs { peak_rss_bytes: Some(7), ..lab.inputs() });
    assert_eq!((report.samples, report.sample_gap_ns, report.steady, report.peak), (0, None, None, None));
    assert_eq!((report.peaks.rss_bytes, report.peaks.rss_kernel_bytes), (None, Some(7)));
    // Samples before the first token only: those of the generation count.
    lab.series = series_of([sample(BEGIN_NS - 400 * MS, MIB, 0)]);
    let report = MemoryReport::of(&lab.inputs());
    assert_eq!((report.steady.is_some(), report.peak.unwrap().total_bytes), (true, MIB));
}

#[test]
fn samples_from_before_the_model_was_loaded_tell_no_peak() {
    let mut lab = level();
    lab.series = series_of([sample(BEGIN_NS - 500 * MS, MIB, 0)]);
    let report = MemoryReport::of(&lab.inputs());
    assert_eq!((report.samples, report.steady, report.peak), (1, None, None));
    // A command without ggml has no generation: its largest sample is its peak.
    lab.phases.retain(|span| span.phase == Phase::WeightLoad);
    let report = MemoryReport::of(&lab.inputs());
    assert_eq!(report.peak.unwrap().total_bytes, MIB);
}
