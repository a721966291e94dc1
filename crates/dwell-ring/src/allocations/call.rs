//! The calls that are recorded.

/// Declares the calls with their numbers in rings and their names in tables.
macro_rules! calls {
    ($($(#[$doc:meta])+ $call:ident = $number:literal, $name:literal;)+) => {
        /// What a program did with its memory.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum AllocationCall {
            $($(#[$doc])+ $call = $number,)+
        }

        impl AllocationCall {
            /// The call with this number.
            pub fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$call),)+
                    _ => None,
                }
            }

            /// The name of the function.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$call => $name,)+
                }
            }
        }
    };
}

calls! {
    /// Memory of the C library, or of the allocator in its place.
    Malloc = 1, "malloc";
    /// The same, set to zeros.
    Calloc = 2, "calloc";
    /// What `realloc` returned.
    Realloc = 3, "realloc";
    /// What `reallocarray` returned.
    ReallocArray = 4, "reallocarray";
    /// Memory at a multiple of something.
    PosixMemalign = 5, "posix_memalign";
    /// The same by another function.
    AlignedAlloc = 6, "aligned_alloc";
    /// The same by another function.
    Memalign = 7, "memalign";
    /// Memory at the begin of a page.
    Valloc = 8, "valloc";
    /// Whole pages.
    Pvalloc = 9, "pvalloc";
    /// A mapping of no file.
    MmapAnonymous = 10, "mmap";
    /// A mapping of a file.
    MmapFile = 11, "mmap of a file";
    /// A mapping at its new place or of its new size.
    Mremap = 12, "mremap";
    /// What the program's data segment grew by.
    Sbrk = 13, "sbrk";
    /// Gives memory back to the allocator.
    Free = 64, "free";
    /// What `realloc` was given.
    ReallocFree = 65, "realloc";
    /// Ends mappings.
    Munmap = 66, "munmap";
    /// What `mremap` was given.
    MremapFree = 67, "mremap";
    /// What the program's data segment shrank by.
    SbrkFree = 68, "sbrk";
    /// The last call of the thread that ended allocations has failed: they live on.
    Undo = 96, "failed";
    /// The contents of pages are no longer needed (`MADV_DONTNEED`).
    AdviseDontNeed = 97, "madvise(MADV_DONTNEED)";
    /// The same, at the kernel's leisure (`MADV_FREE`).
    AdviseFree = 98, "madvise(MADV_FREE)";
}

impl AllocationCall {
    /// Whether memory is the program's from then on.
    pub fn allocates(self) -> bool {
        (self as u32) < Self::Free as u32
    }

    /// Whether memory is not the program's from then on.
    pub fn releases(self) -> bool {
        (Self::Free as u32..Self::Undo as u32).contains(&(self as u32))
    }

    /// Whether it is about pages, of which any part can be given back, rather than about what an allocator hands out whole.
    pub fn is_of_pages(self) -> bool {
        use AllocationCall::{
            AdviseDontNeed, AdviseFree, MmapAnonymous, MmapFile, Mremap, MremapFree, Munmap, Sbrk, SbrkFree,
        };
        matches!(
            self,
            MmapAnonymous | MmapFile | Mremap | Sbrk | Munmap | MremapFree | SbrkFree | AdviseDontNeed | AdviseFree
        )
    }
}
