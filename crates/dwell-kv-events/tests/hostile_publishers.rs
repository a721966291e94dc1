//! Whatever a publisher sends, receiving takes bounded memory and ends when it is told to.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/hostile_publisher.rs"]
mod hostile_publisher;

use std::ops::ControlFlow;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use dwell_kv_events::{SubscribeError, SubscribeOptions, Subscription, SubscriptionSummary, decode_batch};
use hostile_publisher::{Publishing, start_publisher};

/// What this test program may take for a few batches of 16 MiB.
const MEMORY_MAX_BYTES: u64 = 192 << 20;
/// How long each publisher is listened to.
const LISTENED: Duration = Duration::from_millis(700);

fn options(publishing: Publishing) -> SubscribeOptions {
    SubscribeOptions {
        endpoint: start_publisher(publishing).unwrap(),
        connect_timeout: Duration::from_secs(1),
        ..SubscribeOptions::default()
    }
}

/// Listens for this long; none if there was no connection.
fn listened_to(publishing: Publishing, listened: Duration) -> Option<SubscriptionSummary> {
    let subscription = match Subscription::start(options(publishing), |_| ControlFlow::Continue(())) {
        Ok(subscription) => subscription,
        Err(SubscribeError::NotConnected { .. }) => return None,
        Err(error) => panic!("{error}"),
    };
    std::thread::sleep(listened);
    let begin = Instant::now();
    let summary = subscription.stop();
    assert!(begin.elapsed() < Duration::from_secs(20), "{publishing:?} held up the end");
    Some(summary)
}

fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

fn never_connects(publishing: Publishing) -> bool {
    matches!(publishing, Publishing::SlowGreeting | Publishing::NoGreeting | Publishing::ClaimedCommand)
}

/// Whether none of its messages is refused.
fn is_well_formed(publishing: Publishing) -> bool {
    let sends_batches =
        matches!(publishing, Publishing::LargeBatches | Publishing::CutOff | Publishing::EndlessBatches);
    sends_batches || never_connects(publishing)
}

#[test]
fn no_publisher_takes_more_memory_than_a_few_batches_or_holds_up_the_end() {
    for publishing in Publishing::HOSTILE {
        let is_refused = |summary: &Option<SubscriptionSummary>| {
            summary.as_ref().is_some_and(|summary| summary.malformed_messages > 0)
        };
        let mut summary = listened_to(publishing, LISTENED);
        // On a busy machine it may not have got to it.
        if !is_refused(&summary) && !is_well_formed(publishing) {
            summary = listened_to(publishing, 10 * LISTENED);
        }
        assert!(peak_bytes() <= MEMORY_MAX_BYTES, "{publishing:?}: {} MiB", peak_bytes() >> 20);
        assert_eq!(summary.is_none(), never_connects(publishing), "{publishing:?}: {summary:?}");
        assert_eq!(is_refused(&summary), !is_well_formed(publishing), "{publishing:?}");
    }
}

#[test]
fn a_replay_without_end_does_not_hold_up_the_end() {
    let options = SubscribeOptions {
        replay_endpoint: Some(start_publisher(Publishing::EndlessBatches).unwrap()),
        replay_timeout: Duration::from_secs(120),
        ..options(Publishing::Good { batches: 0, pause: Duration::ZERO })
    };
    let subscription = Subscription::start(options, |_| ControlFlow::Continue(())).unwrap();
    let begin = Instant::now();
    let summary = subscription.stop();
    assert!(summary.failed_replays == 1 && summary.replayed_batches > 0, "{summary:?}");
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
}

#[test]
fn batches_of_the_stand_in_are_batches() {
    let publishing = Publishing::Good { batches: 5, pause: Duration::from_millis(1) };
    let (sender, batches) = mpsc::channel();
    let on_batch = move |batch| {
        sender.send(batch).unwrap();
        ControlFlow::Continue(())
    };
    let subscription = Subscription::start(options(publishing), on_batch).unwrap();
    for number in 0..5 {
        let batch = batches.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!((batch.sequence, &*batch.topic), (number, &b"kv"[..]));
        assert_eq!(decode_batch(&batch.payload).unwrap().events.len(), 1);
    }
    assert_eq!(subscription.stop().malformed_messages, 0);
}
