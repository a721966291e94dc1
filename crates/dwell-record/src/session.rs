//! Live recording: the worker runs, collectors append to `raw/`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use dwell_collectors::{CollectError, WorkerRing};
use dwell_events::engine::{EngineEvent, EngineKind, StopReason};
use dwell_events::host::{Baseline, SensorSummary};
use dwell_files::{ensure_space, write_json_atomically};
use dwell_host::{Root, SensorThread, measure_baseline, release_freed_memory};
use dwell_metadata::{RecordingEnd, RunRecord, RunRequest};
use dwell_records::{Frame, Kind};
use dwell_ring::DEFAULT_CAPACITY_BYTES;
use dwell_store::{RunDir, RunState, StoreError};

use crate::patience::Patience;
use crate::run_record::run_record;
use crate::watch::Watch;
use crate::worker_process::WorkerProcess;
use crate::{RecordError, page_cache};

/// How often the ring is looked at: tokens reach the terminal within this time. Where the model computes on every core,
/// each look takes one of them away for a moment, and all threads wait for it at the next barrier.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Room without which a run does not begin: the ring, which is allocated in full, and a first piece of each stream.
const LEAST_SPACE_BYTES: u64 = DEFAULT_CAPACITY_BYTES as u64 + (1 << 20);

/// Sensors change slowly, and reading them takes time from the worker.
const LEAST_SENSOR_INTERVAL_MS: u64 = 10;
/// How often the processors are looked at before a run.
const BASELINE_LOOKS_EVERY: Duration = Duration::from_millis(100);

/// What a run tells while it goes on.
pub trait RecordListener {
    /// The engine reported something.
    fn engine_event(&mut self, event: &EngineEvent);
    /// The user interrupted; the worker was asked to end.
    fn interrupted(&mut self) {}
}

/// No listener.
pub struct NoListener;

impl RecordListener for NoListener {
    fn engine_event(&mut self, _: &EngineEvent) {}
}

/// Runs the job in a worker and records it into `run`. Returns when the worker has ended and all is in `raw/`.
///
/// `interrupted` is set by the caller's signal handler; the worker is then asked to end, and what it computed until then
/// is a run. [`RecordError::leaves_a_run`] tells whether there is anything to keep after an error.
pub fn record_run(
    run: &RunDir,
    request: &RunRequest,
    interrupted: &AtomicBool,
    listener: &mut dyn RecordListener,
) -> Result<RecordingEnd, RecordError> {
    let results = run.path().ancestors().nth(2).unwrap_or(run.path());
    let not_begun = |source| RecordError::NotBegun { source, results: results.to_owned() };
    ensure_space(&run.raw(), LEAST_SPACE_BYTES).map_err(|error| not_begun(error.into()))?;
    release_freed_memory();
    let baseline = baseline(request, interrupted)?;
    let page_cache = page_cache::prepare(&request.job);
    let mut record = run_record(request, baseline, page_cache);
    let write = |record: &RunRecord| {
        write_json_atomically(&run.raw().join(RunRecord::FILE_NAME), record).map_err(|error| not_begun(error.into()))
    };
    write(&record)?;
    let sensors = SensorThread::start(&Root::default(), sensor_interval(request)).ok();
    let not_collected = |error| match error {
        CollectError::Store(source) => not_begun(source),
        other => RecordError::Collect(other),
    };
    let refusals_before = record.request.refusals.len();
    let mut watch = Watch::begin(run, &mut record.request).map_err(not_collected)?;
    if record.request.refusals.len() > refusals_before {
        write(&record)?;
    }
    let mut worker = WorkerProcess::start(&request.job, &watch.worker_environment(), &run.raw())?;
    watch.worker_started(worker.pid()).map_err(not_collected)?;
    worker.give_job();
    let ring = WorkerRing::new(run, worker.pid());
    let progress = Progress { is_of_command: request.job.engine == EngineKind::Command, ..Progress::default() };
    let mut session = Session { run, ring, watch, progress };
    let followed = session.follow(&mut worker, interrupted, listener);
    worker.kill_because("recording had to stop".to_owned());
    let leaves_a_run = session.progress.leaves_a_run();
    let ended = session
        .end(&worker, sensors.map(SensorThread::stop), interrupted.load(Ordering::Relaxed))
        .map_err(RecordError::Store);
    let stopped = |source| RecordError::RecordingStopped { source, run: run.path().to_owned() };
    let facts = followed.and(ended).map_err(|error| match error {
        RecordError::Store(source) if leaves_a_run => stopped(source),
        RecordError::Store(source) => not_begun(source),
        other => other,
    })?;
    run.set_state(RunState::Building).map_err(stopped)?;
    Ok(facts)
}

/// A request from before there were sensors has no interval.
fn sensor_interval(request: &RunRequest) -> Duration {
    Duration::from_millis(request.sensor_interval_ms.max(LEAST_SENSOR_INTERVAL_MS))
}

/// What the machine does before the run; none if nobody wants to know.
fn baseline(request: &RunRequest, interrupted: &AtomicBool) -> Result<Option<Baseline>, RecordError> {
    if request.baseline_ms == 0 {
        return Ok(None);
    }
    let duration = Duration::from_millis(request.baseline_ms);
    let baseline = measure_baseline(duration, BASELINE_LOOKS_EVERY, interrupted);
    if interrupted.load(Ordering::Relaxed) { Err(RecordError::Interrupted) } else { Ok(Some(baseline)) }
}

