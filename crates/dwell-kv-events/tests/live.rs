//! Batches over a real ZeroMQ socket, from the publishers of vLLM and SGLang.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod publisher;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use dwell_events::schema::Table;
use dwell_kv_events::{
    KvEventsRecorder, RawBatch, SubscribeError, SubscribeOptions, Subscription, SubscriptionSummary, TokenPolicy,
    TrackOptions, build_kv_blocks, decode_batch,
};
use dwell_store::{ClockAnchor, TableWriter};
use publisher::{Publisher, VERSIONS, skip};
use serde_json::json;

/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(30);

struct Listener {
    subscription: Subscription,
    batches: mpsc::Receiver<RawBatch>,
    heard: Vec<RawBatch>,
}

impl Listener {
    fn start(endpoint: &str, replay_endpoint: Option<&str>) -> Self {
        let options = SubscribeOptions {
            endpoint: endpoint.to_owned(),
            replay_endpoint: replay_endpoint.map(str::to_owned),
            topic: "kv".to_owned(),
            ..SubscribeOptions::default()
        };
        let (sender, batches) = mpsc::channel();
        let on_batch = move |batch| match sender.send(batch) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        Self { subscription: Subscription::start(options, on_batch).unwrap(), batches, heard: Vec::new() }
    }

    fn hear(&mut self, batches: usize) {
        while self.heard.len() < batches {
            self.heard.push(self.batches.recv_timeout(PATIENCE).unwrap());
        }
    }

    fn stop(mut self) -> (Vec<RawBatch>, SubscriptionSummary) {
        let summary = self.subscription.stop();
        self.heard.extend(self.batches.try_iter());
        (self.heard, summary)
    }
}

fn sequences(batches: &[RawBatch]) -> Vec<u64> {
    batches.iter().map(|batch| batch.sequence).collect()
}

fn ipc(dir: &Path, name: &str) -> String {
    format!("ipc://{}", dir.join(name).display())
}

/// A publisher whose batches reach the subscriber through a proxy that drops some.
fn behind_a_proxy(version: &str, dir: &Path, drop: &[u64]) -> Option<(Publisher, String, String)> {
    let mut publisher = Publisher::load(version)?;
    let (source, target, replay) = (ipc(dir, "pub"), ipc(dir, "proxy"), ipc(dir, "replay"));
    publisher.start(&source, Some(&replay));
    publisher.tell(&json!({"do": "proxy", "from": source, "to": target, "drop": drop}));
    Some((publisher, target, replay))
}

#[test]
fn every_publisher_is_heard_to_the_last_batch() {
    for version in VERSIONS {
        let Some(mut publisher) = Publisher::load(version) else {
            return skip("every_publisher_is_heard_to_the_last_batch", "the publishers are not in the cache");
        };
        let dir = tempfile::tempdir().unwrap();
        let (endpoint, replay) = (ipc(dir.path(), "pub"), ipc(dir.path(), "replay"));
        publisher.start(&endpoint, Some(&replay));
        let listener = Listener::start(&endpoint, Some(&replay));
        for block in 0..50 {
            publisher.publish_store(100.0 + block as f64, block, (block > 0).then(|| block - 1));
        }
        publisher.wait_for(50);
        let (batches, summary) = listener.stop();
        assert_eq!(sequences(&batches), (0..50).collect::<Vec<_>>(), "{version}: {summary:?}");
        assert_eq!((summary.lost_batches, summary.unseen_batches, summary.restarts), (0, 0, 0), "{version}");
        let times: Vec<u64> = batches.iter().map(|batch| decode_batch(&batch.payload).unwrap().unix_ns).collect();
        assert_eq!(times, (100..150).map(|second| second * 1_000_000_000).collect::<Vec<_>>(), "{version}");
        assert!(batches.iter().all(|batch| batch.received_ns.is_some() && batch.publisher == 0), "{version}");
    }
}

#[test]
fn dropped_batches_are_had_again_from_the_replay_endpoint() {
    for version in ["vllm-0.11.0", "vllm-0.32.0", "sglang-0.5.23"] {
        let dir = tempfile::tempdir().unwrap();
        let Some((mut publisher, endpoint, replay)) = behind_a_proxy(version, dir.path(), &[3, 4, 7]) else {
            return skip("dropped_batches_are_had_again", "the publishers are not in the cache");
        };
        let mut listener = Listener::start(&endpoint, Some(&replay));
        publisher.tell(&json!({"do": "subscribed"}));
        (0..10).for_each(|block| publisher.publish_store(1.0, block, None));
        listener.hear(10);
        let (batches, summary) = listener.stop();
        assert_eq!(sequences(&batches), (0..10).collect::<Vec<_>>(), "{version}");
        let replayed: Vec<u64> = batches.iter().filter(|batch| batch.is_replayed).map(|batch| batch.sequence).collect();
        assert_eq!(replayed, [3, 4, 7], "{version}");
        assert_eq!((summary.replayed_batches, summary.lost_batches, summary.failed_replays), (3, 0, 0), "{version}");
    }
}

