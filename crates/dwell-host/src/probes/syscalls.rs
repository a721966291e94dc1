//! The system calls that the probes make, each behind a function that cannot be misused.

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, UserfaultfdFlags, madvise, mmap, mmap_anonymous, mprotect, munmap,
    userfaultfd,
};

/// Memory of our own, mapped for a probe and given back with it.
pub(super) struct Pages {
    address: NonNull<u8>,
    bytes: usize,
}

impl Pages {
    /// Fresh memory that was never touched, in a mapping of its own.
    pub(super) fn new(count: usize) -> io::Result<Self> {
        let bytes = count * page_bytes();
        // SAFETY: the kernel chooses the place, so nothing of ours is mapped over.
        let address =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)? };
        let pages = Self::from_raw(address.cast(), bytes)?;
        // The kernel joins neighbours that are alike, and counts accesses per mapping.
        // SAFETY: it concerns this memory alone, and only whether a core dump would hold it.
        unsafe { madvise(address, bytes, Advice::LinuxDontDump)? };
        Ok(pages)
    }

    /// The ring of a perf event: one page about it, and this many pages of records.
    fn of_event(event: BorrowedFd<'_>, data_pages: usize) -> io::Result<Self> {
        let bytes = (1 + data_pages) * page_bytes();
        // SAFETY: the kernel chooses the place, so nothing of ours is mapped over.
        let address =
            unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, event, 0)? };
        Self::from_raw(address.cast(), bytes)
    }

    fn from_raw(address: *mut u8, bytes: usize) -> io::Result<Self> {
        let address = NonNull::new(address).ok_or_else(|| io::Error::other("memory was mapped at address 0"))?;
        Ok(Self { address, bytes })
    }

    pub(super) fn address(&self) -> u64 {
        self.address.as_ptr() as u64
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes to one page.
    pub(super) fn touch(&mut self, page: usize) {
        let offset = page * page_bytes();
        assert!(offset < self.bytes, "page {page} is beyond the mapping");
        // SAFETY: the offset is inside the mapping, which is ours alone; volatile, so that the write takes place.
        unsafe { self.address.add(offset).write_volatile(1) };
    }

    /// Writes to all pages.
    pub(super) fn touch_all(&mut self) {
        (0..self.bytes / page_bytes()).for_each(|page| self.touch(page));
    }

    /// Has the processor look these pages up anew: what it remembers of them, it does not mark as accessed again.
    pub(super) fn forget_translations(&mut self) -> io::Result<()> {
        for protection in [MprotectFlags::empty(), MprotectFlags::READ | MprotectFlags::WRITE] {
            // SAFETY: it concerns this memory alone, which nobody accesses meanwhile and which ends as it began.
            unsafe { mprotect(self.address.as_ptr().cast(), self.bytes, protection)? };
        }
        Ok(())
    }

    /// Loads each word of all pages.
    pub(super) fn read_all(&self) {
        for offset in (0..self.bytes).step_by(size_of::<u64>()) {
            // SAFETY: the offset is inside the mapping and aligned, as the mapping is; volatile, so that it takes place.
            unsafe { self.address.add(offset).cast::<u64>().read_volatile() };
        }
    }

    /// A word that the kernel may change meanwhile.
    fn shared_word(&self, offset: usize) -> u64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.bytes, "word {offset} is beyond the mapping");
        // SAFETY: inside the mapping, aligned, and read as an atomic since the kernel writes it too.
        unsafe { self.address.add(offset).cast::<AtomicU64>().as_ref() }.load(Ordering::Relaxed)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this is what was mapped, and nobody else knows of it. Failing leaves it mapped, which does no harm.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), self.bytes) };
    }
}

pub(super) fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// The first version of `perf_event_attr`, which every kernel takes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct PerfAttributes {
    pub(super) kind: u32,
    size: u32,
    pub(super) config: u64,
    pub(super) sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    pub(super) config1: u64,
}

