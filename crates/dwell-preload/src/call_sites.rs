//! From a call of a stand-in to what it reaches: the first call from a place is worked out, the others are looked up.

use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

use crate::elf;
use crate::guarded;
use crate::originals::{self, Call, Original};
use crate::recording;
use crate::source::Source;
use crate::state::STATE;
use crate::trampoline::{Code, Symbol};

/// What the calls from some place reach. The stand-in jumps to the first field.
#[repr(C)]
pub(crate) struct Reached {
    /// The original, or what records around it.
    target: Code,
    /// The original; what fails in its place if there is none.
    pub(crate) original: Code,
    /// The ggml that is recorded around the original; `None` if nothing is.
    pub(crate) source: Option<&'static Source>,
}

impl Reached {
    /// What is reached where there is no original.
    pub(crate) const fn missing(code: Code) -> Self {
        Self { target: code, original: code, source: None }
    }

    /// Whether both say the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.original as usize == other.original as usize
            && self.target as usize == other.target as usize
            && self.source.map(std::ptr::from_ref) == other.source.map(std::ptr::from_ref)
    }
}

/// Places that are remembered. A program has a few dozen.
const SLOTS: usize = 1024;
/// Slots in which a place can be.
const PROBES: usize = 16;
/// Marks a slot that is empty or is being filled.
const NO_GENERATION: u64 = u64::MAX;

/// One place. The generation is both what the answer depends on and the mark of a seqlock: it is taken away before the
/// other fields change, and generations never come back.
struct Slot {
    generation: AtomicU64,
    symbol: AtomicUsize,
    return_address: AtomicUsize,
    reached: AtomicPtr<Reached>,
}

static SITES: [Slot; SLOTS] = [const {
    Slot {
        generation: AtomicU64::new(NO_GENERATION),
        symbol: AtomicUsize::new(0),
        return_address: AtomicUsize::new(0),
        reached: AtomicPtr::new(std::ptr::null_mut()),
    }
}; SLOTS];

/// Called by every stand-in, before anything else, with where its call returns to and the first argument.
pub(crate) extern "C" fn reach(
    symbol: &'static Symbol,
    return_address: usize,
    first_argument: usize,
) -> &'static Reached {
    let generation = elf::generation();
    remembered(symbol, return_address, generation)
        .unwrap_or_else(|| find(symbol, Call { return_address, first_argument }, generation))
}

fn slots_of(symbol: &'static Symbol, return_address: usize) -> impl Iterator<Item = &'static Slot> {
    let key = (return_address ^ (symbol as *const Symbol as usize).rotate_left(32)) as u64;
    let first = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
    (0..PROBES).map(move |probe| &SITES[(first + probe) % SLOTS])
}

impl Slot {
    fn is_for(&self, symbol: &'static Symbol, return_address: usize) -> bool {
        self.return_address.load(Ordering::Relaxed) == return_address
            && self.symbol.load(Ordering::Relaxed) == symbol as *const Symbol as usize
    }
}

#[inline]
fn remembered(symbol: &'static Symbol, return_address: usize, generation: u64) -> Option<&'static Reached> {
    slots_of(symbol, return_address).find_map(|slot| {
        if slot.generation.load(Ordering::Acquire) != generation || !slot.is_for(symbol, return_address) {
            return None;
        }
        let reached = slot.reached.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let is_unchanged = slot.generation.load(Ordering::Relaxed) == generation;
        // SAFETY: what is stored in a slot is never freed, and the slot was not changed while it was read.
        is_unchanged.then(|| unsafe { &*reached })
    })
}

/// Remembers an answer, unless all its slots are in use. To be called by one thread at a time.
fn remember(symbol: &'static Symbol, return_address: usize, generation: u64, reached: &'static Reached) {
    let is_free = |slot: &&Slot| slot.generation.load(Ordering::Relaxed) != generation;
    let Some(slot) = slots_of(symbol, return_address).find(is_free) else { return };
    slot.generation.store(NO_GENERATION, Ordering::Relaxed);
    fence(Ordering::Release);
    slot.symbol.store(symbol as *const Symbol as usize, Ordering::Relaxed);
    slot.return_address.store(return_address, Ordering::Relaxed);
    slot.reached.store(std::ptr::from_ref(reached).cast_mut(), Ordering::Relaxed);
    slot.generation.store(generation, Ordering::Release);
}

#[cold]
fn find(symbol: &'static Symbol, call: Call, generation: u64) -> &'static Reached {
    recording::prepare_for_forks();
    let is_recorded = guarded(recording::is_wanted).unwrap_or(false);
    let original = guarded(|| originals::find(symbol.name, call, is_recorded)).unwrap_or_default();
    guarded(|| keep(symbol, call, generation, original)).unwrap_or(&symbol.missing)
}

/// Remembers what a call reaches. What is remembered twice is stored once, so that a program that loads and unloads a
/// library again and again does not grow.
fn keep(symbol: &'static Symbol, call: Call, generation: u64, original: Original) -> &'static Reached {
    let Some(address) = original.address else { return &symbol.missing };
    // SAFETY: the address is that of a function, which is called as the type that its name says.
    let code = unsafe { std::mem::transmute::<usize, Code>(address) };
    let mut state = STATE.lock();
    let source = original.library.map(|library| state.source_of(library, generation));
    let target = if source.is_some() { symbol.recorded } else { code };
    let reached = state.reached_by(Reached { target, original: code, source });
    if original.holds_for_call_site {
        remember(symbol, call.return_address, generation, reached);
    }
    reached
}
