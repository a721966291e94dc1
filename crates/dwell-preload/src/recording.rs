//! Whether and where this process is recorded, and what becomes of that when it forks.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use dwell_clock::monotonic_ns;
use dwell_ggml::abi::Api;
use dwell_ggml::{Recorder, RecorderOptions};
use dwell_records::{Fork, RESOLUTION_VARIABLE, Resolution};
use dwell_ring::{DEFAULT_CAPACITY_BYTES, OBSERVER_PID_VARIABLE, RING_DIR_VARIABLE, RecordSender, leave_notice};

use crate::ggml_library::LibraryFunctions;
use crate::guarded;
use crate::source::{Source, Started};
use crate::state::STATE;

/// How often this process and those that it comes from were forked. What was started before the last fork is not this
/// process's own.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// This process, once it is recorded; 0 before.
static RECORDED_PID: AtomicU32 = AtomicU32::new(0);

/// The recorded process that this one has its memory from, and when it was forked; 0 if there is none. A process between
/// the two that computed nothing is passed over: it has added nothing that is known.
static PARENT_PID: AtomicU32 = AtomicU32::new(0);
static FORKED_NS: AtomicU64 = AtomicU64::new(0);

/// When this process, or the one that it was forked from, last began to fork.
static FORK_BEGUN_NS: AtomicU64 = AtomicU64::new(0);

/// What dwell asks of the processes of a command, by its environment.
struct Wanted {
    ring_dir: PathBuf,
    observer_pid: u32,
    resolution: Resolution,
}

impl Wanted {
    fn from_environment() -> Option<Self> {
        let ring_dir = PathBuf::from(std::env::var_os(RING_DIR_VARIABLE)?);
        let observer_pid = std::env::var(OBSERVER_PID_VARIABLE).ok()?.parse().ok()?;
        let resolution = std::env::var(RESOLUTION_VARIABLE).ok().and_then(|name| Resolution::from_name(&name));
        Some(Self { ring_dir, observer_pid, resolution: resolution.unwrap_or(Resolution::Op) })
    }
}

/// The recording of this process.
pub(crate) struct Process {
    /// None before anybody has asked.
    wanted: Option<Option<Wanted>>,
    /// The recorder that made the ring, and the number of forks then. It is none if the ring could not be made.
    first: Option<(u32, Option<&'static Recorder>)>,
}

impl Process {
    pub(crate) const fn new() -> Self {
        Self { wanted: None, first: None }
    }

    fn wanted(&mut self) -> Option<&Wanted> {
        self.wanted.get_or_insert_with(Wanted::from_environment).as_ref()
    }

    /// A recorder for one more ggml. The first one makes the ring and says hello; the others write into the same ring.
    fn start_recorder(&mut self, library: &LibraryFunctions, forks: u32) -> Option<&'static Recorder> {
        if let Some((_, first)) = self.first.filter(|(first_forks, _)| *first_forks == forks) {
            return first.map(|first| leak(first.beside(library.api), library));
        }
        let first = guarded(|| self.wanted().and_then(|wanted| wanted.make_ring(library.api))).flatten();
        let recorder = first.map(|first| leak(first, library));
        self.first = Some((forks, recorder));
        if recorder.is_some() {
            RECORDED_PID.store(std::process::id(), Ordering::Release);
        }
        recorder
    }
}

fn leak(recorder: Recorder, library: &LibraryFunctions) -> &'static Recorder {
    Box::leak(Box::new(recorder.of_library(library.path.clone())))
}

impl Wanted {
    fn make_ring(&self, api: Api) -> Option<Recorder> {
        match RecordSender::create(&self.ring_dir, self.observer_pid, DEFAULT_CAPACITY_BYTES) {
            Ok(sender) => {
                let fork = Some(PARENT_PID.load(Ordering::Acquire))
                    .filter(|parent_pid| *parent_pid != 0)
                    .map(|parent_pid| Fork { parent_pid, time_ns: FORKED_NS.load(Ordering::Acquire) });
                let (sender, resolution) = (Arc::new(sender), self.resolution);
                Some(Recorder::start(api, RecorderOptions { sender, resolution, way_in: "preloaded", fork }))
            }
            Err(error) => {
                // Once, on standard error: the program goes on, but its user should know that nothing is recorded.
                eprintln!("dwell: making the recorder's ring: {error}, in \"{}\"", self.ring_dir.display());
                // If this fails too, the folder is gone, and with it the run that the loss would be noted in.
                let _ = leave_notice(&self.ring_dir);
                None
            }
        }
    }
}

/// Whether dwell has started this program to record it.
pub(crate) fn is_wanted() -> bool {
    STATE.lock().process.wanted().is_some()
}

/// Starts the recorder of a ggml in this process.
pub(crate) fn start(source: &'static Source) -> Option<&'static Recorder> {
    let mut state = STATE.lock();
    if let Some(started) = source.started() {
        return started.recorder;
    }
    let forks = forks();
    let recorder = state.process.start_recorder(&source.library, forks);
    source.set_started(Started { forks, recorder });
    recorder
}

/// How often this process and those that it comes from were forked.
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Makes forks safe. A child has the parent's ring mapped, and must not write into it: it starts recorders of its own.
pub(crate) fn prepare_for_forks() {
    static IS_PREPARED: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn before() {
        // Taken in the parent: until the child runs for the first time, the parent may have computed on.
        FORK_BEGUN_NS.store(monotonic_ns(), Ordering::Release);
        STATE.take();
    }
    unsafe extern "C" fn after_in_parent() {
        STATE.give_back();
    }
    unsafe extern "C" fn after_in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
        let parent_pid = RECORDED_PID.swap(0, Ordering::AcqRel);
        if parent_pid != 0 {
            PARENT_PID.store(parent_pid, Ordering::Release);
            FORKED_NS.store(FORK_BEGUN_NS.load(Ordering::Acquire), Ordering::Release);
        }
        STATE.give_back();
    }
    if !IS_PREPARED.swap(true, Ordering::AcqRel) {
        // SAFETY: the functions store to atomics and read the clock, which may be done around a fork.
        unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
    }
}
