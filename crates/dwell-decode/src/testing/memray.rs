//! Captures of memray with known records.

use std::io::Write;

use lz4_flex::frame::FrameEncoder;

use crate::memray::Allocator;

/// A capture in the making.
#[derive(Clone, Debug)]
pub struct CaptureFile {
    /// Version of the format.
    pub version: u32,
    /// `sys.hexversion`.
    pub python_version: u32,
    /// Whether calls have a native stack.
    pub has_native_stacks: bool,
    /// Whether the records are sums.
    pub has_sums: bool,
    /// Calls that the header states.
    pub stated_calls: u64,
    /// Process.
    pub pid: u32,
    /// The records so far.
    pub records: Vec<u8>,
    /// Values that records are relative to.
    pub last: LastStated,
}

/// Values of the last record that stated them.
#[derive(Clone, Debug, Default)]
pub struct LastStated {
    address: u64,
    native_frame: u64,
    return_address: u64,
    first_line: i64,
}

/// When recording of a [`CaptureFile`] begins.
pub const START_UNIX_MS: i64 = 1_700_000_000_000;

impl Default for CaptureFile {
    fn default() -> Self {
        Self {
            version: 13,
            python_version: 0x030b_07f0,
            has_native_stacks: false,
            has_sums: false,
            stated_calls: 0,
            pid: 4242,
            records: Vec::new(),
            last: LastStated::default(),
        }
    }
}

impl CaptureFile {
    /// The next records are of this thread.
    pub fn thread(&mut self, thread_id: u64) {
        self.records.push(12);
        self.records.extend(thread_id.to_le_bytes());
    }

    /// The thread has a name.
    pub fn thread_name(&mut self, name: &str) {
        self.records.push(10);
        self.text(name);
    }

    /// A code object whose instructions are all in its first line.
    pub fn code(&mut self, id: u64, function: &str, file: &str, first_line: i64) {
        // Entries of eight code units each, without columns: 64 code units.
        self.code_with_lines(id, function, file, first_line, &[0xef, 0].repeat(8));
    }

    /// A code object.
    pub fn code_with_lines(&mut self, id: u64, function: &str, file: &str, first_line: i64, line_table: &[u8]) {
        self.records.push(14);
        self.varint(id);
        self.text(function);
        self.text(file);
        let step = first_line - std::mem::replace(&mut self.last.first_line, first_line);
        self.signed(step);
        self.varint(line_table.len() as u64);
        self.records.extend(line_table);
    }

    /// A function is called.
    pub fn function_called(&mut self, code: u64, instruction: i64, is_entry: bool) {
        self.records.push(64 | u8::from(is_entry));
        self.varint(code);
        self.signed(instruction);
    }

    /// Functions return, at most 16.
    pub fn functions_return(&mut self, count: u8) {
        self.records.push(16 | (count - 1));
    }

    /// A call of an allocator; `size_bytes` and `native_stack` are left out where captures have none.
    pub fn call(&mut self, allocator: Allocator, address: u64, size_bytes: u64, native_stack: u64) {
        self.call_head(allocator, 15);
        let step = (address >> 3).wrapping_sub(std::mem::replace(&mut self.last.address, address >> 3));
        self.signed(step as i64);
        self.call_rest(allocator, size_bytes, native_stack);
    }

    /// The same at one of the last fifteen addresses that were stated, the last of them being 0.
    pub fn call_at_recent(&mut self, allocator: Allocator, recent: u8, size_bytes: u64, native_stack: u64) {
        self.call_head(allocator, recent);
        self.call_rest(allocator, size_bytes, native_stack);
    }

    fn call_head(&mut self, allocator: Allocator, place: u8) {
        let number = allocator as u8;
        self.records.push(128 | place << 3 | if number < 8 { number } else { 0 });
    }

    fn call_rest(&mut self, allocator: Allocator, size_bytes: u64, native_stack: u64) {
        if allocator as u8 >= 8 {
            self.records.push(allocator as u8);
        }
        if allocator.frees_one() {
            return;
        }
        if self.has_native_stacks {
            self.native_step(native_stack);
        }
        self.varint(size_bytes);
    }

    /// An object is made at a new address.
    pub fn object_made(&mut self, address: u64) {
        self.records.push(32 | 15 << 1 | 1);
        let step = (address >> 3).wrapping_sub(std::mem::replace(&mut self.last.address, address >> 3));
        self.signed(step as i64);
        if self.has_native_stacks {
            self.native_step(0);
        }
    }

