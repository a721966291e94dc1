//! Memory and CPU time of worker and observer, appended to their raw stream while the worker runs.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use dwell_events::schema::memory::{self, MemoryRow};
use dwell_metadata::{CollectorEnd, sampling_end};
use dwell_process::{Pace, ProcessError, RollupPolicy, Sampler, SamplerThread};
use dwell_store::{RawCompression, RawWriter, RunDir, StoreError};

use super::{NAME, OBSERVER_LABEL, SERVER_LABEL};

/// How long samples may wait in memory, which is what a kill of the observer can lose of them.
const HAND_OVER_INTERVAL: Duration = Duration::from_millis(250);

/// Samples on their way into `raw/`.
pub(super) struct Sampling {
    thread: Result<SamplerThread, ProcessError>,
    rows: Receiver<Vec<MemoryRow>>,
    stream: RawWriter,
    /// Why processes that run the model are not sampled.
    refusals: Vec<String>,
    /// Labels of processes that run the model and do one thing each.
    roles: HashMap<u32, String>,
}

impl Sampling {
    /// Begins to sample this process and the worker.
    ///
    /// That one of them cannot be watched costs the samples, not the run.
    pub(super) fn begin(
        run: &RunDir,
        worker: (&str, u32),
        interval: Duration,
        rollup: RollupPolicy,
    ) -> Result<Self, StoreError> {
        let stream = RawWriter::create(&run.raw_stream(NAME.name()), memory::schema(), RawCompression::None)?;
        let (sender, rows) = mpsc::channel();
        let on_rows = move |rows: &[MemoryRow]| match sender.send(rows.to_vec()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        let pace = Pace { interval, hand_over_every: HAND_OVER_INTERVAL };
        let thread = Sampler::new(&[worker, (OBSERVER_LABEL, std::process::id())])
            .and_then(|sampler| SamplerThread::start(sampler.with_rollup_policy(rollup), pace, on_rows));
        Ok(Self { thread, rows, stream, refusals: Vec::new(), roles: HashMap::new() })
    }

    /// From now on samples this process too, and all that it starts: they run the model.
    pub(super) fn add_server(&mut self, pid: u32) {
        let Ok(thread) = &self.thread else { return };
        if let Err(error) = thread.handle().add_root(SERVER_LABEL, pid) {
            self.refusals.push(error.to_string());
        }
    }

    /// From now on rows of this process of the server have its role in their label; their sum has not.
    pub(super) fn name_role(&mut self, pid: u32, role: &str) {
        self.roles.insert(pid, format!("{SERVER_LABEL}:{role}"));
    }

    /// Learns the shares of memory in the next sample.
    pub(super) fn walk_next(&self) {
        if let Ok(thread) = &self.thread {
            thread.walk_next();
        }
    }

    /// Writes the samples that were handed over since the last call.
    pub(super) fn write(&mut self) -> Result<(), StoreError> {
        write_rows(&self.rows, &self.roles, &mut self.stream)
    }

    /// Takes the last sample and ends the stream.
    pub(super) fn end(self) -> Result<CollectorEnd, StoreError> {
        let Self { thread, rows, mut stream, refusals, roles } = self;
        let end = match thread.map(SamplerThread::stop) {
            Ok(summary) => sampling_end(summary.missed, &refusals, None),
            Err(error) => sampling_end(0, &refusals, Some(&error.to_string())),
        };
        // After stopping, because that hands over the rows that are left.
        write_rows(&rows, &roles, &mut stream)?;
        stream.finish()?;
        Ok(end)
    }
}

fn write_rows(
    rows: &Receiver<Vec<MemoryRow>>,
    roles: &HashMap<u32, String>,
    stream: &mut RawWriter,
) -> Result<(), StoreError> {
    let mut rows: Vec<MemoryRow> = rows.try_iter().flatten().collect();
    for row in rows.iter_mut().filter(|row| row.label == SERVER_LABEL) {
        if let Some(label) = roles.get(&row.pid) {
            row.label.clone_from(label);
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    stream.write(&memory::batch(&rows))?;
    stream.flush()
}
