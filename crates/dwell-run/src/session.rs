//! Live recording: the worker runs, collectors append to `raw/`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use dwell_events::engine::{EngineEvent, StopReason};
use dwell_ggml::ring::{self, DEFAULT_CAPACITY_BYTES};
use dwell_ggml::wire::{Frame, Kind};
use dwell_host::{Baseline, Root, SensorSummary, SensorThread, release_freed_memory};
use dwell_store::{RunDir, RunState, StoreError, ensure_space, write_json_atomically};

use crate::patience::Patience;
use crate::record::Recording;
use crate::sampling::Sampling;
use crate::worker_process::WorkerProcess;
use crate::{RunError, RunRecord, RunRequest, TENSOR_OPS_STREAM};

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
pub trait RunListener {
    /// The engine reported something.
    fn engine_event(&mut self, event: &EngineEvent);
    /// The user interrupted; the worker was asked to end.
    fn interrupted(&mut self) {}
    /// This share of the raw records has been turned into tables.
    fn building(&mut self, done: f64);
}

/// Nobody is told.
pub struct NoListener;

impl RunListener for NoListener {
    fn engine_event(&mut self, _: &EngineEvent) {}

    fn building(&mut self, _: f64) {}
}

/// What recording found out that is in no raw stream: `raw/recorded.json`.
///
/// It is the last thing that recording writes: a run without it was not recorded to its end.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct RecordingFacts {
    /// How the worker ended, if not well.
    pub worker_failure: Option<String>,
    /// Time for which the worker waited for the observer.
    pub worker_blocked_ns: u64,
    /// Process samples that were due but not taken.
    pub missed_samples: u64,
    /// Why there are no process samples at all.
    #[serde(default)]
    pub sampling_failure: Option<String>,
    /// Whether the user interrupted before all was done.
    pub is_interrupted: bool,
    /// What the machine's sensors said meanwhile.
    #[serde(default)]
    pub sensors: Option<SensorSummary>,
}

impl RecordingFacts {
    /// File name in `raw/`.
    pub const FILE_NAME: &str = "recorded.json";
}