#[test]
fn what_has_come_when_listening_ends_is_taken_too() {
    let dir = tempfile::tempdir().unwrap();
    let Some((mut publisher, endpoint, _)) = behind_a_proxy("vllm-0.32.0", dir.path(), &[]) else {
        return skip("what_has_come_when_listening_ends", "the publishers are not in the cache");
    };
    let (heard, first) = mpsc::channel();
    let (open, gate) = mpsc::channel::<()>();
    let on_batch = move |batch: RawBatch| {
        heard.send(batch.sequence).unwrap();
        if batch.sequence == 0 {
            gate.recv_timeout(PATIENCE).unwrap();
        }
        ControlFlow::Continue(())
    };
    let options = SubscribeOptions { endpoint, topic: "kv".to_owned(), ..SubscribeOptions::default() };
    let subscription = Subscription::start(options, on_batch).unwrap();
    publisher.tell(&json!({"do": "subscribed"}));
    (0..20).for_each(|block| publisher.publish_store(1.0, block, None));
    publisher.wait_for(20);
    assert_eq!(first.recv_timeout(PATIENCE), Ok(0));
    // The gate opens after the wish to end, or the test is less strict.
    let stopping = std::thread::spawn(move || subscription.stop());
    std::thread::sleep(Duration::from_millis(100));
    open.send(()).unwrap();
    let summary = stopping.join().unwrap();
    assert_eq!((summary.batches, summary.lost_batches, summary.replayed_batches), (20, 0, 0), "{summary:?}");
}

#[test]
fn what_nobody_can_bring_again_is_lost_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let Some((mut publisher, endpoint, replay)) = behind_a_proxy("vllm-0.32.0", dir.path(), &[1]) else {
        return skip("what_nobody_can_bring_again", "the publishers are not in the cache");
    };
    let mut listener = Listener::start(&endpoint, Some(&replay));
    publisher.tell(&json!({"do": "subscribed"}));
    publisher.publish_store(1.0, 0, None);
    publisher.publish_store(1.0, 1, None);
    publisher.wait_for(2);
    publisher.tell(&json!({"do": "skip"}));
    publisher.publish_store(1.0, 3, None);
    listener.hear(3);
    let (batches, summary) = listener.stop();
    assert_eq!(sequences(&batches), [0, 1, 3]);
    assert_eq!((summary.replayed_batches, summary.lost_batches), (1, 1));
}

#[test]
fn without_a_replay_endpoint_a_gap_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let Some((mut publisher, endpoint, _)) = behind_a_proxy("vllm-0.22.0", dir.path(), &[2, 3]) else {
        return skip("without_a_replay_endpoint", "the publishers are not in the cache");
    };
    let mut listener = Listener::start(&endpoint, None);
    publisher.tell(&json!({"do": "subscribed"}));
    (0..6).for_each(|block| publisher.publish_store(1.0, block, None));
    listener.hear(4);
    let (batches, summary) = listener.stop();
    assert_eq!(sequences(&batches), [0, 1, 4, 5]);
    assert_eq!((summary.lost_batches, summary.replayed_batches, summary.batches), (2, 0, 4));
}

#[test]
fn what_was_published_before_is_had_from_the_replay_endpoint_and_unseen_without() {
    let dir = tempfile::tempdir().unwrap();
    let Some((mut publisher, endpoint, replay)) = behind_a_proxy("vllm-0.32.0", dir.path(), &[]) else {
        return skip("what_was_published_before", "the publishers are not in the cache");
    };
    (0..5).for_each(|block| publisher.publish_store(1.0, block, None));
    publisher.wait_for(5);
    let mut late = Listener::start(&endpoint, None);
    publisher.tell(&json!({"do": "subscribed"}));
    publisher.publish_store(1.0, 5, None);
    late.hear(1);
    let (batches, summary) = late.stop();
    assert_eq!((sequences(&batches), summary.unseen_batches, summary.lost_batches), (vec![5], 5, 0));

    let (batches, summary) = Listener::start(&endpoint, Some(&replay)).stop();
    assert_eq!(sequences(&batches), [0, 1, 2, 3, 4, 5]);
    assert_eq!((summary.unseen_batches, summary.replayed_batches), (0, 6));
}

