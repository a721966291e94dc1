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

/// Listens for a moment; none if there was no connection.
fn listened_to(publishing: Publishing) -> Option<SubscriptionSummary> {
    let subscription = match Subscription::start(options(publishing), |_| ControlFlow::Continue(())) {
        Ok(subscription) => subscription,
        Err(SubscribeError::NotConnected { .. }) => return None,
        Err(error) => panic!("{error}"),
    };
    std::thread::sleep(LISTENED);
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

#[test]
fn no_publisher_takes_more_memory_than_a_few_batches_or_holds_up_the_end() {
    for publishing in Publishing::HOSTILE {
        let summary = listened_to(publishing);
        assert!(peak_bytes() <= MEMORY_MAX_BYTES, "{publishing:?}: {} MiB", peak_bytes() >> 20);
        let never_connects =
            matches!(publishing, Publishing::SlowGreeting | Publishing::NoGreeting | Publishing::ClaimedCommand);
        assert_eq!(summary.is_none(), never_connects, "{publishing:?}: {summary:?}");
        let counted = summary.is_some_and(|summary| summary.malformed_messages > 0);
        let is_well_formed = never_connects
            || matches!(publishing, Publishing::LargeBatches | Publishing::CutOff | Publishing::EndlessBatches);
        assert_eq!(counted, !is_well_formed, "{publishing:?}");
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
