//! Receiving over ZeroMQ, on a thread of its own.
//!
//! Nothing is queued here: a batch is handed on before the next is read. What comes meanwhile waits in the socket and
//! then in the publisher's queue, which drops what is too much and never waits. A drop shows as a gap in the numbers
//! and is asked for at the replay endpoint, as far as the publisher still has it.

mod receiver;
mod replay;

use std::ops::ControlFlow;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::oneshot;

use crate::zmtp::Connection;
use crate::{RawBatch, SubscribeError};
use receiver::{Receiver, connected};

/// Between two attempts to reach a server that is being started.
const TRY_AGAIN_PAUSE: Duration = Duration::from_millis(50);

/// Where to listen, and for how long to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscribeOptions {
    /// Address that batches are published at: `tcp://host:port` or `ipc://path`.
    pub endpoint: String,
    /// Address at which missed batches can be had again; none if the server has none.
    pub replay_endpoint: Option<String>,
    /// Only topics that begin so.
    pub topic: String,
    /// How long a server may take to answer.
    pub connect_timeout: Duration,
    /// How long it may take to bring missed batches again.
    pub replay_timeout: Duration,
    /// Whether the server is yet to be started: it is tried again until it is there, and none is no error.
    pub awaits_server: bool,
}

impl Default for SubscribeOptions {
    /// The endpoint is that of vLLM and SGLang on this machine.
    fn default() -> Self {
        Self {
            endpoint: "tcp://127.0.0.1:5557".to_owned(),
            replay_endpoint: None,
            topic: String::new(),
            connect_timeout: Duration::from_secs(10),
            replay_timeout: Duration::from_secs(5),
            awaits_server: false,
        }
    }
}

/// What came by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SubscriptionSummary {
    /// Batches that were handed on.
    pub batches: u64,
    /// Those of them that had to be asked for a second time.
    pub replayed_batches: u64,
    /// Batches that could not be had again.
    pub lost_batches: u64,
    /// Batches from before the first one, which could not be had.
    pub unseen_batches: u64,
    /// Batches that came a second time.
    pub duplicate_batches: u64,
    /// Servers that took the place of another.
    pub restarts: u64,
    /// Messages that are no batches: other frames, or more bytes than a batch may have.
    pub malformed_messages: u64,
    /// Times that missed batches were asked for in vain.
    pub failed_replays: u64,
    /// What ended the reception early.
    pub failure: Option<String>,
}

/// A server whose batches are received.
pub struct Subscription {
    stop: Option<oneshot::Sender<()>>,
    thread: JoinHandle<SubscriptionSummary>,
}

impl Subscription {
    /// Connects, and hands every batch to `on_batch` in the order of their numbers until it breaks or is stopped.
    /// `on_batch` is called on a thread of its own.
    pub fn start(
        options: SubscribeOptions,
        on_batch: impl FnMut(RawBatch) -> ControlFlow<()> + Send + 'static,
    ) -> Result<Self, SubscribeError> {
        let (stop, stopped) = oneshot::channel();
        let (answer, answered) = mpsc::channel();
        let endpoint = options.endpoint.clone();
        let receive = move || receive(options, on_batch, stopped, &answer);
        let thread = std::thread::Builder::new()
            .name("dwell-kv-events".to_owned())
            .spawn(receive)
            .map_err(|source| SubscribeError::NoThread { source })?;
        let reason = match answered.recv() {
            Ok(Ok(())) => return Ok(Self { stop: Some(stop), thread }),
            Ok(Err(reason)) => reason,
            Err(_) => "the receiving thread ended".to_owned(),
        };
        let _ = thread.join();
        Err(SubscribeError::NotConnected { reason, endpoint })
    }

    /// Whether batches are still being received.
    pub fn is_running(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Stops, after having asked for what was published and did not arrive.
    pub fn stop(mut self) -> SubscriptionSummary {
        if let Some(stop) = self.stop.take() {
            // The thread may have ended by itself.
            let _ = stop.send(());
        }
        self.thread.join().unwrap_or_else(|panic| SubscriptionSummary {
            failure: Some(panic_text(panic.as_ref())),
            ..SubscriptionSummary::default()
        })
    }
}

/// The body of the thread.
fn receive(
    options: SubscribeOptions,
    on_batch: impl FnMut(RawBatch) -> ControlFlow<()> + Send,
    mut stopped: oneshot::Receiver<()>,
    is_connected: &mpsc::Sender<Result<(), String>>,
) -> SubscriptionSummary {
    let answer = |answer| {
        // Nobody waits for it if `start` was given up.
        let _ = is_connected.send(answer);
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            answer(Err(error.to_string()));
            return SubscriptionSummary::default();
        }
    };
    runtime.block_on(async {
        if options.awaits_server {
            answer(Ok(()));
            return match awaited_connection(&options, &mut stopped).await {
                Some(connection) => Receiver::new(options, connection, on_batch).run(stopped).await,
                None => SubscriptionSummary::default(),
            };
        }
        match connected(&options).await {
            Ok(connection) => {
                answer(Ok(()));
                Receiver::new(options, connection, on_batch).run(stopped).await
            }
            Err(error) => {
                answer(Err(error.to_string()));
                SubscriptionSummary::default()
            }
        }
    })
}

/// Tries to connect until a server is there; none if that is given up before.
async fn awaited_connection(options: &SubscribeOptions, stopped: &mut oneshot::Receiver<()>) -> Option<Connection> {
    loop {
        let tried = tokio::select! {
            biased;
            _ = &mut *stopped => return None,
            tried = connected(options) => tried,
        };
        match tried {
            Ok(connection) => return Some(connection),
            Err(_) => tokio::time::sleep(TRY_AGAIN_PAUSE).await,
        }
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the receiving thread panicked: {}", text.unwrap_or("no message"))
}