/// Runs the job in a worker and records it into `run`. Returns when the worker has ended and all is in `raw/`.
///
/// `interrupted` is set by the caller's signal handler; the worker is then asked to end, and what it computed until then
/// is a run. [`RunError::leaves_a_run`] tells whether there is anything to keep after an error.
pub fn record_run(
    run: &RunDir,
    request: &RunRequest,
    interrupted: &AtomicBool,
    listener: &mut dyn RunListener,
) -> Result<RecordingFacts, RunError> {
    let results = run.path().ancestors().nth(2).unwrap_or(run.path());
    let not_begun = |source| RunError::NotBegun { source, results: results.to_owned() };
    ensure_space(&run.raw(), LEAST_SPACE_BYTES).map_err(not_begun)?;
    release_freed_memory();
    let record = RunRecord::of(request, baseline(request, interrupted)?);
    write_json_atomically(&run.raw().join(RunRecord::FILE_NAME), &record).map_err(not_begun)?;
    let sensors = SensorThread::start(&Root::default(), sensor_interval(request)).ok();
    let mut worker = WorkerProcess::start(&request.job, request.is_traced, &run.raw())?;
    let mut session = Session::begin(run, request, &worker).map_err(not_begun)?;
    let followed = session.follow(&mut worker, interrupted, listener);
    worker.kill_because("recording had to stop".to_owned());
    let has_computed = session.progress.has_computed;
    let ended = session
        .end(&worker, sensors.map(SensorThread::stop), interrupted.load(Ordering::Relaxed))
        .map_err(RunError::Store);
    let stopped = |source| RunError::RecordingStopped { source, run: run.path().to_owned() };
    let facts = followed.and(ended).map_err(|error| match error {
        RunError::Store(source) if has_computed => stopped(source),
        RunError::Store(source) => not_begun(source),
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
fn baseline(request: &RunRequest, interrupted: &AtomicBool) -> Result<Option<Baseline>, RunError> {
    if request.baseline_ms == 0 {
        return Ok(None);
    }
    let duration = Duration::from_millis(request.baseline_ms);
    let baseline = Baseline::measure(duration, BASELINE_LOOKS_EVERY, interrupted);
    if interrupted.load(Ordering::Relaxed) { Err(RunError::Interrupted) } else { Ok(Some(baseline)) }
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
    /// Message and hints of a failure.
    failure: Option<(String, Vec<String>)>,
}

impl Progress {
    fn note(&mut self, event: &EngineEvent) {
        match event {
            // An untraced worker tells of its computations by events alone.
            EngineEvent::BatchEnds { .. } => self.has_computed = true,
            EngineEvent::Stopped { reason: StopReason::Interrupted, .. } => self.was_cut = true,
            EngineEvent::Loaded { .. } => self.has_loaded = true,
            EngineEvent::Finished { .. } => {
                self.has_finished = true;
                self.was_cut |= !self.has_loaded;
            }
            EngineEvent::Failed { message, hints } => self.failure = Some((message.clone(), hints.clone())),
            _ => {}
        }
    }

    /// What the engine said of its failure.
    fn failure_message(&self) -> Option<String> {
        self.failure.as_ref().map(|(message, _)| message.clone())
    }

    /// Whether an interruption cost anything: one that came after all was done did not.
    fn is_cut_short(&self, was_interrupted: bool) -> bool {
        self.was_cut || was_interrupted && !self.has_finished
    }
}

struct Session<'a> {
    run: &'a RunDir,
    recording: Option<Recording>,
    /// None if no samples are wanted.
    sampling: Option<Sampling>,
    progress: Progress,
}

impl<'a> Session<'a> {
    fn begin(run: &'a RunDir, request: &RunRequest, worker: &WorkerProcess) -> Result<Self, StoreError> {
        let begin = |interval_ms| Sampling::begin(run, worker.pid(), Duration::from_millis(interval_ms));
        let sampling = request.sample_interval_ms.map(begin).transpose()?;
        Ok(Self { run, recording: None, sampling, progress: Progress::default() })
    }

    fn follow(
        &mut self,
        worker: &mut WorkerProcess,
        interrupted: &AtomicBool,
        listener: &mut dyn RunListener,
    ) -> Result<(), RunError> {
        let mut patience = Patience::new();
        loop {
            // Asked before draining: what the worker wrote before it ended is then seen by the drain after it.
            let has_ended = worker.has_ended();
            self.open_ring(worker)?;
            self.drain(listener)?;
            self.sampling.as_mut().map_or(Ok(()), Sampling::write)?;
            if has_ended {
                return self.judge(worker, interrupted.load(Ordering::Relaxed));
            }
            if patience.look(worker, self.recording.is_some(), interrupted.load(Ordering::Relaxed)) {
                listener.interrupted();
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn open_ring(&mut self, worker: &WorkerProcess) -> Result<(), RunError> {
        let path = self.run.raw().join(ring::file_name(worker.pid()));
        if self.recording.is_none() && path.exists() {
            self.recording = Some(Recording::begin(&path, &self.run.raw_stream(TENSOR_OPS_STREAM))?);
        }
        Ok(())
    }

    fn drain(&mut self, listener: &mut dyn RunListener) -> Result<(), StoreError> {
        let Some(recording) = &mut self.recording else { return Ok(()) };
        let progress = &mut self.progress;
        recording.drain(|frame: &Frame<'_>| {
            progress.has_computed |= frame.kind == Kind::Step as u16;
            if frame.kind != Kind::Engine as u16 {
                return;
            }
            if let Ok(event) = serde_json::from_slice::<EngineEvent>(frame.payload) {
                progress.note(&event);
                listener.engine_event(&event);
            }
        })
    }

    /// A worker that failed before its first computation leaves nothing worth keeping: that is an error. Later, what it
    /// computed is a run, marked as partial.
    fn judge(&mut self, worker: &WorkerProcess, was_interrupted: bool) -> Result<(), RunError> {
        if self.progress.has_computed {
            return Ok(());
        }
        if let Some((message, hints)) = self.progress.failure.take() {
            return Err(RunError::Engine { message, hints });
        }
        // The worker's own account counts too: a signal to both may reach it first.
        if was_interrupted || self.progress.was_cut || worker.was_interrupted() {
            return Err(RunError::Interrupted);
        }
        let how = worker.failure().unwrap_or_else(|| "the worker ended".to_owned());
        Err(RunError::WorkerDied { how, signal: worker.fatal_signal(), last_words: worker.last_words() })
    }

    /// Writes what is left of all streams, then the facts that tell that nothing is.
    fn end(
        self,
        worker: &WorkerProcess,
        sensors: Option<SensorSummary>,
        was_interrupted: bool,
    ) -> Result<RecordingFacts, StoreError> {
        let worker_blocked_ns = self.recording.as_ref().map_or(0, Recording::blocked_ns);
        self.recording.map_or(Ok(()), Recording::finish)?;
        let sampling = self.sampling.map(Sampling::end).transpose()?.unwrap_or_default();
        let facts = RecordingFacts {
            worker_failure: self.progress.failure_message().or_else(|| worker.failure()),
            worker_blocked_ns,
            missed_samples: sampling.missed,
            sampling_failure: sampling.failure,
            is_interrupted: self.progress.is_cut_short(was_interrupted),
            sensors,
        };
        write_json_atomically(&self.run.raw().join(RecordingFacts::FILE_NAME), &facts)?;
        Ok(facts)
    }
}
