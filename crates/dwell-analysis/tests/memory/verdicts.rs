use dwell_analysis::Basis;
use dwell_analysis::memory::{MemoryInputs, MemoryPart, MemoryReport, Verdict, VerdictKind};
use dwell_events::RequestSpan;
use dwell_events::kv_accesses::KvAccesses;
use dwell_events::schema::tokens::TokenRow;
use dwell_events::server::{BufferKind, ReportedBuffer, RequestTimings};

use crate::lab::{BEGIN_NS, Lab, MIB, MS, TOKEN_NS, assert_near, noise, theory, times_of, token};

const BASE: f64 = 100.0 * MIB as f64;
const PER_TOKEN: u64 = 32_768;

fn line(slope: f64) -> Lab {
    Lab::new(600, 25 * MS, move |tokens| BASE + slope * tokens + 5_000.0 * noise(tokens))
}

fn verdict(slope: f64, context_length: u64) -> Verdict {
    line(slope).report(PER_TOKEN, context_length).verdict
}

#[test]
fn growth_as_in_theory_is_explained() {
    let found = verdict(PER_TOKEN as f64, 4_096);
    assert_eq!(found.kind, VerdictKind::KvGrowthExplained, "{found:?}");
    assert_eq!((found.theory_bytes_per_token, found.beyond_theory_bytes_per_token), (Some(32_768.0), None));
    assert!(found.sentence.contains("the KV cache takes 32768 bytes"), "{}", found.sentence);
    assert_eq!(verdict(1.019 * PER_TOKEN as f64, 4_096).kind, VerdictKind::KvGrowthExplained, "within 2 %");
    assert_eq!(verdict(0.981 * PER_TOKEN as f64, 4_096).kind, VerdictKind::KvGrowthExplained, "within 2 %");
}

#[test]
fn the_growth_beside_a_preallocated_cache_is_stated_as_it_was_measured() {
    let sentence = |slope: f64| {
        let lab = line(slope);
        let inputs = MemoryInputs { theory: Some(theory(PER_TOKEN, 4_096)), ..lab.inputs() };
        let found = MemoryReport::of(&MemoryInputs { buffers: &[kv_buffer(64 * MIB)], ..inputs }).verdict;
        assert_eq!(found.kind, VerdictKind::Preallocated, "{found:?}");
        (found.sentence, found.measured_bytes_per_token.unwrap())
    };
    let (grown, measured) = sentence(600.0);
    let stated =
        format!("memory grew only {measured:.0} bytes per token, the KV cache takes 32768 bytes, and the runtime");
    assert!(grown.starts_with(&stated) && !grown.contains("did not grow"), "{grown}");
    let (shrunk, _) = sentence(-600.0);
    assert!(shrunk.starts_with("memory did not grow with tokens and the runtime"), "{shrunk}");
}

#[test]
fn a_leak_beside_the_cache_is_named_with_its_size() {
    let found = verdict(1.1 * PER_TOKEN as f64, 4_096);
    assert_eq!(found.kind, VerdictKind::UnexplainedGrowth);
    assert_near(found.beyond_theory_bytes_per_token.unwrap(), 0.1 * PER_TOKEN as f64, 0.01);
}

#[test]
fn a_large_program_that_settles_is_no_leak() {
    // 2 KiB per token beyond a small cache: a leak in 100 MiB, and a thousandth of 2 GiB that interpreters take once.
    let report = |base: f64, buffers: &[ReportedBuffer]| {
        let lab = Lab::new(600, 25 * MS, move |tokens| base + 3_072.0 * tokens);
        let inputs = MemoryInputs { theory: Some(theory(1_024, 2_048)), ..lab.inputs() };
        MemoryReport::of(&MemoryInputs { buffers, ..inputs }).verdict
    };
    assert_eq!(report(BASE, &[]).kind, VerdictKind::UnexplainedGrowth);
    let settling = report(2048.0 * MIB as f64, &[]);
    assert_eq!(settling.kind, VerdictKind::BelowResolution, "{settling:?}");
    let pool = [kv_buffer(1024 * MIB)];
    let preallocated = report(3072.0 * MIB as f64, &pool);
    assert_eq!(preallocated.kind, VerdictKind::Preallocated, "{preallocated:?}");
    assert!(preallocated.sentence.ends_with("the KV cache is preallocated, and something else grew"));
    assert_eq!(
        report(1100.0 * MIB as f64, &pool).kind,
        VerdictKind::UnexplainedGrowth,
        "the pool is no room to settle in"
    );
}

