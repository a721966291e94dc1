//! The objects that the program has loaded, and what they define and refer to, read from their tables in memory.
//!
//! Only `dl_iterate_phdr` is asked. It takes a lock of the loader that is held for moments, where `dlsym` and `dladdr`
//! take one that is held while constructors run: a constructor that waits for a thread which computes would wait forever.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// `DT_*`, of the entries that are read.
mod tag {
    pub(super) const NEEDED: i64 = 1;
    pub(super) const PLTRELSZ: i64 = 2;
    pub(super) const HASH: i64 = 4;
    pub(super) const STRTAB: i64 = 5;
    pub(super) const SYMTAB: i64 = 6;
    pub(super) const RELA: i64 = 7;
    pub(super) const RELASZ: i64 = 8;
    pub(super) const SONAME: i64 = 14;
    pub(super) const JMPREL: i64 = 23;
    pub(super) const GNU_HASH: i64 = 0x6fff_fef5;
    pub(super) const VERSYM: i64 = 0x6fff_fff0;
}

/// `STT_GNU_IFUNC`: the address is that of a function which chooses the function.
const TYPE_IFUNC: u8 = 10;
/// `STT_TLS`: the address is none.
const TYPE_TLS: u8 = 6;
/// In the table of versions: not the version that a reference without one means.
const HIDDEN_VERSION: u16 = 0x8000;

#[repr(C)]
struct DynamicEntry {
    tag: i64,
    value: usize,
}

#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// What libraries the program has loaded and unloaded so far, as a number that never comes back.
pub(crate) fn generation() -> u64 {
    let mut generation = 0u64;
    unsafe extern "C" fn read(info: *mut libc::dl_phdr_info, _: libc::size_t, generation: *mut c_void) -> c_int {
        // SAFETY: the loader gives a valid record, and `generation` is the number passed to the iteration.
        unsafe { *generation.cast::<u64>() = (*info).dlpi_adds << 32 | (*info).dlpi_subs & 0xffff_ffff };
        1
    }
    // SAFETY: the callback uses what it is given only during the call.
    unsafe { libc::dl_iterate_phdr(Some(read), (&raw mut generation).cast()) };
    generation
}

/// Libraries that the program has unloaded before this [`generation`].
pub(crate) fn unloads(generation: u64) -> u64 {
    generation & 0xffff_ffff
}

/// Asks about all loaded objects, none of which is unloaded meanwhile. `None` if the question panicked.
///
/// `ask` must not call the loader, except for `dl_iterate_phdr`.
pub(crate) fn with_loaded<T, F: FnOnce(&[Object]) -> T>(ask: F) -> Option<T> {
    struct Question<T, F> {
        ask: Option<F>,
        answer: Option<T>,
    }
    unsafe extern "C" fn first<T, F: FnOnce(&[Object]) -> T>(
        _: *mut libc::dl_phdr_info,
        _: libc::size_t,
        question: *mut c_void,
    ) -> c_int {
        // SAFETY: this is the question passed to the iteration below.
        let question = unsafe { &mut *question.cast::<Question<T, F>>() };
        if let Some(ask) = question.ask.take() {
            question.answer = catch_unwind(AssertUnwindSafe(|| ask(&gather()))).ok();
        }
        1
    }
    let mut question = Question { ask: Some(ask), answer: None };
    // SAFETY: the callback gets the question, which lives during the call. The loader holds the lock that unloading
    // needs until the callback returns.
    unsafe { libc::dl_iterate_phdr(Some(first::<T, F>), (&raw mut question).cast()) };
    question.answer
}

/// All loaded objects, in the order in which they were loaded. Called within an iteration; its lock is recursive.
fn gather() -> Vec<Object> {
    unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: libc::size_t, objects: *mut c_void) -> c_int {
        // SAFETY: the loader gives a valid record of a loaded object, and `objects` is the vector passed below.
        unsafe { (*objects.cast::<Vec<Object>>()).push(Object::read(&*info)) };
        0
    }
    let mut objects: Vec<Object> = Vec::with_capacity(64);
    // SAFETY: the callback uses the vector only during the call.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut objects).cast()) };
    objects
}

/// A loaded object. What it points to is there as long as the object is loaded, see [`with_loaded`].
#[derive(Clone, Copy)]
pub(crate) struct Object {
    path: *const c_char,
    base: usize,
    begin: usize,
    end: usize,
    /// The dynamic section; null if there is none.
    dynamic: *const DynamicEntry,
    strings: usize,
    symbols: usize,
    versions: usize,
    gnu_hash: usize,
    hash: usize,
    soname: Option<usize>,
    relocations: [(usize, usize); 2],
}

