//! What can go wrong with a stream besides the disk.

use std::path::PathBuf;

use dwell_events::Hint;

/// Why a stream cannot be written, or not gone on with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The options contradict each other or the machine.
    #[error("beginning a tensor stream found {option} = {reason}")]
    UnfitOption {
        /// Name of the option.
        option: &'static str,
        /// What was found, and what was needed.
        reason: String,
    },

    /// A tensor needs more than all the memory there may be.
    #[error(
        "handing over tensor {name:?} found that it needs {needed_bytes} bytes of memory, and there are {limit_bytes}"
    )]
    TooLarge {
        /// Name of the tensor.
        name: String,
        /// Bytes of its elements, its payload at the worst, and what goes with them.
        needed_bytes: u64,
        /// Bytes that tensors may take.
        limit_bytes: u64,
    },

    /// Another process or stream writes the file.
    #[error("opening a tensor stream for writing found that another capture writes it: {path:?}")]
    Busy {
        /// The file.
        path: PathBuf,
    },

    /// A thread of the stream ended by a panic.
    #[error("writing a tensor stream found that its thread {thread} had panicked")]
    ThreadPanicked {
        /// Name of the thread.
        thread: &'static str,
    },

    /// The stream takes nothing any more.
    #[error("handing over a tensor found that the stream had ended")]
    Ended,

    /// There is nothing to go on from.
    #[error("resuming a tensor stream found no checkpoint {checkpoint:?}, and one is needed: {path:?}")]
    NoCheckpoint {
        /// Where it was looked for.
        checkpoint: PathBuf,
        /// The stream.
        path: PathBuf,
    },

    /// There is nothing left to do.
    #[error("resuming a tensor stream found that it is finished: {path:?}")]
    Finished {
        /// The stream.
        path: PathBuf,
    },

    /// The checkpoint cannot be read.
    #[error("reading a checkpoint found {reason}: {checkpoint:?}")]
    UnfitCheckpoint {
        /// What is wrong with it.
        reason: String,
        /// The checkpoint.
        checkpoint: PathBuf,
    },

    /// The checkpoint was made for another stream.
    #[error("resuming a tensor stream found a checkpoint of another one ({reason}): {checkpoint:?}")]
    OtherStream {
        /// How they differ.
        reason: String,
        /// The checkpoint.
        checkpoint: PathBuf,
    },

    /// The stream lost what the checkpoint says was in it.
    #[error("resuming a tensor stream found {reason}, and the checkpoint needs {needed_bytes} whole bytes: {path:?}")]
    LostSinceCheckpoint {
        /// What was found.
        reason: String,
        /// Bytes of the stream at the checkpoint.
        needed_bytes: u64,
        /// The stream.
        path: PathBuf,
    },

    /// A stream is gone on with as it was begun, or not at all.
    #[error("resuming a tensor stream found {setting} = {found:?}, and it was begun with {begun:?}: {path:?}")]
    OtherSettings {
        /// Which setting.
        setting: String,
        /// What it is now.
        found: String,
        /// What it was.
        begun: String,
        /// The stream.
        path: PathBuf,
    },
}

impl Hint for StreamError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::TooLarge { needed_bytes, .. } => {
                let needed_mib = needed_bytes.div_ceil(1 << 20);
                vec![
                    format!(
                        "raise the memory limit to at least {needed_mib} MiB: --max-memory {needed_mib}MiB, or \
                         max_memory_gb in Python"
                    ),
                    "capture a slice of the tensor, or drop what does not fit with the policy `drop`".to_owned(),
                ]
            }
            Self::Busy { path } => vec![format!("see who writes it with `fuser -v '{}'`", path.display())],
            Self::ThreadPanicked { .. } => {
                vec!["what was flushed before is whole: `dwell tensors recover FILE` ends such a stream".to_owned()]
            }
            Self::NoCheckpoint { path, .. } => vec![
                format!("end what is there with `dwell tensors recover '{}'`", path.display()),
                "begin the capture anew, without resuming".to_owned(),
            ],
            Self::Finished { path } => vec![format!("look at it with `dwell tensors stats '{}'`", path.display())],
            Self::UnfitCheckpoint { .. } | Self::OtherStream { .. } => {
                vec!["end what is there with `dwell tensors recover FILE`, or begin anew".to_owned()]
            }
            Self::LostSinceCheckpoint { path, .. } => {
                vec![format!("see what is left of it with `dwell tensors verify '{}'`", path.display())]
            }
            Self::OtherSettings { setting, begun, .. } => {
                vec![format!("resume with {setting} = {begun:?}, or write another file")]
            }
            Self::UnfitOption { .. } | Self::Ended => Vec::new(),
        }
    }
}
