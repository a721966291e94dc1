//! SIGINT and SIGTERM of the worker of a traced command.
//!
//! A signal to the whole process group (Ctrl-C, `kill -- -PGID`, a supervisor) reaches the command by itself; one to dwell
//! alone has to be passed on. No field of a signal tells the two apart. The worker is in the group of dwell and of the
//! command, so it holds back what it gets: what is pending in the worker has reached the command.

use std::mem::MaybeUninit;

/// Holds both signals back, in this thread and those that it starts: they stay pending.
pub(crate) fn hold() {
    set_mask(libc::SIG_BLOCK);
}

/// Lets both signals through again, for a program that takes this process over: masks are inherited.
pub fn release_signals() {
    set_mask(libc::SIG_UNBLOCK);
}

fn set_mask(how: libc::c_int) {
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised by the first call, and outlives the others. The last one changes the mask of this
    // thread alone; with valid arguments it cannot fail.
    unsafe {
        libc::sigemptyset(signals.as_mut_ptr());
        libc::sigaddset(signals.as_mut_ptr(), libc::SIGINT);
        libc::sigaddset(signals.as_mut_ptr(), libc::SIGTERM);
        libc::pthread_sigmask(how, signals.as_ptr(), std::ptr::null_mut());
    }
}