/// Samples carry the address that was accessed, and nothing else.
const PERF_SAMPLE_ADDR: u64 = 1 << 3;
const PERF_RECORD_SAMPLE: u32 = 9;
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// Least skid that allows an address: `precise_ip` 2, bits 15 and 16.
const PRECISE: u64 = 2 << 15;

impl PerfAttributes {
    /// An event of this process's own code.
    pub(super) fn new(kind: u32, config: u64) -> Self {
        let flags = EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
        Self { kind, size: size_of::<Self>() as u32, config, flags, ..Self::default() }
    }

    /// A sample with its address, every so many events.
    pub(super) fn sampled(mut self, period: u64) -> Self {
        self.sample_period = period;
        self.sample_type = PERF_SAMPLE_ADDR;
        self
    }

    pub(super) fn precise(mut self) -> Self {
        self.flags |= PRECISE;
        self
    }

    /// With what the kernel does for this process, for hardware that cannot tell it apart.
    pub(super) fn with_kernel(mut self) -> Self {
        self.flags &= !(EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR);
        self
    }
}

/// A counting event of this thread.
pub(super) struct PerfEvent {
    file: File,
}

impl PerfEvent {
    /// Opens an event on this thread, on any processor; it counts at once.
    pub(super) fn open(attributes: &PerfAttributes, leader: Option<&PerfEvent>) -> io::Result<Self> {
        let group = leader.map_or(-1, |leader| leader.file.as_raw_fd());
        // SAFETY: the kernel reads `size` bytes of the attributes, which is their size; the other arguments are numbers.
        let result =
            unsafe { libc::syscall(libc::SYS_perf_event_open, ptr::from_ref(attributes), 0, -1, group, CLOSE_ON_EXEC) };
        Ok(Self { file: owned_fd(result)?.into() })
    }

    /// Events until now.
    pub(super) fn count(&self) -> io::Result<u64> {
        let mut word = [0; 8];
        io::Read::read_exact(&mut &self.file, &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }

    /// A ring for the samples.
    pub(super) fn ring(&self, data_pages: usize) -> io::Result<PerfRing> {
        Ok(PerfRing { pages: Pages::of_event(self.file.as_fd(), data_pages)? })
    }
}

/// Where the kernel puts samples.
pub(super) struct PerfRing {
    pages: Pages,
}

impl PerfRing {
    /// Place of the kernel's write position in the first page.
    const HEAD_OFFSET: usize = 1024;

