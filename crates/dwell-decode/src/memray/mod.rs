//! Captures of [memray](https://github.com/bloomberg/memray): calls of allocators by a Python process, with their stacks.
//!
//! memray documents its format in its source alone, and each version of memray reads one version of the format. This is
//! what versions 12 and 13 have (memray 1.19 and 1.20), on little-endian machines of 64 bits:
//!
//! ```text
//! capture  an LZ4 frame of what follows, unless memray was killed or run with --no-compress
//!          header   magic, version, Python, form, counts, command line, process, threads, paths of packages
//!          record*  a byte with its kind, then its fields
//!          trailer  a byte; missing if the process was killed
//!
//! kind of a record
//! 1ppppaaa  a call of the allocator aaa (0: named by the next byte) at the p-th last address (15: a new one)
//! 01.....e  a function is called (e: by native code): code object, instruction
//! 001ppppc  an object is made (c) or gone, at an address as above
//! 0001nnnn  n + 1 functions return
//! 0000kkkk  the other kinds, see `kind`
//! ```
//!
//! Addresses, native stacks and lines are differences to the one before. Numbers have seven bits a byte.
//!
//! **No call has a time.** A thread of memray writes the resident memory with the time every 10 ms or so, between the
//! calls. So the order of calls is known, and the two samples that each lies between; nothing else about time is.

mod allocator;
mod header;
mod heap;
mod images;
mod input;
mod line_table;
mod records;
mod stacks;

use std::io::Read;

use rustc_hash::FxHashMap;

pub use allocator::Allocator;
pub use header::{CaptureForm, CaptureHeader, PythonAllocator};
pub use heap::Heap;
pub use images::{ImageId, ImagePlace};
pub use records::{AllocationSite, AllocatorCall, CaptureCounts, CaptureRecord, MemorySample, NativeFrame};
pub use stacks::{Location, StackId};

use crate::error::DecodeError;
use images::Images;
use input::Input;
use stacks::{CodeObject, FrameKey, Stacks};

/// Bytes of the name of a function or a file.
const NAME_MAX_BYTES: usize = 1 << 20;
/// Bytes of the name of a thread; the kernel takes 15, and Python any.
const THREAD_NAME_MAX_BYTES: usize = 1 << 12;
/// Bytes of the line table of a function.
const LINE_TABLE_MAX_BYTES: u64 = 16 << 20;
/// Frames of native stacks. They are handed on and not kept, so this only bounds their numbers.
const MAX_NATIVE_FRAMES: u64 = u32::MAX as u64;

/// Addresses that a record can refer to instead of stating them again.
const RECENT_ADDRESSES: usize = 15;

/// Kinds of records without flags.
mod kind {
    pub const TRAILER: u8 = 1;
    pub const MEMORY: u8 = 2;
    pub const NATIVE_FRAME: u8 = 5;
    pub const MAPPINGS_BEGIN: u8 = 6;
    pub const IMAGE: u8 = 7;
    pub const SEGMENT: u8 = 8;
    pub const THREAD_NAME: u8 = 10;
    pub const THREAD_SWITCH: u8 = 12;
    pub const CODE: u8 = 14;
}

/// Kinds of records that only captures with sums have.
mod sums_kind {
    pub const MEMORY: u8 = 1;
    pub const SITE: u8 = 2;
    pub const STACK: u8 = 3;
    pub const FRAME: u8 = 4;
    pub const OBJECT: u8 = 13;
    pub const TRAILER: u8 = 15;
}

/// Values that records state as the difference to the one before.
#[derive(Default)]
struct Last {
    address: u64,
    return_address: u64,
    native_frame: u64,
    first_line: i64,
    thread_id: Option<u64>,
    recent_addresses: [u64; RECENT_ADDRESSES],
}

/// Reads one capture.
pub struct MemrayCapture<R: Read> {
    input: Input<R>,
    header: CaptureHeader,
    stacks: Stacks,
    images: Images,
    thread_names: FxHashMap<u64, String>,
    last: Last,
    counts: CaptureCounts,
    is_finished: bool,
}

impl<R: Read> MemrayCapture<R> {
    /// Reads the header.
    pub fn open(reader: R) -> Result<Self, DecodeError> {
        let mut input = Input::new(reader)?;
        let header = CaptureHeader::read(&mut input)?;
        Ok(Self {
            input,
            stacks: Stacks::new(header.python_version),
            header,
            images: Images::default(),
            thread_names: FxHashMap::default(),
            last: Last::default(),
            counts: CaptureCounts::default(),
            is_finished: false,
        })
    }