#[test]
fn growth_that_ends_is_no_leak() {
    // 6 MiB more, most of them with the first tokens.
    let settles = |tokens: f64| 2e9 + 6.0 * MIB as f64 * (1.0 - (-tokens / 150.0).exp());
    let lab = Lab::new(600, 25 * MS, settles);
    let inputs = MemoryInputs { theory: Some(theory(1_024, 2_048)), ..lab.inputs() };
    let verdict = MemoryReport::of(&inputs).verdict;
    assert_eq!(verdict.kind, VerdictKind::BelowResolution, "{verdict:?}");
    let pool = [kv_buffer(1024 * MIB)];
    assert_eq!(MemoryReport::of(&MemoryInputs { buffers: &pool, ..inputs }).verdict.kind, VerdictKind::Preallocated);
    let lasting = Lab::new(600, 25 * MS, |tokens| 2e9 + 10_000.0 * tokens);
    let inputs = MemoryInputs { buffers: &pool, theory: Some(theory(1_024, 2_048)), ..lasting.inputs() };
    assert_eq!(MemoryReport::of(&inputs).verdict.kind, VerdictKind::UnexplainedGrowth);
}

#[test]
fn tokens_of_prompts_between_answers_are_no_leak() {
    // Every 100th token is the first of an answer, before which a prompt of 100 tokens was computed.
    let memory = |tokens: f64| BASE + PER_TOKEN as f64 * (tokens + 100.0 * (tokens / 100.0).floor());
    let lab = Lab::new(600, 25 * MS, memory);
    let request = |number: u64| RequestSpan {
        first_token_ns: Some(BEGIN_NS + 100 * number * TOKEN_NS),
        timings: RequestTimings { prompt_tokens: Some(100), ..RequestTimings::default() },
        ..RequestSpan::default()
    };
    let requests: Vec<RequestSpan> = (0..6).map(request).collect();
    let inputs = MemoryInputs { theory: Some(theory(PER_TOKEN, 4_096)), requests: &requests, ..lab.inputs() };
    let verdict = MemoryReport::of(&inputs).verdict;
    assert_eq!(verdict.kind, VerdictKind::KvGrowthExplained, "{verdict:?}");
}

#[test]
fn no_growth_is_preallocation_where_memory_had_room_for_the_cache_or_a_buffer_is_reported() {
    // 32 KiB × 2,048 is 64 MiB, and there are 100; 32 KiB × 4,096 is 128 MiB.
    assert_eq!(verdict(0.0, 2_048).kind, VerdictKind::Preallocated);
    assert_eq!(verdict(0.0, 4_096).kind, VerdictKind::LessThanTheory);
    assert_eq!(verdict(0.5 * PER_TOKEN as f64, 2_048).kind, VerdictKind::LessThanTheory);
    let lab = line(0.0);
    let inputs = MemoryInputs { theory: Some(theory(PER_TOKEN, 4_096)), ..lab.inputs() };
    let report = MemoryReport::of(&MemoryInputs { buffers: &[kv_buffer(128 * MIB)], ..inputs });
    assert_eq!(report.verdict.kind, VerdictKind::Preallocated);
    assert_eq!((report.kv.allocated_bytes, report.kv.allocated_basis), (Some(128 * MIB), Some(Basis::Reported)));
    // 600 tokens of 4,096.
    assert_near(report.kv.used_share.unwrap(), 600.0 / 4_096.0, 1e-9);
    assert_eq!((report.kv.used_basis, report.kv.efficiency), (Some(Basis::Inferred), None));
}

#[test]
fn growth_below_theory_is_something_else_where_the_cache_is_traced() {
    let lab = line(0.2 * PER_TOKEN as f64);
    let inputs = MemoryInputs { theory: Some(theory(PER_TOKEN, 4_096)), ..lab.inputs() };
    let stored = KvAccesses { stored_bytes: 600 * PER_TOKEN, stored_tokens: 600, ..KvAccesses::default() };
    let traced = MemoryReport::of(&MemoryInputs { traced_kv: Some(stored), ..inputs }).verdict;
    assert_eq!(traced.kind, VerdictKind::Preallocated, "{}", traced.sentence);
    assert!(traced.sentence.contains("a buffer of 128 MiB"), "{}", traced.sentence);
    assert_eq!(MemoryReport::of(&inputs).verdict.kind, VerdictKind::LessThanTheory);
}

