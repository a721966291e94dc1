//! What llama.cpp says: kept for error messages, printed only on demand.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_void};
use std::io::Write;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use llama_cpp_sys_2 as sys;

/// Set to anything but 0 or nothing, lets llama.cpp's log go to stderr.
const PRINT_VARIABLE: &str = "DWELL_LLAMA_LOG";

/// What a line says that tells the size of a buffer.
const BUFFER_SIZE: &str = "buffer size =";

/// Warnings and errors kept for error messages.
const KEPT_LINES: usize = 50;

static PRINT: AtomicBool = AtomicBool::new(false);

thread_local! {
    // Per thread, so that jobs on different threads do not get each other's lines. llama.cpp logs on the
    // thread that called it.
    static LINES: RefCell<VecDeque<String>> = const { RefCell::new(VecDeque::new()) };
    /// Lines that tell the sizes of buffers.
    static BUFFER_LINES: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Prepares llama.cpp for use in this process; further calls do nothing.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let print = std::env::var_os(PRINT_VARIABLE).is_some_and(|value| !value.is_empty() && value != "0");
        PRINT.store(print, Ordering::Relaxed);
        // SAFETY: both callbacks are functions that live as long as the process and need no data.
        unsafe {
            sys::llama_log_set(Some(on_log), ptr::null_mut());
            sys::ggml_set_abort_callback(Some(on_abort));
        }
        // SAFETY: called once, before any other function of llama.cpp.
        unsafe { sys::llama_backend_init() };
    });
}

/// Forgets the lines of this thread, so that a later [`reason`] is about what comes now.
pub(crate) fn forget() {
    LINES.with_borrow_mut(VecDeque::clear);
}

/// The warnings and errors since [`forget`], in one line.
pub(crate) fn reason() -> String {
    LINES.with_borrow(|lines| {
        let reasons: Vec<&str> = lines.iter().map(|line| without_origin(line)).filter(|line| !is_echo(line)).collect();
        match reasons.len() {
            0 => "llama.cpp gave no reason".to_owned(),
            _ => reasons.join("; "),
        }
    })
}

/// The buffers that were allocated on this thread since the last call, in llama.cpp's words.
pub(crate) fn take_buffer_lines() -> String {
    BUFFER_LINES.take()
}

/// A line without the names of llama.cpp's functions in front of it.
fn without_origin(line: &str) -> &str {
    match line.split_once(": ") {
        Some((origin, rest)) if !origin.contains(' ') && !rest.is_empty() => without_origin(rest),
        _ => line,
    }
}

/// Whether a line only repeats that something failed, after the line that says why.
fn is_echo(line: &str) -> bool {
    let echoes = ["failed to load model", "error loading model: llama_model_loader: failed to load model"];
    echoes.iter().any(|echo| line.starts_with(echo))
}

unsafe extern "C" fn on_log(level: sys::ggml_log_level, text: *const c_char, _data: *mut c_void) {
    if text.is_null() {
        return;
    }
    // SAFETY: llama.cpp gives a NUL-terminated text that is valid during the call.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    if PRINT.load(Ordering::Relaxed) {
        // A closed stderr must not end the job.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
    if level == sys::GGML_LOG_LEVEL_WARN || level == sys::GGML_LOG_LEVEL_ERROR {
        keep(&text);
    }
    if text.contains(BUFFER_SIZE) {
        // Fails only while the thread ends.
        let _ = BUFFER_LINES.try_with(|lines| lines.try_borrow_mut().map(|mut lines| lines.push_str(&text)));
    }
}

fn keep(text: &str) {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Fails only while the thread ends, when no error message will ask for the line.
    let _ = LINES.try_with(|lines| {
        let Ok(mut lines) = lines.try_borrow_mut() else { return };
        if line.is_empty() {
            return;
        }
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    });
}

/// Says why the process is about to abort; without it, ggml starts a debugger to print a backtrace.
unsafe extern "C" fn on_abort(message: *const c_char) {
    // SAFETY: ggml gives a NUL-terminated text that is valid during the call.
    let message = unsafe { CStr::from_ptr(message) }.to_string_lossy();
    let _ = writeln!(std::io::stderr(), "llama.cpp aborted the process: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_lines_only() {
        forget();
        for number in 0..KEPT_LINES + 3 {
            keep(&format!("line {number}\n"));
        }
        let reason = reason();
        assert!(reason.starts_with("line 3; "), "{reason}");
        assert!(reason.ends_with("line 52"), "{reason}");
    }

    #[test]
    fn the_reason_is_what_went_wrong_and_not_where() {
        forget();
        keep("llama_model_load: error loading model: tensor 'a' is not within the file bounds\n");
        keep("llama_model_load_from_file_impl: failed to load model\n");
        assert_eq!(reason(), "error loading model: tensor 'a' is not within the file bounds");
    }

    #[test]
    fn says_so_when_nothing_was_said() {
        forget();
        keep("\n");
        assert_eq!(reason(), "llama.cpp gave no reason");
    }
}
