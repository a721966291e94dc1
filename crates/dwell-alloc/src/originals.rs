//! The functions that the program would have reached without this library: those of the C library, or of an allocator that was
//! preloaded or linked beside it.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

const UNRESOLVED: u32 = 0;
const RESOLVING: u32 = 1;
const RESOLVED: u32 = 2;
static STATE: AtomicU32 = AtomicU32::new(UNRESOLVED);

/// Declares the table of the functions.
macro_rules! originals {
    ($($name:ident = $symbol:literal: fn($($argument:ty),*) -> $result:ty;)+) => {
        #[allow(non_upper_case_globals, reason = "named as the functions")]
        mod addresses {
            use super::AtomicUsize;
            $(pub(super) static $name: AtomicUsize = AtomicUsize::new(0);)+
        }

        fn resolve_all() {
            $(addresses::$name.store(next($symbol), Ordering::Relaxed);)+
        }

        $(
            /// The next function of this name; none if there is none or they are being looked for.
            #[inline]
            pub(crate) fn $name() -> Option<unsafe extern "C" fn($($argument),*) -> $result> {
                if STATE.load(Ordering::Acquire) != RESOLVED && !resolve() {
                    return None;
                }
                let address = addresses::$name.load(Ordering::Relaxed);
                // SAFETY: an address that the loader gave for the function of this name, which has this signature; 0 is none.
                unsafe { std::mem::transmute(address) }
            }
        )+
    };
}

originals! {
    malloc = c"malloc": fn(usize) -> *mut c_void;
    calloc = c"calloc": fn(usize, usize) -> *mut c_void;
    realloc = c"realloc": fn(*mut c_void, usize) -> *mut c_void;
    free = c"free": fn(*mut c_void) -> ();
    posix_memalign = c"posix_memalign": fn(*mut *mut c_void, usize, usize) -> c_int;
    aligned_alloc = c"aligned_alloc": fn(usize, usize) -> *mut c_void;
    memalign = c"memalign": fn(usize, usize) -> *mut c_void;
    valloc = c"valloc": fn(usize) -> *mut c_void;
    pvalloc = c"pvalloc": fn(usize) -> *mut c_void;
    mmap = c"mmap": fn(*mut c_void, usize, c_int, c_int, c_int, libc::off_t) -> *mut c_void;
    munmap = c"munmap": fn(*mut c_void, usize) -> c_int;
    mremap = c"mremap": fn(*mut c_void, usize, usize, c_int, *mut c_void) -> *mut c_void;
    madvise = c"madvise": fn(*mut c_void, usize, c_int) -> c_int;
    sbrk = c"sbrk": fn(isize) -> *mut c_void;
    brk = c"brk": fn(*mut c_void) -> c_int;
}

fn next(symbol: &CStr) -> usize {
    // SAFETY: a plain question to the loader; what it allocates comes back here and is served from `early`.
    unsafe { libc::dlsym(libc::RTLD_NEXT, symbol.as_ptr()) as usize }
}

/// Looks for the functions, once. False while somebody does: this thread, by a call of the loader, or another one.
#[cold]
fn resolve() -> bool {
    match STATE.compare_exchange(UNRESOLVED, RESOLVING, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            resolve_all();
            STATE.store(RESOLVED, Ordering::Release);
            true
        }
        Err(found) => found == RESOLVED,
    }
}

/// Memory for what is asked for while the functions are looked for. It is never given back.
pub(crate) mod early {
    use std::cell::UnsafeCell;
    use std::ffi::c_void;
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const BYTES: usize = 64 << 10;
    /// Before each block, its size; blocks lie as `malloc`'s do.
    const ALIGNMENT: usize = 16;

    #[repr(C, align(4096))]
    struct Room(UnsafeCell<[u8; BYTES]>);
    // SAFETY: each byte is handed out once.
    unsafe impl Sync for Room {}
    static ROOM: Room = Room(UnsafeCell::new([0; BYTES]));
    static USED: AtomicUsize = AtomicUsize::new(0);

    /// Zeros. Null if there is no room left.
    #[cold]
    pub(crate) fn allocate(size: usize, alignment: usize) -> *mut c_void {
        let alignment = alignment.clamp(ALIGNMENT, 4096);
        if size > BYTES {
            return null_mut();
        }
        let begin_of = |used: usize| (used + ALIGNMENT).next_multiple_of(alignment);
        let taken = USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            Some(begin_of(used) + size).filter(|end| *end <= BYTES)
        });
        let Ok(used) = taken else { return null_mut() };
        // SAFETY: the block and the size before it lie inside the room, and nobody else has them.
        unsafe {
            let block = ROOM.0.get().cast::<u8>().add(begin_of(used));
            block.cast::<usize>().sub(1).write_unaligned(size);
            block.cast()
        }
    }

    /// Whether a block is of this room.
    #[inline]
    pub(crate) fn holds(block: *const c_void) -> bool {
        (block as usize).wrapping_sub(ROOM.0.get() as usize) < BYTES
    }

    /// The size of a block of this room.
    ///
    /// # Safety
    ///
    /// `allocate` returned the block.
    pub(crate) unsafe fn size_of(block: *const c_void) -> usize {
        // SAFETY: the size lies before the block.
        unsafe { block.cast::<usize>().sub(1).read_unaligned() }
    }
}
