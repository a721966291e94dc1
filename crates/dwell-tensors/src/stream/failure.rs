//! The first thing that went wrong on a thread of the stream; every call after it says so.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::error::StreamError;
use crate::TensorsError;

/// Kept until the stream is gone.
#[derive(Default)]
pub(super) struct Failure {
    first: OnceLock<Cause>,
}

enum Cause {
    Io { action: &'static str, path: PathBuf, error: io::Error },
    Panicked { thread: &'static str },
}

impl Failure {
    /// Keeps an error of the operating system, unless there is one already.
    pub(super) fn keep_io(&self, action: &'static str, path: &Path, error: io::Error) {
        let _ = self.first.set(Cause::Io { action, path: path.to_path_buf(), error });
    }

    /// Keeps that a thread ended by a panic.
    pub(super) fn keep_panic(&self, thread: &'static str) {
        let _ = self.first.set(Cause::Panicked { thread });
    }

    pub(super) fn is_set(&self) -> bool {
        self.first.get().is_some()
    }

    /// Fails if something went wrong.
    pub(super) fn check(&self) -> Result<(), TensorsError> {
        match self.first.get() {
            None => Ok(()),
            Some(Cause::Io { action, path, error }) => Err(TensorsError::from_io(action, path, same_error(error))),
            Some(Cause::Panicked { thread }) => Err(StreamError::ThreadPanicked { thread }.into()),
        }
    }
}

fn same_error(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
