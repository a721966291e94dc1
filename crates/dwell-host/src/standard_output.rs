//! Whether the program was started with a closed standard output.
//!
//! Before `main`, Rust's runtime opens `/dev/null` in the place of a closed one, and what is printed is lost in silence. So it
//! is looked at earlier than that.

use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether standard output was closed, as by `>&-`. Nothing that is printed arrives then.
pub fn was_standard_output_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}

#[allow(unsafe_code, reason = "no crate asks this early")]
extern "C" fn look() {
    // SAFETY: asking for the flags of a descriptor changes nothing, and needs nothing that is set up later.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

// SAFETY: the C library calls every function of this section once before `main`; this one uses no runtime of Rust's.
#[allow(unsafe_code, reason = "the only way to be called before Rust's runtime")]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;
