use std::io;

use dwell_events::Hint;

/// Why a process cannot be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// There is no such process, or it has ended.
    #[error("no process has the id {pid}")]
    NoSuchProcess {
        /// Role of the process.
        label: String,
        /// Process id.
        pid: u32,
    },

    /// The process is there and its files may not be opened.
    #[error("watching {label} was not permitted for process {pid}")]
    NotPermitted {
        /// Role of the process.
        label: String,
        /// Process id.
        pid: u32,
    },

    /// The process has no memory of its own: a kernel thread.
    #[error("watching {label} found that process {pid} is a kernel thread, and a program was needed")]
    KernelThread {
        /// Role of the process.
        label: String,
        /// Process id.
        pid: u32,
    },

    /// procfs is missing or gave something unexpected.
    #[error("watching {label} failed with {source} for process {pid}: \"/proc/{pid}\"")]
    Unreadable {
        /// Role of the process.
        label: String,
        /// Process id.
        pid: u32,
        /// What the system said.
        source: io::Error,
    },

    /// The sampling thread could not be started.
    #[error("starting the sampling thread failed with {source}")]
    NoThread {
        /// What the system said.
        source: io::Error,
    },

    /// A process came too late to be sampled: all others had ended, and the sampling with them.
    #[error("watching {label} came too late for process {pid}: the sampling has ended")]
    SamplingEnded {
        /// Role of the process.
        label: String,
        /// Process id.
        pid: u32,
    },

    /// The processes of the machine cannot be listed.
    #[error("listing the processes failed with {source}: \"/proc\"")]
    NoList {
        /// What the system said.
        source: io::Error,
    },

    /// An interval of zero would sample without end.
    #[error("sampling found an interval of zero, and a longer one was needed")]
    ZeroInterval,
}

impl ProcessError {
    #[cfg(target_os = "linux")]
    pub(crate) fn from_io(label: &str, pid: u32, source: io::Error) -> Self {
        let label = label.to_owned();
        if is_gone_error(&source) {
            return Self::NoSuchProcess { label, pid };
        }
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted { label, pid },
            _ => Self::Unreadable { label, pid, source },
        }
    }
}

/// Whether this is how procfs says that a process has ended: its directory is gone, or a file that is still open
/// has nobody to speak of any more.
#[cfg(target_os = "linux")]
pub(crate) fn is_gone_error(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

impl Hint for ProcessError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::NoSuchProcess { .. } => vec!["list the processes: ps -ef".to_owned()],
            Self::NotPermitted { pid, .. } => {
                vec![format!("run as the user of the process, which `ps -o user= -p {pid}` shows, or as root")]
            }
            _ => Vec::new(),
        }
    }
}
