//! One ggml of the process, and its recorder.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use dwell_ggml::Recorder;

use crate::callbacks;
use crate::ggml_library::LibraryFunctions;
use crate::{guarded, recording};

/// A ggml library. Two of them in one process have nothing in common but the ring that their records go to.
pub(crate) struct Source {
    pub(crate) library: LibraryFunctions,
    /// Its recorder, null before the first graph or weight. What it points to is never freed.
    started: AtomicPtr<Started>,
    /// How many libraries had been unloaded when this one was last found.
    unloads: AtomicU64,
}

/// What came of starting a recorder.
pub(crate) struct Started {
    /// The process that it was started in, as a number of forks.
    pub(crate) forks: u32,
    pub(crate) recorder: Option<&'static Recorder>,
}

impl Source {
    pub(crate) fn new(library: LibraryFunctions, unloads: u64) -> Self {
        Self { library, started: AtomicPtr::new(std::ptr::null_mut()), unloads: AtomicU64::new(unloads) }
    }

    /// The library is at the same place as before. If any was unloaded meanwhile, it may have been this one.
    pub(crate) fn found_again(&self, unloads: u64) {
        if self.unloads.swap(unloads, Ordering::Relaxed) != unloads
            && let Some(recorder) = self.started().and_then(|started| started.recorder)
        {
            recorder.forget_allocated();
        }
    }

    /// What came of starting its recorder in this process.
    pub(crate) fn started(&self) -> Option<&'static Started> {
        // SAFETY: only `set_started` stores here, and what it stores is never freed.
        let started = unsafe { self.started.load(Ordering::Acquire).as_ref() };
        started.filter(|started| started.forks == recording::forks())
    }

    pub(crate) fn set_started(&self, started: Started) {
        self.started.store(Box::into_raw(Box::new(started)), Ordering::Release);
    }

    /// Its recorder, started by the first graph or weight; `None` if nothing is to be recorded, or no longer.
    pub(crate) fn recorder(&'static self) -> Option<&'static Recorder> {
        let recorder = match self.started() {
            Some(started) => started.recorder,
            None => guarded(|| recording::start(self)).flatten(),
        };
        recorder.filter(|recorder| recorder.is_active())
    }

    /// Runs a part of the recorder, if there is one.
    pub(crate) fn record(&'static self, part: impl FnOnce(&Recorder)) {
        if let Some(recorder) = self.recorder() {
            guarded(|| part(recorder));
        }
    }

    /// Has the processor's backends of a scheduler tell the recorder after each node.
    ///
    /// # Safety
    /// `scheduler` is a live scheduler of this ggml.
    pub(crate) unsafe fn listen_after_nodes(&self, scheduler: *mut c_void) {
        // SAFETY: the caller gives a live scheduler; its backends are live as long as it is.
        unsafe { self.library.for_each_backend(scheduler, |backend, set| callbacks::put_ours_before(backend, set)) };
    }
}
