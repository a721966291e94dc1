//! Which pages of a process were touched, as the kernel tells it: writes page by page, accesses by mapping.
//!
//! Writes are noted by a userfaultfd with asynchronous write protection: no access of the process ever waits for an answer. The
//! descriptor must be made by the process itself, so [`inject`] makes it call `userfaultfd` once; the copy that the process then
//! has is closed again. When this program ends, however it ends, the kernel closes the only descriptor left and takes the
//! protection away.
//!
//! ```text
//! WriteTracker::attach ─▶ one injected system call ─▶ WriteNotes (descriptor) ─▶ each scan: new mappings are registered,
//!                                                      /proc/<pid>/pagemap is scanned ─▶ ranges written since the last scan
//! ```

mod inject;
mod mappings;
mod notes;
mod pagemap;
mod references;
mod tracker;

use std::io;

pub use mappings::{Mapping, mappings_of};
pub use notes::WriteNotes;
pub use pagemap::{PageRange, Pagemap};
pub use references::{Referenced, References};
pub use tracker::{ScanReport, WriteTracker, Written};

/// What the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("{call} failed with {source}")]
pub struct PagesError {
    /// What was called, for what.
    pub call: &'static str,
    /// What was returned.
    pub source: io::Error,
}

impl PagesError {
    /// For `map_err`.
    fn of<E: Into<io::Error>>(call: &'static str) -> impl Fn(E) -> Self {
        move |source| Self { call, source: source.into() }
    }

    /// Whether the right to do it is missing.
    pub fn is_forbidden(&self) -> bool {
        matches!(self.source.raw_os_error(), Some(libc::EPERM | libc::EACCES))
    }

    /// Whether the process is gone, or has become another program.
    pub fn is_gone(&self) -> bool {
        matches!(self.source.raw_os_error(), Some(libc::ESRCH | libc::ECHILD | libc::ENOENT))
    }
}
