//! Live recording: the worker runs, collectors append to `raw/`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use dwell_events::engine::EngineEvent;
use dwell_events::schema::memory::{self, MemoryRow};
use dwell_ggml::wire::{Frame, Kind};
use dwell_process::{SamplerSummary, SamplerThread};
use dwell_store::{RawCompression, RawWriter, RunDir, RunState, StoreError, write_json_atomically};

use crate::record::Recording;
use crate::worker_process::WorkerProcess;
use crate::{OBSERVER_LABEL, PROCESS_STREAM, RunError, RunRecord, RunRequest, TENSOR_OPS_STREAM, WORKER_LABEL};

/// How often the ring is looked at: tokens reach the terminal within this time, and 40 looks a second cost the worker
/// less than could be measured.
const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// How long a worker may take to make its ring; under an instruction-level tracer it is slow.
const RING_WAIT_POLLS: u32 = 4 * 60 * 40;

/// What a run tells while it goes on.
pub trait RunListener {
    /// The engine reported something.
    fn engine_event(&mut self, event: &EngineEvent);
    /// This share of the raw records has been turned into tables.
    fn building(&mut self, done: f64);
}

/// What recording found out that is in no raw stream: `raw/recorded.json`.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct RecordingFacts {
    /// How the worker ended, if not well.
    pub worker_failure: Option<String>,
    /// Time for which the worker waited for the observer.
    pub worker_blocked_ns: u64,
    /// Process samples that were due but not taken.
    pub missed_samples: u64,
    /// Whether the user interrupted.
    pub is_interrupted: bool,
}

impl RecordingFacts {
    /// File name in `raw/`.
    pub const FILE_NAME: &str = "recorded.json";
}

/// Runs the job in a worker and records it into `run`. Returns when the worker has ended and all is in `raw/`.
///
/// `interrupted` is set by the caller's signal handler; the worker, which gets the same signal from the terminal, then
/// ends by itself.
pub fn record_run(
    run: &RunDir,
    request: &RunRequest,
    interrupted: &AtomicBool,
    listener: &mut dyn RunListener,
) -> Result<(), RunError> {
    write_json_atomically(&run.raw().join(RunRecord::FILE_NAME), &RunRecord::of(request))?;
    let mut worker = WorkerProcess::start(&request.job, request.is_traced, &run.raw())?;
    let mut session = Session::begin(run, request, &worker)?;
    let result = session.follow(&mut worker, interrupted, listener);
    if !worker.has_ended() {
        worker.kill();
    }
    let outcome = session.end(&worker, interrupted.load(Ordering::Relaxed));
    let stopped = |source| RunError::RecordingStopped { source, run: run.path().to_owned() };
    result.map_err(|error| match error {
        RunError::Store(source) => stopped(source),
        other => other,
    })?;
    outcome.map_err(stopped)?;
    run.set_state(RunState::Building)?;
    Ok(())
}

struct Session<'a> {
    run: &'a RunDir,
    recording: Option<Recording>,
    sampler: SamplerThread,
    samples: Receiver<Vec<MemoryRow>>,
    process_stream: RawWriter,
    steps: u64,
    failure: Option<(String, Vec<String>)>,
}

impl<'a> Session<'a> {
    fn begin(run: &'a RunDir, request: &RunRequest, worker: &WorkerProcess) -> Result<Self, RunError> {
        let targets = [(WORKER_LABEL, worker.pid()), (OBSERVER_LABEL, std::process::id())];
        let (sender, samples) = mpsc::sync_channel(1024);
        let sampler = SamplerThread::start(&targets, request.sample_interval, sender);
        let process_stream =
            RawWriter::create(&run.raw_stream(PROCESS_STREAM), memory::schema(), RawCompression::None)?;
        Ok(Self { run, recording: None, sampler, samples, process_stream, steps: 0, failure: None })
    }

    fn follow(
        &mut self,
        worker: &mut WorkerProcess,
        interrupted: &AtomicBool,
        listener: &mut dyn RunListener,
    ) -> Result<(), RunError> {
        let mut polls = 0;
        loop {
            // Asked before draining: what the worker wrote before it ended is then seen by the drain after it.
            let has_ended = worker.has_ended();
            self.open_ring(worker)?;
            self.drain(listener)?;
            self.write_samples()?;
            let is_over = self.recording.as_ref().is_some_and(Recording::is_over);
            if has_ended || (is_over && worker.has_ended()) {
                break;
            }
            polls += 1;
            if self.recording.is_none() && (polls > RING_WAIT_POLLS || interrupted.load(Ordering::Relaxed)) {
                worker.kill();
            }
            thread::sleep(POLL_INTERVAL);
        }
        self.judge(worker)
    }

    fn open_ring(&mut self, worker: &WorkerProcess) -> Result<(), RunError> {
        let path = worker.ring_path();
        if self.recording.is_none() && path.exists() {
            self.recording = Some(Recording::begin(&path, &self.run.raw_stream(TENSOR_OPS_STREAM))?);
        }
        Ok(())
    }

    fn drain(&mut self, listener: &mut dyn RunListener) -> Result<(), StoreError> {
        let Some(recording) = &mut self.recording else { return Ok(()) };
        let (steps, failure) = (&mut self.steps, &mut self.failure);
        recording.drain(|frame: &Frame<'_>| {
            *steps += u64::from(frame.kind == Kind::Step as u16);
            if frame.kind != Kind::Engine as u16 {
                return;
            }
            if let Ok(event) = serde_json::from_slice::<EngineEvent>(frame.payload) {
                listener.engine_event(&event);
                if let EngineEvent::Failed { message, hints } = event {
                    *failure = Some((message, hints));
                }
            }
        })
    }

    fn write_samples(&mut self) -> Result<(), StoreError> {
        let rows: Vec<MemoryRow> = self.samples.try_iter().flatten().collect();
        if !rows.is_empty() {
            self.process_stream.write(&memory::batch(&rows))?;
            self.process_stream.flush()?;
        }
        Ok(())
    }

    /// A worker that failed before its first computation leaves nothing worth keeping: that is an error. Later, what it
    /// computed is a run, marked as partial.
    fn judge(&mut self, worker: &WorkerProcess) -> Result<(), RunError> {
        if self.steps > 0 {
            return Ok(());
        }
        if let Some((message, hints)) = self.failure.take() {
            return Err(RunError::Engine { message, hints });
        }
        match worker.failure() {
            Some(how) => Err(RunError::WorkerDied { how, log: worker.last_words() }),
            None => Ok(()),
        }
    }

    fn end(mut self, worker: &WorkerProcess, is_interrupted: bool) -> Result<(), StoreError> {
        let summary: SamplerSummary = self.sampler.stop();
        self.samples.try_iter().flatten().count();
        self.process_stream.flush()?;
        let facts = RecordingFacts {
            worker_failure: worker.failure(),
            worker_blocked_ns: self.recording.as_ref().map_or(0, Recording::blocked_ns),
            missed_samples: summary.missed,
            is_interrupted,
        };
        write_json_atomically(&self.run.raw().join(RecordingFacts::FILE_NAME), &facts)?;
        if let Some(recording) = self.recording.take() {
            recording.finish()?;
        }
        self.process_stream.finish()
    }
}
