//! The embedded llama.cpp engine: runs a [`Job`](dwell_events::engine::Job) and tells an observer about it.
//!
//! Safe outside, unsafe inside: every pointer of llama.cpp has one owner that frees it, and what would make
//! llama.cpp abort the process is refused with an error before it gets there. The crate knows nothing of
//! recording; a recorder listens as a [`JobObserver`] and through [`Hooks`].

mod batch;
mod cache_actions;
mod cells;
mod chat_template;
mod check;
mod context;
mod coverage;
mod error;
mod fill;
mod generate;
mod hints;
mod job;
mod log;
mod memory;
mod model;
mod prompt;
mod sampler;
mod sequence;
mod session;
mod tap;
mod tokenizer;
mod trial;
mod utf8;
mod wanted_tensors;

use std::ffi::c_void;
use std::ptr;

use dwell_events::Hint;
pub use dwell_events::engine::JobObserver;
use dwell_events::engine::{Engine, EngineFailure, Job};

pub use chat_template::fill_chat_template;
pub use error::EngineError;
pub use job::{run_job, runtime};
pub use tap::{GraphTensor, TensorTap, TrialGraphs};
pub use wanted_tensors::{WantedTensor, wanted_tensors};

/// What llama.cpp calls while it computes.
///
/// Whoever sets `after_node` vouches that it may be called with `after_node_data` until the job ends, on the
/// thread that runs the job, and that it does not panic.
pub struct Hooks<'job> {
    /// Called after each executed graph node; `true` ends the job as an interruption does.
    pub after_node: Option<unsafe extern "C" fn(*mut c_void) -> bool>,
    /// Given to `after_node`.
    pub after_node_data: *mut c_void,
    /// Looks at tensors while they are computed. Its presence costs a trial with the model before the job begins.
    pub tap: Option<&'job mut dyn TensorTap>,
}

impl Default for Hooks<'_> {
    fn default() -> Self {
        Hooks { after_node: None, after_node_data: ptr::null_mut(), tap: None }
    }
}

/// The embedded engine, with what llama.cpp is to call.
#[derive(Default)]
pub struct LlamaEngine<'job> {
    /// Given to the job that is run next; the ones after it have none.
    pub hooks: Hooks<'job>,
}

impl Engine for LlamaEngine<'_> {
    fn run(&mut self, job: &Job, observer: &mut dyn JobObserver) -> Result<(), EngineFailure> {
        run_job(job, std::mem::take(&mut self.hooks), observer)
            .map_err(|error| EngineFailure { message: error.to_string(), hints: error.hints() })
    }
}
