//! The functions whose calls memray records.

/// A function that allocates or frees memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Allocator {
    /// `free` of Python's own allocator.
    PymallocFree = 1,
    /// `malloc` of Python's own allocator.
    PymallocMalloc = 2,
    /// `calloc` of Python's own allocator.
    PymallocCalloc = 3,
    /// `realloc` of Python's own allocator.
    PymallocRealloc = 4,
    /// `free`, also as a part of `realloc`.
    Free = 5,
    /// `malloc`.
    Malloc = 6,
    /// `realloc`.
    Realloc = 7,
    /// `calloc`.
    Calloc = 8,
    /// `posix_memalign`.
    PosixMemalign = 9,
    /// `aligned_alloc`.
    AlignedAlloc = 10,
    /// `memalign`.
    Memalign = 11,
    /// `valloc`.
    Valloc = 12,
    /// `pvalloc`.
    Pvalloc = 13,
    /// `mmap`.
    Mmap = 14,
    /// `munmap`.
    Munmap = 15,
}

impl Allocator {
    /// Every function, by its number in captures.
    pub const ALL: [Allocator; 15] = [
        Allocator::PymallocFree,
        Allocator::PymallocMalloc,
        Allocator::PymallocCalloc,
        Allocator::PymallocRealloc,
        Allocator::Free,
        Allocator::Malloc,
        Allocator::Realloc,
        Allocator::Calloc,
        Allocator::PosixMemalign,
        Allocator::AlignedAlloc,
        Allocator::Memalign,
        Allocator::Valloc,
        Allocator::Pvalloc,
        Allocator::Mmap,
        Allocator::Munmap,
    ];

    /// The function with this number in captures.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// The name used in tables, which is memray's in small letters.
    pub fn name(self) -> &'static str {
        match self {
            Allocator::PymallocFree => "pymalloc_free",
            Allocator::PymallocMalloc => "pymalloc_malloc",
            Allocator::PymallocCalloc => "pymalloc_calloc",
            Allocator::PymallocRealloc => "pymalloc_realloc",
            Allocator::Free => "free",
            Allocator::Malloc => "malloc",
            Allocator::Realloc => "realloc",
            Allocator::Calloc => "calloc",
            Allocator::PosixMemalign => "posix_memalign",
            Allocator::AlignedAlloc => "aligned_alloc",
            Allocator::Memalign => "memalign",
            Allocator::Valloc => "valloc",
            Allocator::Pvalloc => "pvalloc",
            Allocator::Mmap => "mmap",
            Allocator::Munmap => "munmap",
        }
    }

    /// Whether it frees memory.
    pub fn is_free(self) -> bool {
        self.frees_one() || self == Allocator::Munmap
    }

    /// Whether it frees what one call allocated, and states no size.
    pub fn frees_one(self) -> bool {
        matches!(self, Allocator::Free | Allocator::PymallocFree)
    }

    /// Whether it takes any range of addresses, so that it may undo several calls, or a part of one.
    pub fn is_ranged(self) -> bool {
        matches!(self, Allocator::Mmap | Allocator::Munmap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_gives_its_function_and_no_other_does() {
        for allocator in Allocator::ALL {
            assert_eq!(Allocator::from_number(allocator as u8), Some(allocator));
        }
        assert_eq!(Allocator::from_number(0), None);
        assert_eq!(Allocator::from_number(16), None);
    }
}
