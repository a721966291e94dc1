//! The worker of a capture: engine and tensor stream in one process.

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dwell_capture::{CaptureError, CaptureEvent, CaptureJob, Capturer, GenerationEnd, Strided};
use dwell_events::Hint;
use dwell_events::engine::{EngineEvent, StopReason};
use dwell_llama::{EngineError, GraphTensor, Hooks, JobObserver, TensorTap, TrialGraphs};

use crate::{given_job, interruption_flag};

/// How often the observer is told how far the stream is.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) fn run_from_stdin() -> Result<(), String> {
    let job: CaptureJob = given_job()?;
    let capturer = Rc::new(RefCell::new(Capturer::new(job.clone(), dwell_llama::runtime())));
    let mut tap = Tap { capturer: capturer.clone(), copy: Vec::new() };
    let mut observer = Observer {
        capturer: capturer.clone(),
        is_interrupted: interruption_flag(),
        was_cut: false,
        reported_at: Instant::now(),
    };
    let done = dwell_llama::run_job(&job.job, Hooks { tap: Some(&mut tap), ..Hooks::default() }, &mut observer);
    let end = match &done {
        Err(_) => GenerationEnd::Failed,
        Ok(()) if observer.was_cut => GenerationEnd::Interrupted,
        Ok(()) => GenerationEnd::Done,
    };
    drop((tap, observer));
    let capturer = Rc::into_inner(capturer).ok_or("the capture is still in use")?.into_inner();
    match capturer.end(end) {
        Ok(ended) => ended.iter().for_each(report),
        Err(error) => report_failure(error.to_string(), error.hints()),
    }
    if let Err(error) = done {
        report_failure(error.to_string(), error.hints());
    }
    Ok(())
}

/// Tells the observer. If it is gone, so is this process in a moment.
fn report(event: &CaptureEvent) {
    if let Ok(line) = serde_json::to_string(event) {
        let _ = writeln!(std::io::stdout().lock(), "{line}");
    }
}

fn report_failure(message: String, hints: Vec<String>) {
    report(&CaptureEvent::Engine { event: EngineEvent::Failed { message, hints } });
}

struct Tap {
    capturer: Rc<RefCell<Capturer>>,
    copy: Vec<u8>,
}

impl TensorTap for Tap {
    fn begin(&mut self, graphs: &TrialGraphs) -> Result<(), EngineError> {
        let refused =
            |error: CaptureError| EngineError::TapRefused { message: error.to_string(), hints: error.hints() };
        let event = self.capturer.borrow_mut().begin(&graphs.prompt, &graphs.decode).map_err(refused)?;
        report(&event);
        Ok(())
    }

    fn wants(&mut self, tensor: &GraphTensor<'_>) -> bool {
        self.capturer.borrow_mut().wants(&tensor.node())
    }

    fn computed(&mut self, tensor: &GraphTensor<'_>) {
        let (lengths, strides_bytes) = (tensor.lengths(), tensor.strides_bytes());
        let memory = tensor.memory(&mut self.copy);
        self.capturer.borrow_mut().computed(Strided { memory, lengths, strides_bytes });
    }
}

struct Observer {
    capturer: Rc<RefCell<Capturer>>,
    is_interrupted: Arc<AtomicBool>,
    /// Whether the interruption cost anything.
    was_cut: bool,
    reported_at: Instant,
}

impl JobObserver for Observer {
    fn event(&mut self, event: EngineEvent) {
        match &event {
            EngineEvent::BatchBegins { step, .. } => {
                return self.capturer.borrow_mut().graph_begins(u64::from(*step));
            }
            EngineEvent::BatchEnds { .. } | EngineEvent::Prompt { .. } => return self.report_progress(),
            EngineEvent::Token { id: Some(id), text, .. } => self.capturer.borrow_mut().token(i64::from(*id), text),
            EngineEvent::Stopped { reason: StopReason::Interrupted, .. } => self.was_cut = true,
            _ => {}
        }
        report(&CaptureEvent::Engine { event });
    }

    fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::Relaxed) || self.capturer.borrow().has_failed()
    }
}

impl Observer {
    fn report_progress(&mut self) {
        if self.reported_at.elapsed() >= PROGRESS_INTERVAL
            && let Some(counts) = self.capturer.borrow().counts()
        {
            self.reported_at = Instant::now();
            report(&CaptureEvent::Progress { counts });
        }
    }
}
