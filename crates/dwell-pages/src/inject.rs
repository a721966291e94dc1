//! One system call made by another process: `userfaultfd`, whose result then belongs to this process alone.
//!
//! The process is stopped for about 2 ms. Its registers are put back before it goes on, and a system call that the stop
//! interrupted is begun again, as after a signal. If this program were killed within these 2 ms, the process would go on with
//! the registers of the injected call and crash: there is no way to make the whole exchange one operation.

use std::os::fd::OwnedFd;

use crate::PagesError;

/// A userfault descriptor of another process.
#[cfg(target_arch = "x86_64")]
pub(crate) fn userfaultfd_of(pid: u32) -> Result<OwnedFd, PagesError> {
    x86_64::userfaultfd_of(pid)
}

/// A userfault descriptor of another process.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn userfaultfd_of(_: u32) -> Result<OwnedFd, PagesError> {
    let source = std::io::Error::other("only programs for x86-64 can be attached to");
    Err(PagesError { call: "making the process call userfaultfd", source })
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::fs::{self, File};
    use std::io;
    use std::mem::{MaybeUninit, size_of};
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::FileExt;
    use std::ptr;

    use libc::{c_long, c_uint, pid_t, user_regs_struct};
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

    use crate::PagesError;
    use crate::mappings::mappings_of;
    use crate::notes;

    /// The instruction `syscall`.
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    /// Segment of 64-bit code; 32-bit programs have other numbers for system calls.
    const USER_CODE_SEGMENT: u64 = 0x33;
    /// `-ERESTARTSYS`, `-ERESTARTNOINTR`, `-ERESTARTNOHAND`: an interrupted system call that is to be begun again.
    const BEGIN_AGAIN: [i64; 3] = [-512, -513, -514];
    /// `-ERESTART_RESTARTBLOCK`: one that is to be continued with `restart_syscall`.
    const CONTINUE: i64 = -516;
    const NO_SYSCALL: u64 = u64::MAX;

    pub(super) fn userfaultfd_of(pid: u32) -> Result<OwnedFd, PagesError> {
        refuse_own_seccomp(pid)?;
        let target = pid_t::try_from(pid).ok().and_then(Pid::from_raw);
        let target = target.ok_or_else(|| error("finding the process", io::Error::from_raw_os_error(libc::ESRCH)))?;
        let pidfd = pidfd_open(target, PidfdFlags::empty()).map_err(PagesError::of("pidfd_open"))?;
        let mut stopped = Stopped::stop(target.as_raw_nonzero().get())?;
        let fd = stopped.call(libc::SYS_userfaultfd, notes::flags().bits().into())?;
        let fd =
            i32::try_from(fd).map_err(|_| error("userfaultfd in the process", io::Error::other("no descriptor")))?;
        let taken = pidfd_getfd(&pidfd, fd, PidfdGetfdFlags::empty()).map_err(PagesError::of("pidfd_getfd"));
        // The process keeps no copy, which would keep the write protection alive after the end of this program.
        let closed = stopped.call(libc::SYS_close, fd.cast_unsigned().into());
        stopped.go_on()?;
        let taken = taken?;
        closed.map(|_| taken)
    }

    fn error(call: &'static str, source: io::Error) -> PagesError {
        PagesError { call, source }
    }

    /// Refuses a process that has forbidden itself system calls: an injected one could end it.
    fn refuse_own_seccomp(pid: u32) -> Result<(), PagesError> {
        let filters = |pid: &str| -> io::Result<Option<String>> {
            let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
            Ok(status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:")).map(|text| text.trim().to_owned()))
        };
        let call = "reading /proc/<pid>/status";
        let (theirs, ours) = (filters(&pid.to_string()), filters("self"));
        // What a container forbids to all, it forbids to us too.
        if theirs.map_err(PagesError::of(call))? == ours.map_err(PagesError::of(call))? {
            return Ok(());
        }
        Err(error("attaching", io::Error::other("the process has a seccomp filter of its own")))
    }

    /// Address of an instruction that enters the kernel: the vDSO has one, and every program has the vDSO.
    fn syscall_instruction(pid: u32) -> Result<u64, PagesError> {
        let mappings = mappings_of(pid).map_err(PagesError::of("reading /proc/<pid>/maps"))?;
        let no_instruction = || error("attaching", io::Error::other("the process has no vDSO with a system call"));
        let vdso = mappings.into_iter().find(|mapping| &*mapping.name == "[vdso]").ok_or_else(no_instruction)?.range;
        let mut code = vec![0; usize::try_from(vdso.end - vdso.start).unwrap_or(0)];
        let memory = File::open(format!("/proc/{pid}/mem")).map_err(PagesError::of("opening /proc/<pid>/mem"))?;
        memory.read_exact_at(&mut code, vdso.start).map_err(PagesError::of("reading /proc/<pid>/mem"))?;
        let offset = code.windows(SYSCALL.len()).position(|bytes| bytes == SYSCALL).ok_or_else(no_instruction)?;
        Ok(vdso.start + offset as u64)
    }

    /// A request whose last argument is a number or an address in this process.
    fn ptrace(request: c_uint, pid: pid_t, address: usize, data: usize) -> io::Result<c_long> {
        // SAFETY: the requests made here read and write this process's memory only where `data` is the address of a value of the
        // type that the request asks for, which lives during the call.
        match unsafe { libc::ptrace(request, pid, address, data) } {
            -1 => Err(io::Error::last_os_error()),
            value => Ok(value),
        }
    }

    /// A stopped process. Dropped, it goes on where it was.
    struct Stopped {
        pid: pid_t,
        instruction: u64,
        /// What the process goes on with.
        registers: user_regs_struct,
        signals: u64,
    }

    impl Stopped {
        fn stop(pid: pid_t) -> Result<Self, PagesError> {
            let options = libc::PTRACE_O_TRACESYSGOOD as usize;
            ptrace(libc::PTRACE_SEIZE, pid, 0, options).map_err(PagesError::of("ptrace(PTRACE_SEIZE)"))?;
            ptrace(libc::PTRACE_INTERRUPT, pid, 0, 0).map_err(PagesError::of("ptrace(PTRACE_INTERRUPT)"))?;
            loop {
                let status = wait(pid)?;
                if status >> 16 == libc::PTRACE_EVENT_STOP {
                    break;
                }
                // A signal came first; the process gets it.
                let signal = libc::WSTOPSIG(status) as usize;
                ptrace(libc::PTRACE_CONT, pid, 0, signal).map_err(PagesError::of("ptrace(PTRACE_CONT)"))?;
            }
            Self::of_stopped(pid).inspect_err(|_| {
                // The process goes on, whatever could not be read of it.
                let _ = ptrace(libc::PTRACE_DETACH, pid, 0, 0);
            })
        }

        fn of_stopped(pid: pid_t) -> Result<Self, PagesError> {
            // Looked for only now: until it was stopped, the process could become another program, whose vDSO lies elsewhere.
            let instruction = syscall_instruction(pid.cast_unsigned())?;
            let registers = registers(pid)?;
            if registers.cs != USER_CODE_SEGMENT {
                return Err(error("attaching", io::Error::other("the process runs 32-bit code")));
            }
            let mut signals = 0_u64;
            ptrace(libc::PTRACE_GETSIGMASK, pid, size_of::<u64>(), ptr::from_mut(&mut signals) as usize)
                .map_err(PagesError::of("ptrace(PTRACE_GETSIGMASK)"))?;
            let stopped = Self { pid, instruction, registers: restarted(registers), signals };
            // No handler of the process runs in the middle of an injected call.
            stopped.set_signals(u64::MAX).map_err(PagesError::of("ptrace(PTRACE_SETSIGMASK)"))?;
            Ok(stopped)
        }

        /// Has the process make a system call with one argument.
        fn call(&mut self, number: c_long, argument: u64) -> Result<i64, PagesError> {
            let registers_of_call = user_regs_struct {
                rax: number.cast_unsigned(),
                orig_rax: NO_SYSCALL,
                rdi: argument,
                rip: self.instruction,
                ..self.registers
            };
            self.set_registers(&registers_of_call).map_err(PagesError::of("ptrace(PTRACE_SETREGS)"))?;
            // Once until it enters the kernel, once until it leaves it.
            for _ in 0..2 {
                self.go_on_to_the_kernel()?;
            }
            match registers(self.pid)?.rax.cast_signed() {
                result @ 0.. => Ok(result),
                failed => {
                    let source = io::Error::from_raw_os_error(i32::try_from(-failed).unwrap_or(libc::EINVAL));
                    Err(error("userfaultfd in the process", source))
                }
            }
        }

        /// Until the process enters the kernel, or leaves it.
        fn go_on_to_the_kernel(&self) -> Result<(), PagesError> {
            loop {
                ptrace(libc::PTRACE_SYSCALL, self.pid, 0, 0).map_err(PagesError::of("ptrace(PTRACE_SYSCALL)"))?;
                let status = wait(self.pid)?;
                match libc::WSTOPSIG(status) {
                    signal if signal == libc::SIGTRAP | 0x80 => return Ok(()),
                    _ if status >> 16 == libc::PTRACE_EVENT_STOP => {}
                    // It cannot run the instruction: going on would raise the same signal for ever.
                    libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE | libc::SIGTRAP => {
                        let source = io::Error::other("the process raised a signal instead of making the call");
                        return Err(error("userfaultfd in the process", source));
                    }
                    _ => {}
                }
            }
        }

        /// Lets the process go on; an error says that it may not have its registers back.
        fn go_on(self) -> Result<(), PagesError> {
            self.set_registers(&self.registers).map_err(PagesError::of("ptrace(PTRACE_SETREGS)"))
        }

        fn set_registers(&self, registers: &user_regs_struct) -> io::Result<()> {
            ptrace(libc::PTRACE_SETREGS, self.pid, 0, ptr::from_ref(registers) as usize).map(drop)
        }

        fn set_signals(&self, signals: u64) -> io::Result<()> {
            ptrace(libc::PTRACE_SETSIGMASK, self.pid, size_of::<u64>(), ptr::from_ref(&signals) as usize).map(drop)
        }
    }

    impl Drop for Stopped {
        fn drop(&mut self) {
            // Where these fail, the process is gone.
            let _ = self.set_registers(&self.registers);
            let _ = self.set_signals(self.signals);
            if ptrace(libc::PTRACE_DETACH, self.pid, 0, 0).is_err() {
                release_ended(self.pid);
            }
        }
    }

    /// Reaps the trace event of a process that was killed while it was traced; until then its parent cannot wait for it. If it
    /// is our own child, its exit status stays available to `waitpid`.
    fn release_ended(pid: pid_t) {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        if parent.is_some_and(|parent| parent != std::process::id()) {
            // SAFETY: a status is not asked for.
            unsafe { libc::waitpid(pid, ptr::null_mut(), libc::__WALL) };
        }
    }

    fn registers(pid: pid_t) -> Result<user_regs_struct, PagesError> {
        let mut registers = MaybeUninit::<user_regs_struct>::zeroed();
        ptrace(libc::PTRACE_GETREGS, pid, 0, registers.as_mut_ptr() as usize)
            .map_err(PagesError::of("ptrace(PTRACE_GETREGS)"))?;
        // SAFETY: it was all zeros, which is a value of it, and the kernel has written to it.
        Ok(unsafe { registers.assume_init() })
    }

    /// The registers with which an interrupted system call is begun again.
    fn restarted(registers: user_regs_struct) -> user_regs_struct {
        let again = |number: u64| user_regs_struct {
            rax: number,
            rip: registers.rip - SYSCALL.len() as u64,
            orig_rax: NO_SYSCALL,
            ..registers
        };
        match registers.rax.cast_signed() {
            _ if registers.orig_rax.cast_signed() < 0 => registers,
            result if BEGIN_AGAIN.contains(&result) => again(registers.orig_rax),
            CONTINUE => again(libc::SYS_restart_syscall.cast_unsigned()),
            _ => user_regs_struct { orig_rax: NO_SYSCALL, ..registers },
        }
    }

    /// Waits until the process has stopped. If it is our own child and has exited, its status stays available to `waitpid`.
    fn wait(pid: pid_t) -> Result<i32, PagesError> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let options = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
        let id = pid.cast_unsigned();
        // SAFETY: `info` is a valid place for what is returned.
        while unsafe { libc::waitid(libc::P_PID, id, info.as_mut_ptr(), options) } != 0 {
            let failed = io::Error::last_os_error();
            if failed.kind() != io::ErrorKind::Interrupted {
                return Err(error("waitid", failed));
            }
        }
        // SAFETY: it was all zeros, which is a value of it, and the kernel has written to it.
        let code = unsafe { info.assume_init() }.si_code;
        if code != libc::CLD_TRAPPED && code != libc::CLD_STOPPED {
            release_ended(pid);
            return Err(error("waiting for the process", io::Error::from_raw_os_error(libc::ESRCH)));
        }
        let mut status = 0;
        // SAFETY: `status` is a valid place for what is returned.
        match unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL | libc::WNOHANG) } {
            found if found == pid => Ok(status),
            _ => Err(error("waitpid", io::Error::from_raw_os_error(libc::ESRCH))),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn stopped_in(orig_rax: i64, rax: i64) -> user_regs_struct {
            // SAFETY: all zeros are a value of it.
            let zeros: user_regs_struct = unsafe { std::mem::zeroed() };
            user_regs_struct { orig_rax: orig_rax.cast_unsigned(), rax: rax.cast_unsigned(), rip: 100, ..zeros }
        }

        #[test]
        fn interrupted_system_calls_begin_again_and_others_go_on() {
            let read = restarted(stopped_in(libc::SYS_read, -512));
            assert_eq!((read.rax, read.rip, read.orig_rax), (libc::SYS_read.cast_unsigned(), 98, NO_SYSCALL));
            let sleep = restarted(stopped_in(libc::SYS_clock_nanosleep, -516));
            assert_eq!((sleep.rax, sleep.rip), (libc::SYS_restart_syscall.cast_unsigned(), 98));
            let finished = restarted(stopped_in(libc::SYS_read, 7));
            assert_eq!((finished.rax, finished.rip), (7, 100));
            let computing = restarted(stopped_in(-1, -512));
            assert_eq!((computing.rax.cast_signed(), computing.rip), (-512, 100));
        }
    }
}