#[test]
fn a_publisher_that_begins_again_is_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let (endpoint, replay) = (ipc(dir.path(), "pub"), ipc(dir.path(), "replay"));
    let Some(mut first) = Publisher::load("vllm-0.32.0") else {
        return skip("a_publisher_that_begins_again", "the publishers are not in the cache");
    };
    first.start(&endpoint, Some(&replay));
    let mut listener = Listener::start(&endpoint, Some(&replay));
    (0..8).for_each(|block| first.publish_store(1.0, block, None));
    first.wait_for(8);
    // The first may have been sent before the subscription was known; the next then brings them.
    let mut more = 8;
    while listener.heard.is_empty() {
        first.publish_store(1.0, more, None);
        more += 1;
        listener.heard.extend(listener.batches.recv_timeout(Duration::from_millis(200)));
    }
    listener.hear(more as usize);
    drop(first);

    let mut second = Publisher::load("vllm-0.32.0").unwrap();
    second.start(&endpoint, Some(&replay));
    let before = listener.heard.len();
    let mut again = 0;
    while listener.heard.len() == before {
        second.publish_store(2.0, 100 + again, None);
        again += 1;
        listener.heard.extend(listener.batches.recv_timeout(Duration::from_millis(200)));
    }
    let (batches, summary) = listener.stop();
    let of_second: Vec<u64> = batches.iter().filter(|batch| batch.publisher == 1).map(|batch| batch.sequence).collect();
    assert_eq!(of_second, (0..again as u64).collect::<Vec<_>>(), "{summary:?}");
    assert_eq!((summary.restarts, summary.lost_batches), (1, 0));
}

#[test]
fn a_taker_that_wants_no_more_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let Some((mut publisher, endpoint, _)) = behind_a_proxy("sglang-0.5.15", dir.path(), &[]) else {
        return skip("a_taker_that_wants_no_more", "the publishers are not in the cache");
    };
    let options = SubscribeOptions { endpoint, ..SubscribeOptions::default() };
    let (sender, taken) = mpsc::channel();
    let on_batch = move |batch: RawBatch| {
        sender.send(batch.sequence).unwrap();
        ControlFlow::Break(())
    };
    let subscription = Subscription::start(options, on_batch).unwrap();
    publisher.tell(&json!({"do": "subscribed"}));
    (0..3).for_each(|block| publisher.publish_store(1.0, block, None));
    assert_eq!(taken.recv_timeout(PATIENCE).unwrap(), 0);
    assert_eq!(subscription.stop().batches, 1);
}

#[test]
fn where_nobody_publishes_there_is_an_error_and_no_stream() {
    let dir = tempfile::tempdir().unwrap();
    let raw = dir.path().join("kv_events.arrows");
    let refused = |endpoint: &str| {
        let options = SubscribeOptions {
            endpoint: endpoint.to_owned(),
            connect_timeout: Duration::from_millis(200),
            ..SubscribeOptions::default()
        };
        KvEventsRecorder::start(options, &raw).err().unwrap()
    };
    for endpoint in [ipc(dir.path(), "nobody"), "not an address".to_owned()] {
        let error = refused(&endpoint);
        assert!(matches!(&error, SubscribeError::NotConnected { endpoint: told, .. } if *told == endpoint), "{error}");
        assert!(!raw.exists());
    }
}

#[test]
fn what_was_heard_becomes_lives() {
    let dir = tempfile::tempdir().unwrap();
    let Some((mut publisher, endpoint, replay)) = behind_a_proxy("vllm-0.32.0", dir.path(), &[1]) else {
        return skip("what_was_heard_becomes_lives", "the publishers are not in the cache");
    };
    let raw = dir.path().join("kv_events.arrows");
    let options = SubscribeOptions {
        endpoint,
        replay_endpoint: Some(replay),
        topic: "kv".to_owned(),
        ..SubscribeOptions::default()
    };
    let recorder = KvEventsRecorder::start(options, &raw).unwrap();
    publisher.tell(&json!({"do": "subscribed"}));
    publisher.publish_store(100.0, 1, None);
    publisher.publish_store(101.0, 2, Some(1));
    publisher.publish_store(102.0, 3, Some(1));
    publisher.publish_removal(104.0, 1);
    publisher.wait_for(4);
    recorder.flush().unwrap();
    assert_eq!(recorder.stop().unwrap().batches, 4);

    let clock = ClockAnchor { monotonic_ns: 7, unix_ns: 100_000_000_000 };
    let options = TrackOptions { clock, kv_bytes_per_token: Some(10), tokens: TokenPolicy::Keep };
    let mut table = TableWriter::create(dir.path(), Table::KvBlockLifecycle).unwrap();
    let report = build_kv_blocks(&raw, &options, Vec::new(), &mut table).unwrap();
    assert_eq!(table.finish().unwrap(), 3);
    assert_eq!((report.batches, dwell_kv_events::losses(&report).len()), (4, 0));
    assert!(report.replayed_batches >= 1);
    assert_eq!((report.blocks.stored, report.blocks.reused_blocks, report.blocks.alive), (3, 1, 2));
    assert!((report.blocks.lifetime_p50_s.unwrap() - 4.0).abs() < 0.02);
}
