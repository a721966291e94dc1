//! Stacks of Python functions: which frame each thread is in, and every distinct stack once, as a tree.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::line_table::line_of;
use crate::error::DecodeReason;

/// Code objects that are kept; a large program has a few hundred thousand.
const MAX_CODE_OBJECTS: u64 = 4 << 20;
/// Bytes of their names and line tables.
const MAX_CODE_BYTES: u64 = 1 << 30;
/// Distinct frames: a line of a function, or several if it has several calls.
const MAX_FRAMES: u64 = 16 << 20;
/// Distinct stacks.
const MAX_STACKS: u64 = 32 << 20;
/// Frames that all threads together are in.
const MAX_DEPTH: u64 = 4 << 20;
/// Threads, as memray numbers them: the numbers of those that ended are used again.
const MAX_THREADS: u64 = 1 << 20;

/// A distinct stack, by number from 1: a frame and the stack of its caller.
pub type StackId = u32;

/// A line of a Python function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location<'a> {
    /// Function, qualified as of Python 3.11.
    pub function: &'a str,
    /// File.
    pub file: &'a str,
    /// Line; none if the code does not say.
    pub line: Option<u32>,
    /// Whether the interpreter was entered anew for the function: its caller is native code.
    pub is_entry: bool,
}

/// Code of a function.
pub(super) struct CodeObject {
    pub function: String,
    pub file: String,
    pub first_line: i64,
    pub line_table: Vec<u8>,
}

impl CodeObject {
    fn bytes(&self) -> u64 {
        (self.function.len() + self.file.len() + self.line_table.len()) as u64
    }
}

/// A frame as a capture names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FrameKey {
    pub code: u64,
    pub instruction: i64,
    pub is_entry: bool,
}

#[derive(Clone)]
struct Frame {
    code: Option<Arc<CodeObject>>,
    line: Option<u32>,
    is_entry: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Node {
    /// 0 for none.
    parent: StackId,
    frame: u32,
}

#[derive(Default)]
pub(super) struct Stacks {
    python_version: u32,
    code: FxHashMap<u64, Arc<CodeObject>>,
    code_bytes: u64,
    frames: Vec<Frame>,
    frame_numbers: FxHashMap<FrameKey, u32>,
    nodes: Vec<Node>,
    node_numbers: FxHashMap<Node, StackId>,
    threads: FxHashMap<u64, Vec<StackId>>,
    depth: u64,
}

/// An error if one more would be too many.
fn room_for(what: &'static str, held: u64, limit: u64) -> Result<(), DecodeReason> {
    match held < limit {
        true => Ok(()),
        false => Err(DecodeReason::TooMany { what, found: held + 1, limit }),
    }
}

impl Stacks {
    pub fn new(python_version: u32) -> Self {
        Self { python_version, ..Self::default() }
    }

    pub fn add_code(&mut self, id: u64, code: CodeObject) -> Result<(), DecodeReason> {
        room_for("code objects", self.code.len() as u64, MAX_CODE_OBJECTS)?;
        self.code_bytes += code.bytes();
        room_for("bytes of code objects", self.code_bytes, MAX_CODE_BYTES)?;
        self.code.insert(id, Arc::new(code));
        Ok(())
    }

    /// Number of a frame, from 0. Its code has come before it, so that its line can be looked up now.
    pub fn frame(&mut self, key: FrameKey) -> Result<u32, DecodeReason> {
        if let Some(number) = self.frame_numbers.get(&key) {
            return Ok(*number);
        }
        room_for("frames", self.frames.len() as u64, MAX_FRAMES)?;
        let code = self.code.get(&key.code).cloned();
        let line = code
            .as_ref()
            .and_then(|code| line_of(self.python_version, &code.line_table, code.first_line, key.instruction));
        let number = self.frames.len() as u32;
        self.frames.push(Frame { code, line, is_entry: key.is_entry });
        self.frame_numbers.insert(key, number);
        Ok(number)
    }

    /// Number of the stack of a frame and its callers, and whether it is a new one.
    pub fn stack(&mut self, parent: StackId, frame: u32) -> Result<(StackId, bool), DecodeReason> {
        let node = Node { parent, frame };
        if let Some(number) = self.node_numbers.get(&node) {
            return Ok((*number, false));
        }
        if frame as usize >= self.frames.len() || parent as usize > self.nodes.len() {
            return Err(DecodeReason::Malformed("a stack of frames that did not come before it".to_owned()));
        }
        room_for("stacks", self.nodes.len() as u64, MAX_STACKS)?;
        self.nodes.push(node);
        let number = self.nodes.len() as StackId;
        self.node_numbers.insert(node, number);
        Ok((number, true))
    }

    /// Says that a thread exists.
    pub fn add_thread(&mut self, thread_id: u64) -> Result<(), DecodeReason> {
        if !self.threads.contains_key(&thread_id) {
            room_for("threads", self.threads.len() as u64, MAX_THREADS)?;
            self.threads.insert(thread_id, Vec::new());
        }
        Ok(())
    }

    /// A thread calls a function; the stack if it is a new one.
    pub fn push(&mut self, thread_id: u64, key: FrameKey) -> Result<Option<StackId>, DecodeReason> {
        room_for("frames on the stacks of threads", self.depth, MAX_DEPTH)?;
        let frame = self.frame(key)?;
        let (stack, is_new) = self.stack(self.top(thread_id).unwrap_or(0), frame)?;
        self.threads.entry(thread_id).or_default().push(stack);
        self.depth += 1;
        Ok(is_new.then_some(stack))
    }

    /// Functions of a thread return.
    pub fn pop(&mut self, thread_id: u64, count: usize) -> Result<(), DecodeReason> {
        let stack = self.threads.entry(thread_id).or_default();
        let Some(left) = stack.len().checked_sub(count) else {
            let found = format!("{count} functions return on a thread that is in {}", stack.len());
            return Err(DecodeReason::Malformed(found));
        };
        stack.truncate(left);
        self.depth -= count as u64;
        Ok(())
    }

    /// Where a thread is; none outside of any function.
    pub fn top(&self, thread_id: u64) -> Option<StackId> {
        self.threads.get(&thread_id)?.last().copied()
    }

    pub fn len(&self) -> u64 {
        self.nodes.len() as u64
    }

    pub fn parent(&self, stack: StackId) -> Option<StackId> {
        Some(self.node(stack)?.parent).filter(|parent| *parent > 0)
    }

    pub fn location(&self, stack: StackId) -> Option<Location<'_>> {
        let frame = self.frames.get(self.node(stack)?.frame as usize)?;
        let code = frame.code.as_deref();
        Some(Location {
            function: code.map_or("", |code| &code.function),
            file: code.map_or("", |code| &code.file),
            line: frame.line,
            is_entry: frame.is_entry,
        })
    }

    fn node(&self, stack: StackId) -> Option<Node> {
        self.nodes.get((stack as usize).checked_sub(1)?).copied()
    }
}