impl Object {
    /// # Safety
    /// The record is one that the loader has given to the callback of an iteration that is still under way.
    unsafe fn read(info: &libc::dl_phdr_info) -> Self {
        let base = info.dlpi_addr as usize;
        let mut object = Self {
            path: info.dlpi_name,
            base,
            begin: usize::MAX,
            end: 0,
            dynamic: std::ptr::null(),
            strings: 0,
            symbols: 0,
            versions: 0,
            gnu_hash: 0,
            hash: 0,
            soname: None,
            relocations: [(0, 0); 2],
        };
        for place in 0..usize::from(info.dlpi_phnum) {
            // SAFETY: the loader says that there are so many headers.
            let header = unsafe { &*info.dlpi_phdr.add(place) };
            let begin = base.wrapping_add(header.p_vaddr as usize);
            match header.p_type {
                libc::PT_LOAD => {
                    object.begin = object.begin.min(begin);
                    object.end = object.end.max(begin.wrapping_add(header.p_memsz as usize));
                }
                libc::PT_DYNAMIC => object.dynamic = begin as *const DynamicEntry,
                _ => {}
            }
        }
        object.read_dynamic();
        object
    }

    fn read_dynamic(&mut self) {
        let (mut relocations, mut sizes) = ([0; 2], [0; 2]);
        for (tag, value) in self.dynamic_entries() {
            match tag {
                tag::STRTAB => self.strings = self.address(value),
                tag::SYMTAB => self.symbols = self.address(value),
                tag::VERSYM => self.versions = self.address(value),
                tag::GNU_HASH => self.gnu_hash = self.address(value),
                tag::HASH => self.hash = self.address(value),
                tag::SONAME => self.soname = Some(value),
                tag::JMPREL => relocations[0] = self.address(value),
                tag::PLTRELSZ => sizes[0] = value,
                tag::RELA => relocations[1] = self.address(value),
                tag::RELASZ => sizes[1] = value,
                _ => {}
            }
        }
        if self.strings == 0 || self.symbols == 0 {
            (self.gnu_hash, self.hash, self.soname, sizes) = (0, 0, None, [0; 2]);
        }
        self.relocations = [0, 1].map(|table| (relocations[table], sizes[table] / size_of::<Relocation>()));
    }

    /// An address of the dynamic section. Most loaders have moved it to where the object is; musl's does not, and nobody
    /// does for the kernel's own object.
    fn address(&self, value: usize) -> usize {
        if value < self.base { self.base.wrapping_add(value) } else { value }
    }

    fn dynamic_entries(&self) -> impl Iterator<Item = (i64, usize)> + use<> {
        let mut next = self.dynamic;
        std::iter::from_fn(move || {
            if next.is_null() {
                return None;
            }
            // SAFETY: the section is a list of entries that ends with one of tag 0, which is not passed.
            let entry = unsafe { &*next };
            if entry.tag == 0 {
                return None;
            }
            // SAFETY: as above.
            next = unsafe { next.add(1) };
            Some((entry.tag, entry.value))
        })
    }

    /// Whether an address is within this object.
    pub(crate) fn contains(&self, address: usize) -> bool {
        self.range().contains(&address)
    }

    /// From its first to its last byte.
    pub(crate) fn range(&self) -> Range<usize> {
        self.begin..self.end
    }

    /// Where it was loaded from; empty for the program itself.
    pub(crate) fn path(&self) -> &[u8] {
        if self.path.is_null() {
            return b"";
        }
        // SAFETY: the loader's name of the object, a C string that lives as long as the object is loaded.
        unsafe { CStr::from_ptr(self.path) }.to_bytes()
    }

    /// The name that it gives itself.
    pub(crate) fn soname(&self) -> Option<&[u8]> {
        self.soname.map(|offset| self.text(offset).to_bytes())
    }

    /// Names of the libraries that it needs.
    pub(crate) fn needed(&self) -> impl Iterator<Item = &[u8]> {
        let is_readable = self.strings != 0;
        self.dynamic_entries()
            .filter(move |(tag, _)| is_readable && *tag == tag::NEEDED)
            .map(|(_, offset)| self.text(offset).to_bytes())
    }

    fn text(&self, offset: usize) -> &CStr {
        // SAFETY: the offsets come from the object's own tables, and name a C string in its table of strings.
        unsafe { CStr::from_ptr((self.strings.wrapping_add(offset)) as *const c_char) }
    }

