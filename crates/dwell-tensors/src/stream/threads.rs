//! The threads of a stream. They end when this is dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use super::layout::WRITING_THREADS;
use super::pipe::Pipe;
use super::sink::Whole;
use super::{worker, writer};
use crate::TensorsError;
use crate::container::IndexBuilder;

/// Handles, in the order in which they end.
pub(super) struct Threads {
    pipe: Arc<Pipe>,
    unspill: Vec<JoinHandle<()>>,
    encoders: Vec<JoinHandle<()>>,
    writer: Option<JoinHandle<Option<IndexBuilder>>>,
    writing: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts them all, or none.
    pub(super) fn start(pipe: &Arc<Pipe>, index: IndexBuilder, whole: Whole) -> Result<Self, TensorsError> {
        let mut threads =
            Self { pipe: pipe.clone(), unspill: Vec::new(), encoders: Vec::new(), writer: None, writing: Vec::new() };
        for _ in 0..WRITING_THREADS {
            threads.writing.push(spawn(pipe, "dwell-io", |pipe| pipe.write_chunks())?);
        }
        threads.writer =
            Some(spawn(pipe, "dwell-writer", move |pipe| Some(writer::write_batches(pipe, index, whole)))?);
        for _ in 0..pipe.layout.workers {
            threads.encoders.push(spawn(pipe, "dwell-encode", worker::encode_parcels)?);
        }
        if pipe.spill.is_some() {
            threads.unspill.push(spawn(pipe, "dwell-unspill", Pipe::unspill)?);
        }
        Ok(threads)
    }

    /// Lets everything on its way arrive, and gives back the index.
    pub(super) fn end(mut self) -> Option<IndexBuilder> {
        self.join()
    }

    fn join(&mut self) -> Option<IndexBuilder> {
        self.pipe.spilled.close();
        self.unspill.drain(..).for_each(joined);
        self.pipe.work.close();
        self.encoders.drain(..).for_each(joined);
        self.pipe.reorder.close();
        let index = self.writer.take().and_then(joined);
        self.pipe.sink.close();
        self.writing.drain(..).for_each(joined);
        index
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.join();
    }
}

fn spawn<T: Default + Send + 'static>(
    pipe: &Arc<Pipe>,
    name: &'static str,
    body: impl FnOnce(&Pipe) -> T + Send + 'static,
) -> Result<JoinHandle<T>, TensorsError> {
    let shared = pipe.clone();
    let guarded = move || {
        catch_unwind(AssertUnwindSafe(|| body(&shared))).unwrap_or_else(|_| {
            shared.fail_by_panic(name);
            T::default()
        })
    };
    let started = Builder::new().name(name.to_owned()).spawn(guarded);
    started.map_err(|error| TensorsError::from_io("starting a thread of a tensor stream", &pipe.path, error))
}

/// Panics were caught inside.
fn joined<T: Default>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_default()
}