    /// Addresses of the samples, as far as the ring holds them.
    pub(super) fn addresses(&self) -> Vec<u64> {
        let head = self.pages.shared_word(Self::HEAD_OFFSET);
        // What the kernel wrote before it moved its position is to be seen after it.
        fence(Ordering::Acquire);
        let data_bytes = self.pages.bytes - page_bytes();
        // Nothing was consumed, so the kernel stops writing when the ring is full.
        let end = usize::try_from(head).unwrap_or(data_bytes).min(data_bytes);
        let mut addresses = Vec::new();
        let mut offset = 0;
        while offset + 16 <= end {
            // type u32, misc u16, size u16, in this order in memory.
            let header = self.pages.shared_word(page_bytes() + offset).to_ne_bytes();
            let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
            if kind == PERF_RECORD_SAMPLE {
                addresses.push(self.pages.shared_word(page_bytes() + offset + 8));
            }
            if size < 8 || !size.is_multiple_of(8) {
                break;
            }
            offset += size;
        }
        addresses
    }
}

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
pub(super) fn bpf_create_map() -> io::Result<OwnedFd> {
    let arguments = BpfMapArguments { map_type: BPF_MAP_TYPE_ARRAY, key_size: 4, value_size: 8, max_entries: 1 };
    bpf(BPF_MAP_CREATE, &arguments)
}

/// Loads a program that does nothing.
pub(super) fn bpf_load_program() -> io::Result<OwnedFd> {
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
pub(super) fn bpf_attach(program: &OwnedFd) -> io::Result<OwnedFd> {
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

#[repr(C)]
struct UffdApi {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct UffdRegister {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct PagemapScan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// Pages next to each other that a scan found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct PageRegion {
    pub(super) start: u64,
    pub(super) end: u64,
    categories: u64,
}

const UFFDIO_API: Opcode = opcode::read_write::<UffdApi>(0xAA, 0x3F);
const UFFDIO_REGISTER: Opcode = opcode::read_write::<UffdRegister>(0xAA, 0x00);
const PAGEMAP_SCAN: Opcode = opcode::read_write::<PagemapScan>(b'f', 16);
const UFFD_API_VERSION: u64 = 0xAA;
const WP_UNPOPULATED: u64 = 1 << 13;
const WP_ASYNC: u64 = 1 << 15;
const REGISTER_MODE_WP: u64 = 1 << 1;
const PAGE_IS_WRITTEN: u64 = 1 << 1;
const SCAN_WP_MATCHING: u64 = 1 << 0;
const SCAN_CHECK_WPASYNC: u64 = 1 << 1;

/// A userfault descriptor that lets the kernel note writes by itself.
pub(super) fn uffd_open() -> io::Result<OwnedFd> {
    const USER_MODE_ONLY: u32 = 1;
    let flags =
        UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK | UserfaultfdFlags::from_bits_retain(USER_MODE_ONLY);
    // SAFETY: only memory of our own is registered with it, in a mode in which no access waits for us.
    Ok(unsafe { userfaultfd(flags) }?)
}

/// Asks for asynchronous write protection; refused by kernels before 6.7.
pub(super) fn uffd_enable_write_notes(uffd: &OwnedFd) -> io::Result<()> {
    let mut api = UffdApi { api: UFFD_API_VERSION, features: WP_UNPOPULATED | WP_ASYNC, ioctls: 0 };
    // SAFETY: the operation reads and writes this structure.
    unsafe { ioctl(uffd, Updater::<UFFDIO_API, _>::new(&mut api)) }?;
    Ok(())
}

/// Has writes to these pages noted.
pub(super) fn uffd_register(uffd: &OwnedFd, pages: &Pages) -> io::Result<()> {
    let mut register =
        UffdRegister { start: pages.address(), len: pages.bytes() as u64, mode: REGISTER_MODE_WP, ioctls: 0 };
    // SAFETY: the operation reads and writes this structure, and concerns memory of a probe alone.
    unsafe { ioctl(uffd, Updater::<UFFDIO_REGISTER, _>::new(&mut register)) }?;
    Ok(())
}

/// Pages that were written since the last call, by `/proc/self/pagemap`.
pub(super) fn pagemap_take_written(pagemap: &File, pages: &Pages) -> io::Result<Vec<PageRegion>> {
    let mut regions = [PageRegion::default(); 16];
    let mut scan = PagemapScan {
        size: size_of::<PagemapScan>() as u64,
        flags: SCAN_WP_MATCHING | SCAN_CHECK_WPASYNC,
        start: pages.address(),
        end: pages.address() + pages.bytes() as u64,
        walk_end: 0,
        regions: regions.as_mut_ptr() as u64,
        regions_len: regions.len() as u64,
        max_pages: 0,
        category_inverted: 0,
        category_mask: PAGE_IS_WRITTEN,
        category_anyof_mask: 0,
        return_mask: PAGE_IS_WRITTEN,
    };
    // SAFETY: the operation reads and writes this structure and writes at most `regions_len` regions. The number that it
    // returns is the count of them, which rustix's patterns do not give, so it is called directly.
    let result = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as libc::c_ulong, ptr::from_mut(&mut scan)) };
    let count = usize::try_from(result).map_err(|_| io::Error::last_os_error())?;
    Ok(regions[..count.min(regions.len())].to_vec())
}

/// The descriptor that a system call returned, or why it returned none.
fn owned_fd(result: libc::c_long) -> io::Result<OwnedFd> {
    match i32::try_from(result) {
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
