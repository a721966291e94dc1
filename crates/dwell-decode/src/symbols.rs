//! Names of functions, from the symbol tables of ELF files.
//!
//! A file that was rebuilt since gives wrong names for its old addresses, so a table is used only if its build id is the
//! recorded one.

use std::io::{Read, Seek};

use object::read::elf::{ElfFile32, ElfFile64};
use object::{LittleEndian, Object, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};
use rustc_hash::FxHashMap;

use crate::perf_data::{AddressSpaces, BuildId, FileId, Place, Recording};

/// Symbols that are kept of one file; the largest known files have about a million.
const MAX_SYMBOLS: usize = 4 << 20;
/// Bytes of their names, as mangled.
const MAX_NAME_BYTES: usize = 512 << 20;
/// Addresses whose names are remembered; further ones are looked up each time.
const MAX_REMEMBERED: usize = 1 << 20;

/// Functions of one file.
#[derive(Debug, Default)]
pub struct SymbolTable {
    /// Parts of the file and the address of each.
    segments: Vec<(u64, u64, u64)>,
    /// By their first address.
    functions: Vec<Function>,
    names: String,
    build_id: Option<BuildId>,
}

#[derive(Clone, Copy, Debug)]
struct Function {
    start: u64,
    end: u64,
    /// Where its name is in `names`.
    name_at: u32,
    name_bytes: u32,
}

impl SymbolTable {
    /// The table of an ELF file; none if it is no such file.
    pub fn parse(file: &[u8]) -> Option<Self> {
        match file.get(4)? {
            1 => ElfFile32::<LittleEndian>::parse(file).ok().map(|file| Self::of_object(&file)),
            2 => ElfFile64::<LittleEndian>::parse(file).ok().map(|file| Self::of_object(&file)),
            _ => None,
        }
    }

    fn of_object<'data, O: Object<'data>>(file: &O) -> Self {
        let mut table = Self {
            segments: file.segments().map(|segment| (segment.file_range(), segment.address())).map(segment).collect(),
            build_id: file.build_id().ok().flatten().and_then(BuildId::new),
            ..Self::default()
        };
        table.take(file.symbols());
        // A stripped library still has what it offers to others.
        if table.functions.is_empty() {
            table.take(file.dynamic_symbols());
        }
        table.settle();
        table
    }

    fn take<'data>(&mut self, symbols: impl Iterator<Item = impl ObjectSymbol<'data>>) {
        let functions = symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
        for symbol in functions.take(MAX_SYMBOLS) {
            let Some(name) = symbol.name().ok().filter(|name| !name.is_empty()) else { continue };
            if self.names.len() + name.len() > MAX_NAME_BYTES {
                return;
            }
            let (start, end) = (symbol.address(), symbol.address().saturating_add(symbol.size()));
            let (name_at, name_bytes) = (self.names.len() as u32, name.len() as u32);
            self.functions.push(Function { start, end, name_at, name_bytes });
            self.names.push_str(name);
        }
    }

    /// Puts functions in order, one for each address, each to the next one if it has no size.
    fn settle(&mut self) {
        let names = &self.names;
        self.functions.sort_by_cached_key(|function| (function.start, rank(function, names)));
        self.functions.dedup_by_key(|function| function.start);
        for index in 1..self.functions.len() {
            let next_start = self.functions[index].start;
            let function = &mut self.functions[index - 1];
            if function.end == function.start {
                function.end = next_start;
            }
        }
    }

    /// Build id of the file.
    pub fn build_id(&self) -> Option<BuildId> {
        self.build_id
    }

    /// Name of the function at an offset into the file, as compilers mangle it.
    pub fn find(&self, file_offset: u64) -> Option<&str> {
        let contains = |(start, end, _): &&(u64, u64, u64)| (*start..*end).contains(&file_offset);
        let (start, _, address) = self.segments.iter().find(contains)?;
        self.find_address(address.wrapping_add(file_offset - start))
    }

    /// The same at an address as the file has it, before it is mapped.
    pub fn find_address(&self, address: u64) -> Option<&str> {
        let index = self.functions.partition_point(|function| function.start <= address);
        let function = self.functions.get(index.checked_sub(1)?)?;
        (address < function.end).then(|| function.name(&self.names))
    }
}

impl Function {
    fn name<'a>(&self, names: &'a str) -> &'a str {
        &names[self.name_at as usize..][..self.name_bytes as usize]
    }
}

fn segment(((offset, bytes), address): ((u64, u64), u64)) -> (u64, u64, u64) {
    (offset, offset.saturating_add(bytes), address)
}

