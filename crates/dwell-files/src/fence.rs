//! A fence around decoders that assert where a damaged file can reach.
//!
//! `arrow_ipc` and `parquet` return errors for most damage, but not for all: of some ten thousand files with one
//! changed byte, a few end in an assertion or an index out of bounds. To the caller that is damage like any
//! other. The fence can go once these libraries return errors instead.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static IS_FENCED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `decode`; a panic inside it is an error with this text, and prints nothing.
pub fn fenced<T>(decode: impl FnOnce() -> T) -> Result<T, String> {
    quiet_fenced_panics();
    let was_fenced = IS_FENCED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(decode));
    IS_FENCED.set(was_fenced);
    outcome.map_err(|_| "content that does not fit its description".to_owned())
}

/// Puts a hook before the one that reports panics; it passes on every panic outside of a fence.
fn quiet_fenced_panics() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let report = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_FENCED.get() {
                report(panic);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_inside_the_fence_is_an_error() {
        assert_eq!(fenced(|| 1), Ok(1));
        let nothing: [u8; 0] = [];
        assert!(fenced(|| std::hint::black_box(nothing.as_slice())[0]).is_err());
        assert!(!IS_FENCED.get());
    }
}
