//! eBPF maps and programs.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use super::owned_fd;

/// The arguments of `bpf(2)` that make a map.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct BpfMapArguments {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

/// The arguments of `bpf(2)` that load a program.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct BpfProgramArguments {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buffer: u64,
}

/// The arguments of `bpf(2)` that attach a program to a tracepoint.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct BpfAttachArguments {
    name: u64,
    program: u32,
    padding: u32,
}

const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
/// `r0 = 0`, then `exit`.
const RETURN_ZERO: [u64; 2] =
    [u64::from_ne_bytes([0xb7, 0, 0, 0, 0, 0, 0, 0]), u64::from_ne_bytes([0x95, 0, 0, 0, 0, 0, 0, 0])];

/// Makes a map of one entry.
pub(in crate::probes) fn bpf_create_map() -> io::Result<OwnedFd> {
    let arguments = BpfMapArguments { map_type: BPF_MAP_TYPE_ARRAY, key_size: 4, value_size: 8, max_entries: 1 };
    bpf(BPF_MAP_CREATE, &arguments)
}

/// Loads a program that does nothing.
pub(in crate::probes) fn bpf_load_program() -> io::Result<OwnedFd> {
    let arguments = BpfProgramArguments {
        program_type: BPF_PROG_TYPE_RAW_TRACEPOINT,
        instruction_count: RETURN_ZERO.len() as u32,
        instructions: RETURN_ZERO.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        ..BpfProgramArguments::default()
    };
    bpf(BPF_PROG_LOAD, &arguments)
}

/// Attaches a program to the begin of all system calls until the result is dropped.
pub(in crate::probes) fn bpf_attach(program: &OwnedFd) -> io::Result<OwnedFd> {
    let name = c"sys_enter".as_ptr() as u64;
    let arguments = BpfAttachArguments { name, program: program.as_raw_fd() as u32, padding: 0 };
    bpf(BPF_RAW_TRACEPOINT_OPEN, &arguments)
}

fn bpf<T>(command: libc::c_int, arguments: &T) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads as many bytes of the arguments as it is told, which is their size. What they point to
    // (instructions, license, name) is static, and is copied before the call returns.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_ref(arguments), size_of::<T>()) };
    owned_fd(result)
}
