use dwell_analysis::memory::{MemoryInputs, MemoryReport, ModelStart, RunTimings};
use dwell_events::RequestSpan;
use dwell_events::schema::tokens::TokenRow;
use dwell_events::server::{RequestTimings, StartKind};

use crate::lab::{BEGIN_NS, Lab, MS, assert_near, times_of, token};

fn timings(inputs: &MemoryInputs<'_>) -> RunTimings {
    MemoryReport::of(inputs).timings
}

#[test]
fn loading_is_told_from_generating_and_intervals_have_their_tail() {
    let mut lab = Lab::new(1, MS, |_| 0.0);
    // 100 intervals of 10 ms, then two of 90 ms.
    let at = |index: u64| BEGIN_NS + 10 * MS * index + 80 * MS * index.saturating_sub(100);
    let prompt = (0..5).map(|index| TokenRow { is_generated: false, ..token(index, BEGIN_NS - 100 * MS) });
    lab.tokens = times_of(prompt.chain((0..=102).map(|index| token(index, at(index)))));
    let found = timings(&lab.inputs());
    assert_eq!((found.load_ns, found.generation_ns), (Some(500 * MS), Some(400 * MS)));
    // The generation begins 400 ms before the first token.
    assert_eq!(found.time_to_first_token_ns, Some(400e6));
    assert_eq!((found.inter_token_p50_ns, found.inter_token_p99_ns), (Some(10e6), Some(90e6)));
    assert_near(found.client.prompt_tokens_per_s.unwrap(), 5.0 / 0.4, 1e-9);
    assert_near(found.client.decode_tokens_per_s.unwrap(), 102.0 / 1.18, 1e-9);
    assert_eq!((found.server.decode_tokens_per_s, found.requests), (None, 0));
}

#[test]
fn what_the_server_says_stands_beside_what_arrived() {
    let mut lab = Lab::new(1, MS, |_| 0.0);
    let answer = |begin_ns: u64| (0..11).map(move |index| token(index, begin_ns + index * 20 * MS));
    lab.tokens = times_of(answer(BEGIN_NS).chain(answer(BEGIN_NS + 1_000 * MS)));
    let timings_told = RequestTimings {
        prompt_tokens: Some(120),
        cached_tokens: Some(20),
        generated_tokens: Some(11),
        prompt_ns: Some(50 * MS),
        decode_ns: Some(100 * MS),
        ..RequestTimings::default()
    };
    let request = |begin_ns: u64, wait_ns: u64| RequestSpan {
        sequence: 0,
        begin_ns: begin_ns - wait_ns,
        first_token_ns: Some(begin_ns),
        end_ns: Some(begin_ns + 200 * MS),
        timings: timings_told,
        ..RequestSpan::default()
    };
    let unanswered = RequestSpan { begin_ns: BEGIN_NS + 5_000 * MS, ..RequestSpan::default() };
    let requests = [request(BEGIN_NS, 100 * MS), request(BEGIN_NS + 1_000 * MS, 300 * MS), unanswered];
    let found = timings(&MemoryInputs { requests: &requests, ..lab.inputs() });
    assert_eq!((found.requests, found.time_to_first_token_ns), (2, Some(200e6)));
    assert_near(found.client.prompt_tokens_per_s.unwrap(), 200.0 / 0.4, 1e-9);
    assert_near(found.client.decode_tokens_per_s.unwrap(), 50.0, 1e-9);
    assert_near(found.server.prompt_tokens_per_s.unwrap(), 2_000.0, 1e-9);
    assert_near(found.server.decode_tokens_per_s.unwrap(), 100.0, 1e-9);
    // Between the answers lies no interval.
    assert_eq!(found.inter_token_p99_ns, Some(20e6));
}

#[test]
fn cold_and_warm_starts_are_told_apart() {
    let name = |was_loaded, model_cached_share| {
        ModelStart { asked: StartKind::AsFound, was_loaded, model_cached_share }.name()
    };
    assert_eq!(name(Some(true), Some(0.0)), Some("warm"));
    assert_eq!(name(Some(false), Some(1.0)), Some("page_cache"));
    assert_eq!(name(Some(false), Some(0.01)), Some("cold"));
    assert_eq!(name(None, Some(0.9)), Some("page_cache"));
    assert_eq!(name(Some(false), None), None, "nobody looked at the file");
}

#[test]
fn the_report_survives_json() {
    let report = Lab::new(600, 25 * MS, |tokens| 1e8 + 40_000.0 * tokens).report(32_768, 2_048);
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<MemoryReport>(&text).unwrap(), report);
}