    /// The resident memory, so long after the start.
    pub fn memory(&mut self, elapsed_ms: u64, rss_bytes: u64) {
        self.records.push(2);
        self.varint(rss_bytes);
        self.varint(elapsed_ms);
    }

    /// The next list of mapped files begins.
    pub fn mappings_begin(&mut self) {
        self.records.push(6);
    }

    /// A mapped file with one segment.
    pub fn image(&mut self, path: &str, base: u64, address: u64, bytes: u64) {
        self.records.push(7);
        self.text(path);
        self.varint(1);
        self.records.extend(base.to_le_bytes());
        self.records.push(8);
        self.records.extend(address.to_le_bytes());
        self.varint(bytes);
    }

    /// A native frame.
    pub fn native_frame(&mut self, return_address: u64, parent: u64) {
        self.records.push(5);
        let last = std::mem::replace(&mut self.last.return_address, return_address);
        self.signed(return_address.wrapping_sub(last) as i64);
        self.native_step(parent);
    }

    /// Records of a capture with sums: the memory, so long after the start.
    pub fn memory_with_heap(&mut self, elapsed_ms: i64, rss_bytes: u64, heap_bytes: u64) {
        self.records.push(1);
        self.words(&[(START_UNIX_MS + elapsed_ms) as u64, rss_bytes, heap_bytes]);
    }

    /// A frame of a capture with sums.
    pub fn frame(&mut self, id: u64, code: u64, instruction: i64, is_entry: bool) {
        self.records.push(4);
        self.varint(id);
        self.varint(code);
        self.signed(instruction);
        self.records.push(is_entry.into());
    }

    /// A stack of a capture with sums.
    pub fn stack(&mut self, frame: u64, parent: u64) {
        self.records.push(3);
        self.varint(frame);
        self.varint(parent);
    }

    /// Sums of a place: the numbers are allocations and bytes at the peak, then those that were left.
    pub fn site(&mut self, thread_id: u64, allocator: Allocator, stack: u64, peak: (u64, u64), leaked: (u64, u64)) {
        self.records.push(2);
        let padded = 0xabab_abab_abab_ab00 | u64::from(allocator as u8);
        self.words(&[thread_id, padded, 0, stack, 0, peak.0, leaked.0, peak.1, leaked.1]);
    }

    /// The file, uncompressed.
    pub fn file(&self) -> Vec<u8> {
        let mut file = self.unfinished();
        file.push(if self.has_sums { 15 } else { 1 });
        file
    }

    /// The file of a process that was killed: without a trailer, and zeros up to the end of the block.
    pub fn killed(&self) -> Vec<u8> {
        let mut file = self.unfinished();
        file.resize(file.len().next_multiple_of(4096) + 4096, 0);
        file
    }

    /// The file as memray compresses it.
    pub fn compressed(&self) -> std::io::Result<Vec<u8>> {
        let mut encoder = FrameEncoder::new(Vec::new());
        encoder.write_all(&self.file())?;
        encoder.finish().map_err(std::io::Error::from)
    }

    /// Header and records.
    pub fn unfinished(&self) -> Vec<u8> {
        let mut file = b"memray\0".to_vec();
        file.extend(self.version.to_le_bytes());
        file.extend(self.python_version.to_le_bytes());
        file.extend([u8::from(self.has_native_stacks), u8::from(self.has_sums)]);
        let end_unix_ms = START_UNIX_MS + 1000;
        for word in [self.stated_calls, 0, START_UNIX_MS as u64, end_unix_ms as u64] {
            file.extend(word.to_le_bytes());
        }
        file.extend(b"python3 serve.py\0");
        file.extend(self.pid.to_le_bytes());
        file.extend([1_u64, 3].map(u64::to_le_bytes).concat());
        file.extend([1, 0, 0]);
        if self.version >= 13 {
            file.extend(b"/usr/lib/python3.11\0/site-packages\0\0/app\0/lib\0\0");
        }
        file.extend(&self.records);
        file
    }

    fn native_step(&mut self, native_stack: u64) {
        let step = native_stack.wrapping_sub(std::mem::replace(&mut self.last.native_frame, native_stack));
        self.signed(step as i64);
    }

    fn text(&mut self, text: &str) {
        self.records.extend(text.as_bytes());
        self.records.push(0);
    }

    fn words(&mut self, words: &[u64]) {
        self.records.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }

    fn signed(&mut self, value: i64) {
        self.varint((value << 1 ^ value >> 63) as u64);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 128 {
            self.records.push(value as u8 | 128);
            value >>= 7;
        }
        self.records.push(value as u8);
    }
}