#[test]
fn weights_that_were_copied_are_no_room_for_the_cache() {
    let lab = line(0.0);
    let copied = ReportedBuffer { kind: BufferKind::Weights, device: "CPU".into(), bytes: 50 * MIB, is_mapped: false };
    let inputs = MemoryInputs { theory: Some(theory(PER_TOKEN, 2_048)), ..lab.inputs() };
    let verdict_of = |buffers: &[ReportedBuffer]| MemoryReport::of(&MemoryInputs { buffers, ..inputs }).verdict.kind;
    assert_eq!(verdict_of(&[]), VerdictKind::Preallocated);
    assert_eq!(verdict_of(std::slice::from_ref(&copied)), VerdictKind::LessThanTheory);
    assert_eq!(verdict_of(&[ReportedBuffer { is_mapped: true, ..copied }]), VerdictKind::Preallocated);
}

#[test]
fn growth_in_blocks_is_explained_too() {
    let blocks = Lab::new(2_000, 20 * MS, |tokens| BASE + 256.0 * PER_TOKEN as f64 * (tokens / 256.0).floor());
    let report = blocks.report(PER_TOKEN, 4_096);
    assert_eq!(report.verdict.kind, VerdictKind::KvGrowthExplained, "{:?}", report.growth);
    assert_near(report.kv.measured_bytes_per_token.unwrap(), PER_TOKEN as f64, 0.02);
    assert_eq!(report.kv.measured_basis, Some(Basis::Sampled));
    assert_near(report.kv.efficiency.unwrap(), 1.0, 0.02);
}

#[test]
fn a_reported_buffer_says_where_the_cache_is_though_growth_cannot_be_told() {
    let verdict_of = |lab: &Lab, buffers: &[ReportedBuffer]| {
        let inputs = MemoryInputs { theory: Some(theory(PER_TOKEN, 512)), ..lab.inputs() };
        MemoryReport::of(&MemoryInputs { buffers, ..inputs }).verdict
    };
    let few_tokens = Lab::new(6, 5 * MS, |_| BASE);
    let noisy = Lab::new(600, 25 * MS, |tokens| BASE + 30e6 * noise(tokens));
    let once = Lab::new(400, 20 * MS, |tokens| BASE + if tokens > 200.0 { 256.0 * PER_TOKEN as f64 } else { 0.0 });
    for (lab, kind, why) in [
        (few_tokens, VerdictKind::TooFewSamples, "there are too few samples between the first and the last token"),
        (noisy, VerdictKind::BelowResolution, "cannot be told from the noise"),
        (once, VerdictKind::TooFewSamples, "memory grew once, by 8.00 MiB"),
    ] {
        assert_eq!(verdict_of(&lab, &[]).kind, kind);
        let told = verdict_of(&lab, &[kv_buffer(16 * MIB)]);
        assert_eq!(told.kind, VerdictKind::Preallocated, "{told:?}");
        let begin = "the runtime has a buffer of 16.0 MiB: the KV cache is preallocated; ";
        assert!(told.sentence.starts_with(begin) && told.sentence.contains(why), "{}", told.sentence);
    }
}

#[test]
fn one_block_is_not_enough_to_tell() {
    let once = Lab::new(400, 20 * MS, |tokens| BASE + if tokens > 200.0 { 256.0 * PER_TOKEN as f64 } else { 0.0 });
    assert_eq!(once.report(PER_TOKEN, 4_096).verdict.kind, VerdictKind::TooFewSamples);
    // A small allocation is none of the cache's.
    let small = Lab::new(400, 20 * MS, |tokens| BASE + if tokens > 200.0 { 100_000.0 } else { 0.0 });
    assert_eq!(small.report(PER_TOKEN, 2_048).verdict.kind, VerdictKind::Preallocated);
}

