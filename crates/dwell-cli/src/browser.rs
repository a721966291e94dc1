//! Opening what dwell made in the user's browser.

use std::ffi::OsStr;

use crate::messages::{Failure, print_failure};

/// Whether a browser took a file or an address; if not, that is said, and where the user finds it.
pub(crate) fn opens_in_browser(target: &OsStr, where_it_is: &str) -> bool {
    let is_opened = open::that_detached(target).is_ok();
    if !is_opened {
        let failure = Failure::new(format!("opening {target:?} found no browser; {where_it_is}"));
        print_failure(&failure.hint("open it in a browser yourself"));
    }
    is_opened
}