/// Which of several names of one address is shown: of the largest function, with the fewest underscores before it, as perf
/// chooses; then the shortest, then by alphabet, so that the choice does not hang on the order of the table.
fn rank(function: &Function, names: &str) -> (std::cmp::Reverse<u64>, usize, usize, String) {
    let name = function.name(names);
    let underscores = name.bytes().take_while(|byte| *byte == b'_').count();
    (std::cmp::Reverse(function.end - function.start), underscores, name.len(), name.to_owned())
}

/// A name as its programmer wrote it, without arguments, as perf shows it.
pub fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    let cpp = name.starts_with("_Z").then(|| cpp_demangle::Symbol::new(name).ok()).flatten();
    let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
    cpp.and_then(|symbol| symbol.demangle_with_options(&options).ok()).unwrap_or_else(|| name.to_owned())
}

/// Build id of an ELF file, of which no more than that is read.
pub fn build_id_of(file: impl Read + Seek) -> Option<BuildId> {
    let file = ReadCache::new(file);
    let id = ElfFile64::<LittleEndian, _>::parse(&file).ok()?.build_id().ok().flatten()?;
    BuildId::new(id)
}

/// What became of the files that samples lie in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectCounts {
    /// Files whose symbols were used.
    pub used: u64,
    /// Files that are not here, or are no ELF files.
    pub missing: u64,
    /// Files that are here with another build id than the recorded one.
    pub changed: u64,
    /// Files whose build id was not recorded, so that nobody knows whether they are the same.
    pub unverified: u64,
}

/// Finds names of functions; `load` gives the bytes of a file by its path.
pub struct Symbols<L> {
    load: L,
    tables: FxHashMap<FileId, Option<SymbolTable>>,
    remembered: FxHashMap<(FileId, u64), u32>,
    names: Vec<String>,
    name_numbers: FxHashMap<String, u32>,
    /// What became of the files.
    pub counts: ObjectCounts,
}

impl<L: FnMut(&str) -> Option<Vec<u8>>> Symbols<L> {
    /// Names from the files that `load` gives.
    pub fn new(load: L) -> Self {
        Self {
            load,
            tables: FxHashMap::default(),
            remembered: FxHashMap::default(),
            names: vec![String::new()],
            name_numbers: FxHashMap::default(),
            counts: ObjectCounts::default(),
        }
    }

    /// Name of the function at a place; empty if it is not known.
    pub fn find(&mut self, place: Place, spaces: &AddressSpaces, recording: &Recording) -> &str {
        let number = self.number_of(place, spaces, recording);
        self.name(number)
    }

    /// A name by its number.
    #[inline]
    pub fn name(&self, number: u32) -> &str {
        &self.names[number as usize]
    }

    /// Number of the name of the function at a place; 0 if it is not known.
    pub fn number_of(&mut self, place: Place, spaces: &AddressSpaces, recording: &Recording) -> u32 {
        if matches!(self.tables.get(&place.file), Some(None)) {
            return 0;
        }
        let key = (place.file, place.file_offset);
        match self.remembered.get(&key) {
            Some(number) => *number,
            None => {
                let number = self.look_up(place, spaces, recording);
                if self.remembered.len() < MAX_REMEMBERED {
                    self.remembered.insert(key, number);
                }
                number
            }
        }
    }

    fn look_up(&mut self, place: Place, spaces: &AddressSpaces, recording: &Recording) -> u32 {
        if !self.tables.contains_key(&place.file) {
            let table = self.load_table(place.file, spaces, recording);
            self.tables.insert(place.file, table);
        }
        let table = self.tables.get(&place.file).and_then(Option::as_ref);
        let Some(name) = table.and_then(|table| table.find(place.file_offset)) else { return 0 };
        if let Some(number) = self.name_numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(demangled(name));
        self.name_numbers.insert(name.to_owned(), number);
        number
    }

    fn load_table(&mut self, file: FileId, spaces: &AddressSpaces, recording: &Recording) -> Option<SymbolTable> {
        let name = spaces.name(file);
        // Memory that is no file has a name in brackets, or begins with two slashes.
        if !name.starts_with('/') || name.starts_with("//") {
            return None;
        }
        let Some(recorded) = spaces.build_id(file).or_else(|| recording.build_ids.get(name).copied()) else {
            self.counts.unverified += 1;
            return None;
        };
        let Some(table) = (self.load)(name).and_then(|bytes| SymbolTable::parse(&bytes)) else {
            self.counts.missing += 1;
            return None;
        };
        let is_same = table.build_id() == Some(recorded);
        *if is_same { &mut self.counts.used } else { &mut self.counts.changed } += 1;
        is_same.then_some(table)
    }
}