    fn symbol(&self, index: usize) -> &libc::Elf64_Sym {
        // SAFETY: the index comes from the object's own tables.
        unsafe { &*(self.symbols as *const libc::Elf64_Sym).wrapping_add(index) }
    }

    /// The address of the function of this name that the object itself offers to others.
    pub(crate) fn definition(&self, name: &CStr) -> Option<usize> {
        let is_it = |index: usize| {
            let symbol = self.symbol(index);
            let kind = symbol.st_info & 0xf;
            symbol.st_shndx != 0
                && symbol.st_value != 0
                && symbol.st_info >> 4 != 0
                && kind != TYPE_IFUNC
                && kind != TYPE_TLS
                && self.text(symbol.st_name as usize) == name
                && !self.is_hidden_version(index)
        };
        let index = match (self.gnu_hash, self.hash) {
            (0, 0) => None,
            (0, _) => self.find_by_hash(name, is_it),
            _ => self.find_by_gnu_hash(name, is_it),
        }?;
        Some(self.base.wrapping_add(self.symbol(index).st_value as usize))
    }

    fn is_hidden_version(&self, index: usize) -> bool {
        // SAFETY: the table has an entry for each symbol.
        self.versions != 0 && unsafe { (self.versions as *const u16).wrapping_add(index).read() } & HIDDEN_VERSION != 0
    }

    /// `DT_GNU_HASH`: counts, a filter of 64-bit words, buckets, and chains whose last entry is odd.
    fn find_by_gnu_hash(&self, name: &CStr, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let table = self.gnu_hash as *const u32;
        // SAFETY: the table has the documented form, and all places come from its own counts.
        unsafe {
            let [buckets, first_symbol, filter_words, shift] =
                [0, 1, 2, 3].map(|place| table.wrapping_add(place).read());
            if buckets == 0 || filter_words == 0 {
                return None;
            }
            let hash = gnu_hash(name);
            let filter = table.wrapping_add(4).cast::<u64>();
            let word = filter.wrapping_add((hash / 64 % filter_words) as usize).read();
            let wanted = 1u64 << (hash % 64) | 1u64 << (hash.wrapping_shr(shift) % 64);
            if word & wanted != wanted {
                return None;
            }
            let bucket_list = filter.wrapping_add(filter_words as usize).cast::<u32>();
            let chains = bucket_list.wrapping_add(buckets as usize);
            let mut index = bucket_list.wrapping_add((hash % buckets) as usize).read();
            if index < first_symbol {
                return None;
            }
            loop {
                let entry = chains.wrapping_add((index - first_symbol) as usize).read();
                if entry | 1 == hash | 1 && is_it(index as usize) {
                    return Some(index as usize);
                }
                if entry & 1 == 1 {
                    return None;
                }
                index += 1;
            }
        }
    }

    /// `DT_HASH`: counts, buckets, and a chain for each symbol.
    fn find_by_hash(&self, name: &CStr, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let table = self.hash as *const u32;
        // SAFETY: the table has the documented form, and all places come from its own counts.
        unsafe {
            let buckets = table.read();
            if buckets == 0 {
                return None;
            }
            let bucket_list = table.wrapping_add(2);
            let chains = bucket_list.wrapping_add(buckets as usize);
            let mut index = bucket_list.wrapping_add((sysv_hash(name) % buckets) as usize).read();
            while index != 0 {
                if is_it(index as usize) {
                    return Some(index as usize);
                }
                index = chains.wrapping_add(index as usize).read();
            }
            None
        }
    }

    /// Whether the loader has bound something in this object to the function of this name: calls or pointers.
    pub(crate) fn refers_to(&self, name: &CStr) -> bool {
        self.relocations.iter().any(|&(table, count)| {
            (0..count).any(|place| {
                // SAFETY: the dynamic section says where the table is and how long.
                let symbol = unsafe { (*(table as *const Relocation).wrapping_add(place)).info } >> 32;
                symbol != 0 && self.text(self.symbol(symbol as usize).st_name as usize) == name
            })
        })
    }
}

fn gnu_hash(name: &CStr) -> u32 {
    name.to_bytes().iter().fold(5381, |hash: u32, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
}

fn sysv_hash(name: &CStr) -> u32 {
    name.to_bytes().iter().fold(0, |hash: u32, &byte| {
        let hash = hash.wrapping_shl(4).wrapping_add(byte.into());
        let high = hash & 0xf000_0000;
        (hash ^ high >> 24) & !high
    })
}