/// What the worker's records say about how far it has come.
#[derive(Default)]
struct Progress {
    /// Whether at least one computation was done.
    has_computed: bool,
    /// Whether the model is loaded.
    has_loaded: bool,
    /// Whether an interruption cut off the loading or a sequence.
    was_cut: bool,
    /// Whether the engine said that its work is done.
    has_finished: bool,
    /// Whether a command does its own work.
    is_of_command: bool,
    /// Whether it was started.
    has_program_begun: bool,
    /// Whether it has ended.
    has_program_ended: bool,
    /// Message and hints of a failure.
    failure: Option<(String, Vec<String>)>,
}

impl Progress {
    fn note(&mut self, event: &EngineEvent) {
        match event {
            // An untraced engine tells of its computations by events alone.
            EngineEvent::BatchEnds { .. } | EngineEvent::Token { .. } => self.has_computed = true,
            EngineEvent::Stopped { reason: StopReason::Interrupted, .. } => self.was_cut = true,
            EngineEvent::Loaded { .. } => self.has_loaded = true,
            EngineEvent::Finished { .. } => {
                self.has_finished = true;
                self.was_cut |= !self.has_loaded;
            }
            EngineEvent::ProcessFound { .. } => self.has_program_begun = self.is_of_command,
            EngineEvent::ProgramEnded { .. } => self.has_program_ended = true,
            EngineEvent::Failed { message, hints } => self.failure = Some((message.clone(), hints.clone())),
            _ => {}
        }
    }

    /// Whether something was recorded that is worth keeping. A command that computed nothing has used memory all the same, up to the
    /// death of its worker too.
    fn leaves_a_run(&self) -> bool {
        self.has_computed || self.has_program_begun
    }

    /// What the engine said of its failure.
    fn failure_message(&self) -> Option<String> {
        self.failure.as_ref().map(|(message, _)| message.clone())
    }

    /// Whether an interruption cost anything: one that came after all was done did not.
    fn is_cut_short(&self, was_interrupted: bool) -> bool {
        self.was_cut || was_interrupted && !self.has_finished && !self.has_program_ended
    }
}

struct Session<'a> {
    run: &'a RunDir,
    ring: WorkerRing,
    watch: Watch,
    progress: Progress,
}

impl Session<'_> {
    fn follow(
        &mut self,
        worker: &mut WorkerProcess,
        interrupted: &AtomicBool,
        listener: &mut dyn RecordListener,
    ) -> Result<(), RecordError> {
        let mut patience = Patience::new();
        loop {
            // Asked before draining: what the worker wrote before it ended is then seen by the drain after it.
            let has_ended = worker.has_ended();
            self.drain(listener)?;
            self.progress.has_computed |= self.watch.poll()?;
            if has_ended {
                return self.judge(worker, interrupted.load(Ordering::Relaxed));
            }
            if patience.look(worker, self.ring.has_begun(), interrupted.load(Ordering::Relaxed)) {
                listener.interrupted();
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn drain(&mut self, listener: &mut dyn RecordListener) -> Result<(), CollectError> {
        let (progress, watch) = (&mut self.progress, &mut self.watch);
        let has_computed = self.ring.drain(|frame: &Frame<'_>| {
            if frame.kind != Kind::Engine as u16 {
                return;
            }
            if let Ok(event) = serde_json::from_slice::<EngineEvent>(frame.payload) {
                progress.note(&event);
                watch.engine_event(&event);
                listener.engine_event(&event);
            }
        })?;
        self.progress.has_computed |= has_computed;
        Ok(())
    }

    /// A worker that failed before its first computation leaves nothing worth keeping: that is an error. Later, what it
    /// computed is a run, marked as partial.
    fn judge(&mut self, worker: &WorkerProcess, was_interrupted: bool) -> Result<(), RecordError> {
        if self.progress.leaves_a_run() {
            return Ok(());
        }
        if let Some((message, hints)) = self.progress.failure.take() {
            return Err(RecordError::Engine { message, hints });
        }
        // The worker's own account counts too: a signal to both may reach it first.
        if was_interrupted || self.progress.was_cut || worker.was_interrupted() {
            return Err(RecordError::Interrupted);
        }
        let how = worker.failure().unwrap_or_else(|| "the worker ended".to_owned());
        Err(RecordError::WorkerDied { how, signal: worker.fatal_signal(), last_words: worker.last_words() })
    }

    /// Writes what is left of all streams, then the facts that tell that nothing is.
    fn end(
        self,
        worker: &WorkerProcess,
        sensors: Option<SensorSummary>,
        was_interrupted: bool,
    ) -> Result<RecordingEnd, StoreError> {
        let ring_blocked_ns = self.ring.blocked_ns();
        // Every stream is ended, whatever becomes of the others.
        let (ring, collectors) = (self.ring.finish(), self.watch.end());
        ring?;
        let collectors = collectors?;
        let facts = RecordingEnd {
            worker_failure: self.progress.failure_message().or_else(|| worker.failure()),
            worker_blocked_ns: ring_blocked_ns + collectors.values().map(|end| end.blocked_ns).sum::<u64>(),
            collectors,
            is_interrupted: self.progress.is_cut_short(was_interrupted),
            sensors,
        };
        write_json_atomically(&self.run.raw().join(RecordingEnd::FILE_NAME), &facts)?;
        Ok(facts)
    }
}