#[test]
fn what_pages_and_noise_hide_is_not_judged() {
    // 64 bytes × 600 tokens are ten pages.
    assert_eq!(line(64.0).report(64, 4_096).verdict.kind, VerdictKind::BelowResolution);
    let noisy = Lab::new(600, 25 * MS, |tokens| BASE + 30e6 * noise(tokens));
    assert_eq!(noisy.report(PER_TOKEN, 2_048).verdict.kind, VerdictKind::BelowResolution);
    // Far more growth than theory is seen however little theory asks for.
    assert_eq!(line(20_000.0).report(64, 4_096).verdict.kind, VerdictKind::UnexplainedGrowth);
}

#[test]
fn without_samples_or_theory_there_is_no_judgement() {
    let lab = Lab::new(600, 5_000 * MS, |_| BASE);
    assert_eq!(lab.report(PER_TOKEN, 2_048).verdict.kind, VerdictKind::TooFewSamples);
    let report = MemoryReport::of(&line(PER_TOKEN as f64).inputs());
    assert_eq!(report.verdict.kind, VerdictKind::NoTheory);
    assert_near(report.verdict.measured_bytes_per_token.unwrap(), PER_TOKEN as f64, 0.01);
    assert_eq!((report.kv.efficiency, report.verdict.theory_bytes_per_token), (None, None));
}

#[test]
fn traced_cells_say_exactly_what_a_token_takes() {
    let lab = line(0.0);
    let cells =
        |index: u64| TokenRow { kv_bytes: Some((20 + index) * PER_TOKEN), ..token(index, BEGIN_NS + index * TOKEN_NS) };
    let tokens = times_of((0..600).map(cells));
    let inputs = MemoryInputs { theory: Some(theory(PER_TOKEN, 2_048)), tokens: &tokens, ..lab.inputs() };
    let stored = KvAccesses { stored_bytes: 640 * PER_TOKEN, stored_tokens: 640, ..KvAccesses::default() };
    let kv = MemoryReport::of(&MemoryInputs { traced_kv: Some(stored), ..inputs }).kv;
    assert_eq!((kv.measured_bytes_per_token, kv.measured_basis), (Some(32_768.0), Some(Basis::Exact)));
    assert_eq!((kv.efficiency, kv.used_bytes), (Some(1.0), Some(619 * PER_TOKEN)));
    assert_near(kv.used_share.unwrap(), 619.0 / 2_048.0, 1e-12);
    assert_eq!(MemoryReport::of(&inputs).kv.measured_bytes_per_token, None, "what is not traced is not believed");
}

#[test]
fn what_a_token_takes_does_not_depend_on_what_is_removed_or_added_besides() {
    // A second prompt of 100 tokens comes between, and half of the cells are removed.
    let kv_tokens = |index: u64| if index < 300 { 20 + index } else { 200 + (index - 300) };
    let row =
        |index: u64| TokenRow { kv_bytes: Some(kv_tokens(index) * 1_000), ..token(index, BEGIN_NS + index * 1_000) };
    let (lab, tokens) = (line(0.0), times_of((0..600).map(row)));
    let stored = KvAccesses { stored_bytes: 720_000, stored_tokens: 720, ..KvAccesses::default() };
    let traced_kv = Some(stored);
    let inputs = MemoryInputs { theory: Some(theory(1_000, 4_096)), tokens: &tokens, traced_kv, ..lab.inputs() };
    let kv = MemoryReport::of(&inputs).kv;
    assert_eq!((kv.measured_bytes_per_token, kv.efficiency), (Some(1_000.0), Some(1.0)));
}

#[test]
fn a_traced_cache_keeps_its_size_though_memory_grows_for_another_reason() {
    let lab = line(50_000.0);
    let inputs = MemoryInputs { theory: Some(theory(1_000, 4_096)), ..lab.inputs() };
    let traced = MemoryInputs { traced_kv: Some(KvAccesses::default()), ..inputs };
    let kv_cache = |inputs: &MemoryInputs<'_>| {
        let report = MemoryReport::of(inputs);
        assert_eq!(report.verdict.kind, VerdictKind::UnexplainedGrowth);
        let parts = report.steady.unwrap().parts;
        parts.iter().find(|part| part.part == MemoryPart::KvCache).map(|part| part.bytes)
    };
    assert_eq!(kv_cache(&traced), Some(4_096_000));
    assert!(kv_cache(&inputs) < Some(4_096_000));
}

fn kv_buffer(bytes: u64) -> ReportedBuffer {
    ReportedBuffer { kind: BufferKind::KvCache, device: "CPU".to_owned(), bytes, is_mapped: false }
}
