//! Receiving into a raw stream.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dwell_store::StoreError;

use crate::{RawBatch, RawBatchWriter, SubscribeError, SubscribeOptions, Subscription, SubscriptionSummary};

/// Records a server's batches until it is stopped.
pub struct KvEventsRecorder {
    subscription: Subscription,
    stream: Arc<Mutex<Stream>>,
}

struct Stream {
    /// None once it is finished.
    writer: Option<RawBatchWriter>,
    /// What ended the recording early.
    failure: Option<StoreError>,
}

impl KvEventsRecorder {
    /// Begins the stream and connects. Without a server nothing is left behind.
    pub fn start(options: SubscribeOptions, raw: &Path) -> Result<Self, SubscribeError> {
        let writer = Some(RawBatchWriter::create(raw)?);
        let stream = Arc::new(Mutex::new(Stream { writer, failure: None }));
        let taker = stream.clone();
        let subscription =
            Subscription::start(options, move |batch| locked(&taker).take(&batch)).inspect_err(|_| {
                let _ = std::fs::remove_file(raw);
            })?;
        Ok(Self { subscription, stream })
    }

    /// Makes what has come so far safe from the death of this process.
    pub fn flush(&self) -> Result<(), StoreError> {
        locked(&self.stream).writer.as_mut().map_or(Ok(()), RawBatchWriter::flush)
    }

    /// Whether batches are still being received.
    pub fn is_running(&self) -> bool {
        self.subscription.is_running()
    }

    /// Stops, and ends the stream.
    pub fn stop(self) -> Result<SubscriptionSummary, StoreError> {
        let summary = self.subscription.stop();
        let mut stream = locked(&self.stream);
        match (stream.failure.take(), stream.writer.take()) {
            (Some(failure), _) => Err(failure),
            (None, Some(writer)) => writer.finish().map(|()| summary),
            (None, None) => Ok(summary),
        }
    }
}

impl Stream {
    fn take(&mut self, batch: &RawBatch) -> ControlFlow<()> {
        match self.writer.as_mut().map_or(Ok(()), |writer| writer.push(batch)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                self.failure = Some(failure);
                ControlFlow::Break(())
            }
        }
    }
}

/// A panic while it was locked leaves it as it was between two batches.
fn locked(stream: &Mutex<Stream>) -> MutexGuard<'_, Stream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}
