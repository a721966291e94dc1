//! System calls that programs use to read, write, map and wait.

use crate::programs::Group;

/// What the result of a call counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moves {
    Nothing,
    ReadBytes,
    WrittenBytes,
}

/// A call that is traced.
pub(crate) struct TracedCall {
    pub(crate) name: &'static str,
    pub(crate) number: i64,
    pub(crate) moves: Moves,
    pub(crate) group: Group,
}

const fn call(name: &'static str, number: i64, moves: Moves, group: Group) -> TracedCall {
    TracedCall { name, number, moves, group }
}

use Group::{Sync, Syscalls};
use Moves::{Nothing, ReadBytes, WrittenBytes};

/// Every traced call; its place is the place of its counters in the kernel.
pub(crate) const CALLS: &[TracedCall] = &[
    call("read", libc::SYS_read, ReadBytes, Syscalls),
    call("pread64", libc::SYS_pread64, ReadBytes, Syscalls),
    call("readv", libc::SYS_readv, ReadBytes, Syscalls),
    call("preadv", libc::SYS_preadv, ReadBytes, Syscalls),
    call("preadv2", libc::SYS_preadv2, ReadBytes, Syscalls),
    call("write", libc::SYS_write, WrittenBytes, Syscalls),
    call("pwrite64", libc::SYS_pwrite64, WrittenBytes, Syscalls),
    call("writev", libc::SYS_writev, WrittenBytes, Syscalls),
    call("pwritev", libc::SYS_pwritev, WrittenBytes, Syscalls),
    call("pwritev2", libc::SYS_pwritev2, WrittenBytes, Syscalls),
    call("recvfrom", libc::SYS_recvfrom, ReadBytes, Syscalls),
    call("recvmsg", libc::SYS_recvmsg, ReadBytes, Syscalls),
    call("sendto", libc::SYS_sendto, WrittenBytes, Syscalls),
    call("sendmsg", libc::SYS_sendmsg, WrittenBytes, Syscalls),
    call("sendfile", libc::SYS_sendfile, WrittenBytes, Syscalls),
    call("splice", libc::SYS_splice, WrittenBytes, Syscalls),
    call("copy_file_range", libc::SYS_copy_file_range, WrittenBytes, Syscalls),
    call("openat", libc::SYS_openat, Nothing, Syscalls),
    call("close", libc::SYS_close, Nothing, Syscalls),
    call("fsync", libc::SYS_fsync, Nothing, Syscalls),
    call("fdatasync", libc::SYS_fdatasync, Nothing, Syscalls),
    call("fallocate", libc::SYS_fallocate, Nothing, Syscalls),
    call("mmap", libc::SYS_mmap, Nothing, Syscalls),
    call("munmap", libc::SYS_munmap, Nothing, Syscalls),
    call("mremap", libc::SYS_mremap, Nothing, Syscalls),
    call("mprotect", libc::SYS_mprotect, Nothing, Syscalls),
    call("madvise", libc::SYS_madvise, Nothing, Syscalls),
    call("brk", libc::SYS_brk, Nothing, Syscalls),
    call("ioctl", libc::SYS_ioctl, Nothing, Syscalls),
    call("connect", libc::SYS_connect, Nothing, Syscalls),
    call("accept4", libc::SYS_accept4, Nothing, Syscalls),
    call("io_submit", libc::SYS_io_submit, Nothing, Syscalls),
    call("io_uring_enter", libc::SYS_io_uring_enter, Nothing, Syscalls),
    call("futex", libc::SYS_futex, Nothing, Sync),
    call("epoll_pwait", libc::SYS_epoll_pwait, Nothing, Sync),
    call("ppoll", libc::SYS_ppoll, Nothing, Sync),
    call("pselect6", libc::SYS_pselect6, Nothing, Sync),
    call("io_getevents", libc::SYS_io_getevents, Nothing, Sync),
    call("nanosleep", libc::SYS_nanosleep, Nothing, Sync),
    call("clock_nanosleep", libc::SYS_clock_nanosleep, Nothing, Sync),
    call("sched_yield", libc::SYS_sched_yield, Nothing, Sync),
    #[cfg(target_arch = "x86_64")]
    call("epoll_wait", libc::SYS_epoll_wait, Nothing, Sync),
    #[cfg(target_arch = "x86_64")]
    call("poll", libc::SYS_poll, Nothing, Sync),
    #[cfg(target_arch = "x86_64")]
    call("select", libc::SYS_select, Nothing, Sync),
];

/// Places of counters in the kernel; as many as `CALLS` of the programs.
pub(crate) const PLACES: usize = 64;
/// Numbers of calls that can be traced; as many as `CALL_NUMBERS` of the programs.
pub(crate) const NUMBERS: usize = 512;

/// For each number of a call, one more than its place, or 0 if it is not traced.
pub(crate) fn places(groups: &[Group]) -> [u8; NUMBERS] {
    let mut places = [0; NUMBERS];
    for (place, call) in CALLS.iter().enumerate().filter(|(_, call)| groups.contains(&call.group)) {
        places[call.number as usize] = place as u8 + 1;
    }
    places
}

/// For each place, whether the result of the call is a number of bytes: 1 if read, 2 if written.
pub(crate) fn moves() -> [u8; PLACES] {
    let mut moves = [0; PLACES];
    for (place, call) in CALLS.iter().enumerate() {
        moves[place] = match call.moves {
            Nothing => 0,
            ReadBytes => 1,
            WrittenBytes => 2,
        };
    }
    moves
}

/// For each place, whether the call waits.
pub(crate) fn waits() -> [u8; PLACES] {
    let mut waits = [0; PLACES];
    for (place, call) in CALLS.iter().enumerate() {
        waits[place] = u8::from(call.group == Sync);
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_a_place_and_only_chosen_ones_are_traced() {
        assert!(CALLS.len() <= PLACES && CALLS.iter().all(|call| (0..NUMBERS as i64).contains(&call.number)));
        let all = places(&[Syscalls, Sync]);
        assert_eq!(all.iter().filter(|&&place| place > 0).count(), CALLS.len());
        let sync = places(&[Sync]);
        assert_eq!((sync[libc::SYS_read as usize], sync[libc::SYS_futex as usize] > 0), (0, true));
    }
}
