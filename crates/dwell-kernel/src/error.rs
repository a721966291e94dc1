use std::io;
use std::path::PathBuf;

use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;
use dwell_events::Hint;

/// Why the kernel could not be observed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The kernel does not say how its structures are laid out.
    #[error("reading the kernel's types failed: {reason}: {path:?}")]
    NoTypes {
        /// Where they should be.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },

    /// This user may not load programs.
    #[error("loading eBPF programs is not permitted to this user")]
    Forbidden,

    /// The programs could not be loaded.
    #[error("loading eBPF programs failed: {reason}")]
    NotLoaded {
        /// What the kernel or the loader said.
        reason: String,
    },

    /// A map could not be read.
    #[error("reading the eBPF map {map} failed with {source}")]
    Map {
        /// Its name.
        map: &'static str,
        /// What the kernel said.
        source: Box<MapError>,
    },

    /// A process that was to be observed is not there.
    #[error("observing found no process {pid}")]
    NoSuchProcess {
        /// Its id.
        pid: u32,
    },

    /// A control group that was to be observed is not there.
    #[error("observing found no control group {path:?}: {source}")]
    NoSuchCgroup {
        /// Where it was looked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Hint for KernelError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Forbidden => {
                vec!["sudo setcap cap_bpf,cap_perfmon,cap_dac_read_search+ep \"$(command -v dwell)\"".to_owned()]
            }
            Self::NoTypes { .. } => vec!["a kernel built with CONFIG_DEBUG_INFO_BTF has them".to_owned()],
            Self::NoSuchProcess { .. } => vec!["list the processes: ps -ef".to_owned()],
            Self::NoSuchCgroup { .. } => vec!["list the control groups: systemd-cgls".to_owned()],
            Self::NotLoaded { .. } | Self::Map { .. } => Vec::new(),
        }
    }
}

impl From<EbpfError> for KernelError {
    fn from(error: EbpfError) -> Self {
        refused(&error)
    }
}

impl From<ProgramError> for KernelError {
    fn from(error: ProgramError) -> Self {
        refused(&error)
    }
}

/// Whether the user may not, or something else is wrong. Both errors keep what the system said somewhere among their causes.
fn refused(error: &(dyn std::error::Error + 'static)) -> KernelError {
    let causes = || std::iter::successors(Some(error), |&error| error.source());
    let code = causes().find_map(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error());
    if matches!(code, Some(libc::EPERM | libc::EACCES)) {
        return KernelError::Forbidden;
    }
    let mut reason = String::new();
    for text in causes().map(ToString::to_string) {
        // The log of the verifier has thousands of lines, and many errors tell their cause already.
        let text = text.lines().next().unwrap_or_default().to_owned();
        if !reason.contains(&text) {
            reason.push_str(if reason.is_empty() { "" } else { ": " });
            reason.push_str(&text);
        }
    }
    KernelError::NotLoaded { reason }
}
