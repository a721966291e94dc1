//! The programs in the kernel, and which of them each group of fields needs.

/// A group of fields that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Block requests.
    Disk,
    /// Page faults.
    Mem,
    /// Time off the processor and on the run queue.
    Sched,
    /// System calls that move data or map memory.
    Syscalls,
    /// System calls that wait.
    Sync,
    /// TCP.
    Net,
    /// Pressure stall information.
    Psi,
}

impl Group {
    /// Every group, in the order in which they are listed.
    pub const ALL: [Self; 7] = [Self::Disk, Self::Mem, Self::Sched, Self::Syscalls, Self::Sync, Self::Net, Self::Psi];

    /// The name, as it is typed and written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Mem => "mem",
            Self::Sched => "sched",
            Self::Syscalls => "syscalls",
            Self::Sync => "sync",
            Self::Net => "net",
            Self::Psi => "psi",
        }
    }

    /// Programs without which its fields are not complete.
    pub(crate) fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Disk => &["block_rq_issue", "block_rq_complete"],
            Self::Mem => &["page_fault_user"],
            Self::Sched => &["sched_switch", "sched_wakeup", "sched_wakeup_new"],
            Self::Syscalls | Self::Sync => &["sys_enter", "sys_exit"],
            Self::Net => &["sock_send_length", "sock_recv_length", "tcp_retransmit_skb"],
            Self::Psi => &[],
        }
    }

    /// Whether it is about threads, whose beginning and end have to be followed.
    pub(crate) fn is_about_threads(self) -> bool {
        !matches!(self, Self::Disk | Self::Psi)
    }
}

/// Programs that follow threads, processes and their names.
pub(crate) const THREAD_PROGRAMS: [&str; 3] = ["sched_process_fork", "sched_process_exec", "sched_process_exit"];

/// Which processes are observed. Block requests are those of the whole machine, since many are issued by the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Chosen {
    /// All.
    #[default]
    All,
    /// A process with all its descendants.
    Process(u32),
    /// A control group with those in it, by its path below the root of control groups or from `/`.
    Cgroup(String),
    /// Processes and threads with this short name.
    Name(String),
}
