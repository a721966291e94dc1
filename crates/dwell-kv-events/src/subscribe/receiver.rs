//! The loop of the receiving thread.

use std::io::{self, ErrorKind};
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use dwell_clock::monotonic_ns;
use tokio::sync::oneshot;

use super::replay::{Replay, Reply};
use super::{SubscribeOptions, SubscriptionSummary};
use crate::RawBatch;
use crate::limits::{PAYLOAD_MAX_BYTES, TOPIC_MAX_BYTES};
use crate::sequence::{Arrival, Sequences};
use crate::zmtp::{Connection, Incoming, Role};

/// After a replay in vain none is tried for a while, so that a replay endpoint that is gone does not hold up the rest.
const REPLAY_PAUSE: Duration = Duration::from_secs(10);
/// After the connection broke, and between attempts to connect again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);

/// At the end: the pause after which nothing more is expected, and how long a server that never pauses is listened to.
const LAST_BATCHES_PAUSE: Duration = Duration::from_millis(50);
const LAST_BATCHES_WITHIN: Duration = Duration::from_secs(1);
/// Limit for the last batches and the final replay together. The user who presses Ctrl-C waits for both.
const END_WITHIN: Duration = Duration::from_millis(1500);

/// A connection to the publisher that has subscribed.
pub(super) async fn connected(options: &SubscribeOptions) -> io::Result<Connection> {
    let connect = async {
        let mut connection = Connection::open(&options.endpoint, Role::Sub).await?;
        connection.subscribe(&options.topic).await?;
        Ok(connection)
    };
    tokio::time::timeout(options.connect_timeout, connect).await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

/// Receives from one endpoint.
pub(super) struct Receiver<F> {
    options: SubscribeOptions,
    /// None while it is broken.
    connection: Option<Connection>,
    on_batch: F,
    sequences: Sequences,
    summary: SubscriptionSummary,
    no_replay_before: Option<Instant>,
}

impl<F: FnMut(RawBatch) -> ControlFlow<()>> Receiver<F> {
    pub(super) fn new(options: SubscribeOptions, connection: Connection, on_batch: F) -> Self {
        Self {
            options,
            connection: Some(connection),
            on_batch,
            sequences: Sequences::default(),
            summary: SubscriptionSummary::default(),
            no_replay_before: None,
        }
    }

    /// Receives until it is told to stop, or whoever takes the batches wants no more.
    pub(super) async fn run(mut self, mut stopped: oneshot::Receiver<()>) -> SubscriptionSummary {
        loop {
            let incoming = tokio::select! {
                biased;
                _ = &mut stopped => break,
                incoming = self.receive() => incoming,
            };
            if self.take(incoming).await.is_break() {
                return self.summary;
            }
        }
        let begin = Instant::now();
        if self.take_arrived().await.is_break() {
            return self.summary;
        }
        // What is still under way, or was dropped at the end. How much there is, only the publisher knows.
        let within = END_WITHIN.saturating_sub(begin.elapsed()).min(self.options.replay_timeout);
        let _ = self.replay(self.sequences.next()..u64::MAX, within).await;
        self.summary
    }

    /// Takes what has come and was not read yet, until nothing comes for a moment.
    async fn take_arrived(&mut self) -> ControlFlow<()> {
        let deadline = tokio::time::Instant::now() + LAST_BATCHES_WITHIN;
        while tokio::time::Instant::now() < deadline {
            match tokio::time::timeout(LAST_BATCHES_PAUSE, self.receive()).await {
                Ok(incoming) => self.take(incoming).await?,
                Err(_) => break,
            }
        }
        ControlFlow::Continue(())
    }

    /// Waits for what the publisher sends next, and connects again if the connection is broken.
    async fn receive(&mut self) -> Incoming {
        loop {
            match &mut self.connection {
                Some(connection) => match connection.receive().await {
                    Ok(incoming) => return incoming,
                    Err(error) => {
                        self.summary.malformed_messages += u64::from(error.kind() == ErrorKind::InvalidData);
                        self.connection = None;
                    }
                },
                None => {
                    tokio::time::sleep(RECONNECT_PAUSE).await;
                    self.connection = connected(&self.options).await.ok();
                }
            }
        }
    }

    async fn take(&mut self, incoming: Incoming) -> ControlFlow<()> {
        let received_ns = monotonic_ns();
        let batch = match incoming {
            Incoming::Message(frames) => batch_of(frames),
            Incoming::Oversized => None,
            Incoming::Command(_) => return ControlFlow::Continue(()),
        };
        let Some(mut batch) = batch else {
            self.summary.malformed_messages += 1;
            return ControlFlow::Continue(());
        };
        batch.received_ns = Some(received_ns);
        match self.sequences.arrive(batch.sequence) {
            Arrival::Duplicate => {
                self.summary.duplicate_batches += 1;
                ControlFlow::Continue(())
            }
            Arrival::New { missing, is_history, has_restarted } => {
                self.summary.restarts += u64::from(has_restarted);
                if !missing.is_empty() {
                    let wanted = missing.end - missing.start;
                    let brought = self.replay(missing, self.options.replay_timeout).await?;
                    let lost = wanted.saturating_sub(brought);
                    let count =
                        if is_history { &mut self.summary.unseen_batches } else { &mut self.summary.lost_batches };
                    // A damaged number can be any.
                    *count = count.saturating_add(lost);
                }
                self.hand_on(batch)
            }
        }
    }

    /// Asks for batches again and hands them on; how many that were.
    async fn replay(&mut self, missing: Range<u64>, within: Duration) -> ControlFlow<(), u64> {
        let is_paused = self.no_replay_before.is_some_and(|moment| Instant::now() < moment);
        let Some(endpoint) = self.options.replay_endpoint.clone().filter(|_| !is_paused) else {
            return ControlFlow::Continue(0);
        };
        let mut brought = 0;
        let deadline = tokio::time::Instant::now() + within;
        let asked = tokio::time::timeout_at(deadline, Replay::ask(&endpoint, missing.start)).await;
        let mut replay = match asked {
            Ok(Ok(replay)) => replay,
            _ => return self.replay_failed(brought),
        };
        loop {
            match tokio::time::timeout_at(deadline, replay.next()).await {
                Ok(Ok(Reply::Batch(mut batch))) => {
                    // It has everything that came later, too.
                    if batch.sequence >= missing.end {
                        return ControlFlow::Continue(brought);
                    }
                    if batch.sequence < self.sequences.next() {
                        continue;
                    }
                    batch.received_ns = Some(monotonic_ns());
                    batch.is_replayed = true;
                    self.summary.replayed_batches += 1;
                    brought += 1;
                    self.hand_on(batch)?;
                }
                Ok(Ok(Reply::Malformed)) => self.summary.malformed_messages += 1,
                Ok(Ok(Reply::End)) => return ControlFlow::Continue(brought),
                Ok(Err(_)) | Err(_) => return self.replay_failed(brought),
            }
        }
    }

    fn replay_failed(&mut self, brought: u64) -> ControlFlow<(), u64> {
        self.summary.failed_replays += 1;
        self.no_replay_before = Some(Instant::now() + REPLAY_PAUSE);
        ControlFlow::Continue(brought)
    }

    fn hand_on(&mut self, mut batch: RawBatch) -> ControlFlow<()> {
        self.sequences.deliver(batch.sequence);
        batch.publisher = self.sequences.publisher();
        self.summary.batches += 1;
        (self.on_batch)(batch)
    }
}

/// `[topic, number, payload]`, or without a topic, as older servers replay. None if it is not that.
pub(super) fn batch_of(mut frames: Vec<Vec<u8>>) -> Option<RawBatch> {
    let (payload, number) = (frames.pop()?, frames.pop()?);
    let topic = frames.pop().unwrap_or_default();
    let sequence = u64::from_be_bytes(number.try_into().ok()?);
    let is_fit = frames.is_empty() && payload.len() <= PAYLOAD_MAX_BYTES && topic.len() <= TOPIC_MAX_BYTES;
    is_fit.then(|| RawBatch { sequence, topic, payload, ..RawBatch::default() })
}
