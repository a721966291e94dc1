//! A job from loading to teardown.

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

use dwell_events::Phase;
use dwell_events::engine::{EngineEvent, Job};
use llama_cpp_sys_2 as sys;

use crate::model::Model;
use crate::session::{Session, Totals};
use crate::{EngineError, Hooks, JobObserver, TensorTap, check, trial};

/// The crate that llama.cpp comes with; its version is pinned in the workspace.
const BINDINGS: &str = "llama-cpp-sys-2 0.1.160";

/// Loads the model of a job, does its actions, and gives everything back.
///
/// Events come in this order: the load phase with its progress, what was loaded and allocated, the generation phase with what
/// the actions tell, the teardown phase, and [`EngineEvent::Finished`] once context and model are freed. An
/// interruption ends the actions early and is no error. After an error the teardown phase still comes, the end
/// does not; a job that is refused before loading tells nothing.
pub fn run_job(job: &Job, hooks: Hooks<'_>, observer: &mut dyn JobObserver) -> Result<(), EngineError> {
    check::check_job(job)?;
    begin(Phase::WeightLoad, observer);
    let totals = match Model::load(&job.options, observer) {
        Ok(Some(model)) => run_with_model(&model, job, hooks, observer)?,
        Ok(None) => {
            begin(Phase::Teardown, observer);
            Totals::default()
        }
        Err(error) => {
            begin(Phase::Teardown, observer);
            return Err(error);
        }
    };
    let Totals { prompt_tokens, prompt_ns, generated_tokens, decode_ns } = totals;
    observer.event(EngineEvent::Finished { prompt_tokens, cached_tokens: 0, prompt_ns, generated_tokens, decode_ns });
    Ok(())
}

fn run_with_model(
    model: &Model,
    job: &Job,
    hooks: Hooks<'_>,
    observer: &mut dyn JobObserver,
) -> Result<Totals, EngineError> {
    // A tap for as long as this model lives, which may be shorter than what was given.
    let tap = hooks.tap.map(|tap| -> &mut dyn TensorTap { tap });
    let mut session = begin_session(model, job, Hooks { tap, ..hooks });
    let result = match &mut session {
        Ok(session) => session.run(&job.actions, observer).map(|()| session.totals),
        Err(_) => Ok(Totals::default()),
    };
    // The context is freed on return and the model by the caller, both after this.
    begin(Phase::Teardown, observer);
    session?;
    result
}

/// Lets the tap know what it will see, and makes the context.
fn begin_session<'job>(
    model: &'job Model,
    job: &'job Job,
    mut hooks: Hooks<'job>,
) -> Result<Session<'job>, EngineError> {
    if let Some(tap) = &mut hooks.tap {
        tap.begin(&trial::graphs(model, &job.options)?)?;
    }
    Session::new(model, &job.options, hooks)
}

fn begin(phase: Phase, observer: &mut dyn JobObserver) {
    observer.event(EngineEvent::PhaseBegins { phase });
}

/// Version of the runtime.
pub fn runtime() -> String {
    // SAFETY: has no preconditions.
    let (llama, ggml) = unsafe { (sys::llama_version(), sys::ggml_version()) };
    format!("llama.cpp {}, ggml {} ({BINDINGS})", static_text(llama), static_text(ggml))
}

/// What the runtime was built for.
pub(crate) fn system_info() -> String {
    // llama.cpp writes the text anew for each call, into memory that all calls share.
    static INFO: OnceLock<String> = OnceLock::new();
    INFO.get_or_init(|| {
        // SAFETY: the backends are loaded; no other call is in progress.
        let info = static_text(unsafe { sys::llama_print_system_info() });
        info.trim().trim_end_matches('|').trim_end().to_owned()
    })
    .clone()
}

/// A text that llama.cpp keeps for the process's life.
fn static_text(text: *const c_char) -> String {
    if text.is_null() {
        return "unknown".to_owned();
    }
    // SAFETY: llama.cpp's versions and system info are NUL-terminated and static.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
