//! Perf events at work in a run.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use dwell_events::engine::EngineEvent;
use dwell_events::{CollectorName, LossKind};
use dwell_host::{Root, online_cpus};
use dwell_metadata::{CollectorEnd, RunRequest};
use dwell_perf::{Rings, SampledEvent};
use dwell_process::process_tree;
use dwell_store::{RawCompression, RawWriter, RunDir, StoreError};

use super::CLOCK;
use super::attaching::{Attaching, Beginning};
use super::reading::{RecordWriter, read_rings, schema};
use crate::{CollectError, Watching};

/// What is recorded, and of whom.
pub(crate) struct PerfSetup {
    pub(crate) name: CollectorName,
    pub(crate) events: Vec<SampledEvent>,
    /// What stays unseen if this user may not see what the kernel does for programs; none if nothing does.
    pub(crate) of_the_kernel: Option<&'static str>,
    /// Bytes of the largest ring.
    pub(crate) most_ring_bytes: usize,
}

/// Whom a run watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// The worker itself, which waits for its job when it is attached to.
    Worker,
    /// What the worker starts.
    ProgramsOfWorker,
    /// Processes that ran before.
    Running,
}

/// Perf events of a run on their way into `raw/`.
pub(crate) struct PerfWatch {
    target: Target,
    attaching: Attaching,
    of_the_kernel: Option<&'static str>,
    roots: Vec<u32>,
    refused: Vec<String>,
    is_stopped: Arc<AtomicBool>,
    reading: Option<JoinHandle<Result<(), StoreError>>>,
}

impl PerfWatch {
    pub(crate) fn begin(run: &RunDir, request: &RunRequest, setup: PerfSetup) -> Result<Self, CollectError> {
        let refused = |source| CollectError::PerfEvents { collector: setup.name.name(), source };
        let (rings, reader) =
            Rings::new(&online_cpus(&Root::default()), CLOCK, setup.most_ring_bytes).map_err(refused)?;
        let (notes, noted) = mpsc::channel();
        let attaching = Attaching::new(rings, &setup.events, notes).map_err(refused)?;
        let stream = RawWriter::create(&run.raw_stream(setup.name.name()), schema(), RawCompression::None)?;
        let (is_stopped, writer) = (Arc::new(AtomicBool::new(false)), RecordWriter::begin(stream));
        let stopped = is_stopped.clone();
        let reading = thread::Builder::new()
            .name("dwell-perf".to_owned())
            .spawn(move || read_rings(reader, &noted, &stopped, writer))
            .map_err(refused)?;
        let job = &request.job;
        let target = match job.engine.is_embedded() {
            true => Target::Worker,
            false if job.server.url.is_some() => Target::Running,
            false => Target::ProgramsOfWorker,
        };
        let (of_the_kernel, reading) = (setup.of_the_kernel, Some(reading));
        Ok(Self { target, attaching, of_the_kernel, roots: Vec::new(), refused: Vec::new(), is_stopped, reading })
    }

    fn attach(&mut self, pid: u32, beginning: Beginning) {
        if let Err(error) = self.attaching.attach(pid, beginning) {
            self.refused.push(format!("process {pid} could not be attached to: {error}"));
        }
    }

    /// Attaches to a process that runs, and to those that it has started; what they start from now on inherits the events.
    fn follow(&mut self, pid: u32) {
        let is_followed = |root: &u32| process_tree(*root).iter().any(|process| process.pid == pid);
        if self.roots.iter().any(is_followed) {
            return;
        }
        self.roots.push(pid);
        let tree: Vec<u32> = process_tree(pid).iter().map(|process| process.pid).collect();
        match tree.is_empty() {
            true => self.attach(pid, Beginning::Now),
            false => tree.into_iter().for_each(|pid| self.attach(pid, Beginning::Now)),
        }
    }

    /// The outcome of the thread, if it has ended before it was asked to.
    fn failure(&mut self) -> Result<(), StoreError> {
        match self.reading.take_if(|reading| reading.is_finished()) {
            Some(reading) => outcome(reading),
            None => Ok(()),
        }
    }
}

impl Watching for PerfWatch {
    fn worker_started(&mut self, pid: u32) -> Result<(), CollectError> {
        match self.target {
            Target::Worker => self.attach(pid, Beginning::Now),
            Target::ProgramsOfWorker => self.attach(pid, Beginning::WithTheProgramsItStarts),
            Target::Running => {}
        }
        Ok(())
    }

    fn engine_event(&mut self, event: &EngineEvent) {
        if let (Target::Running, EngineEvent::ProcessFound { pid, .. }) = (self.target, event) {
            self.follow(*pid);
        }
    }

    fn poll(&mut self) -> Result<bool, CollectError> {
        self.failure()?;
        Ok(false)
    }

    fn end(mut self: Box<Self>) -> Result<CollectorEnd, StoreError> {
        self.attaching.stop();
        self.is_stopped.store(true, Ordering::Release);
        self.reading.take().map_or(Ok(()), outcome)?;
        let mut end = CollectorEnd::default();
        for reason in &self.refused {
            end.lost(LossKind::UnwatchedMemory, 1, reason.clone());
        }
        if let Some(unseen) = self.of_the_kernel.filter(|_| self.attaching.leaves_the_kernel_out()) {
            end.lost(LossKind::MissedSamples, 1, unseen);
        }
        Ok(end)
    }
}

impl Drop for PerfWatch {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Release);
    }
}

fn outcome(reading: JoinHandle<Result<(), StoreError>>) -> Result<(), StoreError> {
    let ended = "the thread that reads rings ended without a word";
    reading.join().unwrap_or_else(|_| Err(StoreError::from_io(ended, "".as_ref(), io::Error::other("it panicked"))))
}