    /// What the capture says of itself.
    pub fn header(&self) -> &CaptureHeader {
        &self.header
    }

    /// What was read so far.
    pub fn counts(&self) -> &CaptureCounts {
        &self.counts
    }

    /// Bytes that were read so far, decompressed.
    pub fn bytes(&self) -> u64 {
        self.input.offset()
    }

    /// The innermost frame of a stack.
    pub fn location(&self, stack: StackId) -> Option<Location<'_>> {
        self.stacks.location(stack)
    }

    /// The stack of that frame's caller; none for the outermost.
    pub fn parent(&self, stack: StackId) -> Option<StackId> {
        self.stacks.parent(stack)
    }

    /// Name that a thread has so far; none for the main thread, usually.
    pub fn thread_name(&self, thread_id: u64) -> Option<&str> {
        self.thread_names.get(&thread_id).map(String::as_str)
    }

    /// Path of a program or library.
    pub fn image_name(&self, image: ImageId) -> &str {
        self.images.name(image)
    }

    /// What comes next; none behind the trailer. A capture that ends without one gives a
    /// [truncation](DecodeError::is_truncation) behind its last whole record.
    pub fn next_record(&mut self) -> Result<Option<CaptureRecord>, DecodeError> {
        while !self.is_finished {
            let Some(head) = self.input.next_byte()? else { return Err(self.input.ends_within("its records")) };
            let record = match self.header.form {
                CaptureForm::Calls => self.record_of_calls(head)?,
                CaptureForm::Sums => self.record_of_sums(head)?,
            };
            if record.is_some() {
                return Ok(record);
            }
        }
        Ok(None)
    }

    fn record_of_calls(&mut self, head: u8) -> Result<Option<CaptureRecord>, DecodeError> {
        match head {
            0x80.. => self.call(head).map(Some),
            0x40.. => self.function_called(head & 1 != 0),
            0x20.. => self.object(head & 1 != 0, head >> 1),
            0x10.. => self.functions_return(usize::from(head & 15) + 1),
            kind::TRAILER => self.trailer(),
            kind::MEMORY => self.memory(),
            other => self.shared_record(other),
        }
    }

    fn record_of_sums(&mut self, head: u8) -> Result<Option<CaptureRecord>, DecodeError> {
        match head {
            sums_kind::MEMORY => self.memory_with_heap(),
            sums_kind::SITE => self.site().map(Some),
            sums_kind::STACK => self.stack(),
            sums_kind::FRAME => self.frame(),
            sums_kind::OBJECT => self.surviving_object(),
            sums_kind::TRAILER => self.trailer(),
            other => self.shared_record(other),
        }
    }

    /// Records that both forms have.
    fn shared_record(&mut self, kind: u8) -> Result<Option<CaptureRecord>, DecodeError> {
        match kind {
            kind::NATIVE_FRAME => return self.native_frame().map(Some),
            kind::MAPPINGS_BEGIN => self.images.clear(),
            kind::IMAGE => self.images.read_image(&mut self.input)?,
            kind::THREAD_NAME => self.thread_named()?,
            kind::THREAD_SWITCH => self.thread_switch()?,
            kind::CODE => self.code()?,
            other => return Err(self.input.malformed(format!("a record of the unknown kind {other}"))),
        }
        Ok(None)
    }

    fn trailer(&mut self) -> Result<Option<CaptureRecord>, DecodeError> {
        self.is_finished = true;
        Ok(None)
    }

    fn call(&mut self, head: u8) -> Result<CaptureRecord, DecodeError> {
        const WITHIN: &str = "a call";
        let address = self.address(head >> 3, WITHIN)?;
        let number = match head & 7 {
            0 => self.input.byte(WITHIN)?,
            short => short,
        };
        let allocator = self.allocator(number)?;
        let mut native_stack = None;
        if self.header.has_native_stacks && !allocator.frees_one() {
            native_stack = self.native_stack_by_step(WITHIN)?;
        }
        let size_bytes = if allocator.frees_one() { None } else { Some(self.input.varint(WITHIN)?) };
        let thread_id = self.thread()?;
        let is_free = allocator.is_free();
        *if is_free { &mut self.counts.frees } else { &mut self.counts.allocations } += 1;
        // Functions are only written out when something is allocated, so where a thread frees is not known.
        let stack = if is_free { None } else { self.stacks.top(thread_id) };
        let native_stack = native_stack.filter(|_| !is_free);
        Ok(CaptureRecord::Call(AllocatorCall { thread_id, allocator, address, size_bytes, stack, native_stack }))
    }

    /// An address: one of the last, or the difference to the last new one in units of eight bytes.
    fn address(&mut self, place: u8, within: &'static str) -> Result<u64, DecodeError> {
        if let Some(address) = self.last.recent_addresses.get(usize::from(place & 15)) {
            return Ok(*address);
        }
        self.last.address = self.last.address.wrapping_add_signed(self.input.signed(within)?);
        let address = self.last.address << 3;
        self.last.recent_addresses.copy_within(..RECENT_ADDRESSES - 1, 1);
        self.last.recent_addresses[0] = address;
        Ok(address)
    }

    fn allocator(&self, number: u8) -> Result<Allocator, DecodeError> {
        let unknown = || self.input.malformed(format!("a call of the unknown allocator {number}"));
        Allocator::from_number(number).ok_or_else(unknown)
    }

    fn thread(&self) -> Result<u64, DecodeError> {
        self.last.thread_id.ok_or_else(|| self.input.malformed("a record of a thread before any thread was named"))
    }

    fn native_stack_by_step(&mut self, within: &'static str) -> Result<Option<u64>, DecodeError> {
        self.last.native_frame = self.last.native_frame.wrapping_add_signed(self.input.signed(within)?);
        self.native_stack(self.last.native_frame)
    }

    /// A frame that has come before; 0 stands for none.
    fn native_stack(&self, id: u64) -> Result<Option<u64>, DecodeError> {
        match id <= self.counts.native_frames {
            true => Ok(Some(id).filter(|id| *id > 0)),
            false => Err(self.input.malformed(format!("the native frame {id}, which did not come before"))),
        }
    }

    fn function_called(&mut self, is_entry: bool) -> Result<Option<CaptureRecord>, DecodeError> {
        const WITHIN: &str = "a call of a function";
        let key = FrameKey { code: self.input.varint(WITHIN)?, instruction: self.input.signed(WITHIN)?, is_entry };
        let thread_id = self.thread()?;
        let new = self.stacks.push(thread_id, key).map_err(|reason| self.input.error(reason))?;
        Ok(new.map(|stack| self.new_stack(stack)))
    }

    fn new_stack(&mut self, stack: StackId) -> CaptureRecord {
        self.counts.stacks = self.stacks.len();
        CaptureRecord::Stack(stack)
    }

    fn functions_return(&mut self, count: usize) -> Result<Option<CaptureRecord>, DecodeError> {
        let thread_id = self.thread()?;
        self.stacks.pop(thread_id, count).map_err(|reason| self.input.error(reason))?;
        Ok(None)
    }

    fn object(&mut self, is_made: bool, place: u8) -> Result<Option<CaptureRecord>, DecodeError> {
        const WITHIN: &str = "a record about an object";
        self.address(place, WITHIN)?;
        if self.header.has_native_stacks && is_made {
            self.native_stack_by_step(WITHIN)?;
        }
        self.counts.objects += 1;
        Ok(None)
    }

    fn surviving_object(&mut self) -> Result<Option<CaptureRecord>, DecodeError> {
        const WITHIN: &str = "a record about an object";
        self.input.varint(WITHIN)?;
        if self.header.has_native_stacks {
            self.input.varint(WITHIN)?;
        }
        self.counts.objects += 1;
        Ok(None)
    }

    fn memory(&mut self) -> Result<Option<CaptureRecord>, DecodeError> {
        const WITHIN: &str = "a sample of the memory";
        let rss_bytes = self.input.varint(WITHIN)?;
        let unix_ms = self.header.start_unix_ms.wrapping_add(self.input.varint(WITHIN)? as i64);
        self.counts.memory_samples += 1;
        Ok(Some(CaptureRecord::Memory(MemorySample { unix_ms, rss_bytes, heap_bytes: None })))
    }

    fn memory_with_heap(&mut self) -> Result<Option<CaptureRecord>, DecodeError> {
        const WITHIN: &str = "a sample of the memory";
        let (unix_ms, rss_bytes) = (self.input.word(WITHIN)? as i64, self.input.word(WITHIN)?);
        let heap_bytes = Some(self.input.word(WITHIN)?);
        self.counts.memory_samples += 1;
        Ok(Some(CaptureRecord::Memory(MemorySample { unix_ms, rss_bytes, heap_bytes })))
    }

    fn native_frame(&mut self) -> Result<CaptureRecord, DecodeError> {
        const WITHIN: &str = "a native frame";
        let return_address = self.last.return_address.wrapping_add_signed(self.input.signed(WITHIN)?);
        self.last.return_address = return_address;
        let parent = self.native_stack_by_step(WITHIN)?;
        let id = self.counts.native_frames + 1;
        self.input.check_count("native frames", id, MAX_NATIVE_FRAMES)?;
        self.counts.native_frames = id;
        let place = self.images.find_call(return_address);
        Ok(CaptureRecord::NativeFrame(NativeFrame { id, parent, return_address, place }))
    }

    fn thread_named(&mut self) -> Result<(), DecodeError> {
        let name = self.input.text("the name of a thread", THREAD_NAME_MAX_BYTES)?;
        let thread_id = self.thread()?;
        self.thread_names.insert(thread_id, name);
        Ok(())
    }

    fn thread_switch(&mut self) -> Result<(), DecodeError> {
        let thread_id = self.input.word("a switch of threads")?;
        self.last.thread_id = Some(thread_id);
        self.stacks.add_thread(thread_id).map_err(|reason| self.input.error(reason))
    }

    fn code(&mut self) -> Result<(), DecodeError> {
        const WITHIN: &str = "a code object";
        let id = self.input.varint(WITHIN)?;
        let function = self.input.text(WITHIN, NAME_MAX_BYTES)?;
        let file = self.input.text(WITHIN, NAME_MAX_BYTES)?;
        self.last.first_line = i64::from(self.last.first_line.wrapping_add(self.input.signed(WITHIN)?) as i32);
        let length = self.input.varint(WITHIN)?;
        self.input.check_count("bytes of a line table", length, LINE_TABLE_MAX_BYTES)?;
        let line_table = self.input.bytes(WITHIN, length)?;
        let code = CodeObject { function, file, first_line: self.last.first_line, line_table };
        self.stacks.add_code(id, code).map_err(|reason| self.input.error(reason))
    }

    /// A frame, in the order of their numbers.
    fn frame(&mut self) -> Result<Option<CaptureRecord>, DecodeError> {
        const WITHIN: &str = "a frame";
        let id = self.input.varint(WITHIN)?;
        let (code, instruction) = (self.input.varint(WITHIN)?, self.input.signed(WITHIN)?);
        let key = FrameKey { code, instruction, is_entry: self.input.byte(WITHIN)? != 0 };
        let number = self.stacks.frame(key).map_err(|reason| self.input.error(reason))?;
        match u64::from(number) == id {
            true => Ok(None),
            false => Err(self.input.malformed(format!("the frame {id} stands where frame {number} should"))),
        }
    }

    /// A stack, in the order of their numbers.
    fn stack(&mut self) -> Result<Option<CaptureRecord>, DecodeError> {
        const WITHIN: &str = "a stack";
        let (frame, parent) = (self.input.varint(WITHIN)?, self.input.varint(WITHIN)?);
        let (frame, parent) = (frame.min(u32::MAX.into()) as u32, parent.min(u32::MAX.into()) as StackId);
        let (stack, is_new) = self.stacks.stack(parent, frame).map_err(|reason| self.input.error(reason))?;
        match is_new {
            true => Ok(Some(self.new_stack(stack))),
            false => Err(self.input.malformed(format!("the stack {stack} comes twice"))),
        }
    }

    fn site(&mut self) -> Result<CaptureRecord, DecodeError> {
        const WITHIN: &str = "sums of a place";
        let thread_id = self.input.word(WITHIN)?;
        // A byte in the place of a word: the rest is whatever was in memory.
        let [number, ..] = self.input.fixed::<8>(WITHIN)?;
        let allocator = self.allocator(number)?;
        let native_stack = self.input.word(WITHIN)?;
        let native_stack = self.native_stack(native_stack)?;
        let stack = self.input.word(WITHIN)?;
        if stack > self.stacks.len() {
            return Err(self.input.malformed(format!("sums of the stack {stack}, which did not come before")));
        }
        // Which list of mapped files was valid; native frames come behind all lists.
        self.input.word(WITHIN)?;
        self.counts.sites += 1;
        Ok(CaptureRecord::Site(AllocationSite {
            thread_id,
            allocator,
            stack: Some(stack as StackId).filter(|stack| *stack > 0),
            native_stack,
            peak_allocations: self.input.word(WITHIN)?,
            leaked_allocations: self.input.word(WITHIN)?,
            peak_bytes: self.input.word(WITHIN)?,
            leaked_bytes: self.input.word(WITHIN)?,
        }))
    }
}
