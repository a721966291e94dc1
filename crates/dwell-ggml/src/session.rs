//! The graph that a thread is computing.
//!
//! ggml calls back on the thread that asked for the computation, so there is never more than one per thread, and threads
//! do not see each other's. What is called after each operation touches two cache lines (see [`crate::recorder`]).

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use dwell_records::{Step, StepParts, WorkBuffer};

use crate::abi::ComputePlan;
use crate::plan::Plan;
use crate::ticks::{Moment, TickSource, ticks_to_ns};

/// What is gathered while a graph is computed.
struct Session {
    plan: Option<Arc<Plan>>,
    begin: Moment,
    next_after: usize,
    /// One place per unit.
    ticks: Vec<u64>,
    times_ns: Vec<u64>,
    captured: Vec<u8>,
    capture_ends: Vec<usize>,
    /// The work buffers of the parts of the graph that ggml's processor backend computed.
    work: Vec<WorkBuffer>,
    payload: Vec<u8>,
}

/// What is touched after each node: one cache line, and the place for the next tick.
#[repr(align(64))]
struct Pen {
    /// Where the next tick goes; null outside a recorded graph.
    next: Cell<*mut u64>,
    /// Place after the last unit's.
    end: Cell<*mut u64>,
    /// Place of the unit after which an operand is captured; null if there is none.
    capture_at: Cell<*mut u64>,
    /// Calls after the last unit: there should be none.
    extra_calls: Cell<usize>,
    source: Cell<TickSource>,
}

thread_local! {
    static PEN: Pen = const {
        Pen {
            next: Cell::new(std::ptr::null_mut()),
            end: Cell::new(std::ptr::null_mut()),
            capture_at: Cell::new(std::ptr::null_mut()),
            extra_calls: Cell::new(0),
            source: Cell::new(TickSource::Clock),
        }
    };

    static SESSION: RefCell<Session> = const {
        RefCell::new(Session {
            plan: None,
            begin: Moment { ticks: 0, ns: 0 },
            next_after: 0,
            ticks: Vec::new(),
            times_ns: Vec::new(),
            captured: Vec::new(),
            capture_ends: Vec::new(),
            work: Vec::new(),
            payload: Vec::new(),
        })
    };
}

/// Begins a graph: captures its inputs, calls `mark` with the address that is stored to after each node, and takes the time.
pub(crate) fn begin(plan: Arc<Plan>, source: TickSource, mark: impl FnOnce(u64)) {
    SESSION.with_borrow_mut(|session| {
        session.begin(plan, source);
        mark(PEN.with(|pen| pen.next.as_ptr() as u64));
        session.begin = Moment::now(source);
    });
}

/// Whether this thread is computing a recorded graph.
pub(crate) fn is_open() -> bool {
    SESSION.with_borrow(|session| session.plan.is_some())
}

/// Ends the graph and gives the payload of its step to `send`.
pub(crate) fn end(end: Moment, status: i32, send: impl FnOnce(&[u8])) {
    SESSION.with_borrow_mut(|session| {
        let Some(plan) = session.plan.take() else { return };
        session.write_payload(&plan, end, status);
        send(&session.payload);
    });
}

/// To be called after each executed node, on the computing thread. Does nothing outside a recorded graph.
#[inline]
pub fn after_node() {
    PEN.with(|pen| {
        let place = pen.next.get();
        if place == pen.end.get() {
            pen.extra_calls.set(pen.extra_calls.get() + 1);
            return;
        }
        // SAFETY: `next` runs from the first to the last place of the session's ticks, which are not touched otherwise
        // while a graph is computed.
        unsafe {
            place.write(pen.source.get().read());
            pen.next.set(place.add(1));
        }
        if place == pen.capture_at.get() {
            SESSION.with_borrow_mut(|session| session.capture(pen));
        }
    });
}

/// To be called when ggml's processor backend computes, on the computing thread, with what its plan says. Does nothing
/// outside a recorded graph.
///
/// # Safety
/// `plan` is a live `ggml_cplan`.
pub unsafe fn computes_with(plan: *const ComputePlan) {
    // SAFETY: the caller gives a live plan, and its first fields have been the same since there are plans.
    let plan = unsafe { &*plan };
    if plan.work_data.is_null() || plan.work_size == 0 {
        return;
    }
    let threads = u32::try_from(plan.n_threads).unwrap_or(0);
    SESSION.with_borrow_mut(|session| {
        if session.plan.is_some() {
            let (address, size_bytes) = (plan.work_data as u64, plan.work_size as u64);
            let first_unit = PEN.with(|pen| session.units_before(pen.next.get()) as u32);
            session.add_work(WorkBuffer { first_unit, address, size_bytes, threads });
        }
    });
}

/// Number of this thread, as the kernel counts them.
pub(crate) fn current_thread() -> u32 {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::gettid() as u32 }
}

impl Session {
    fn begin(&mut self, plan: Arc<Plan>, source: TickSource) {
        self.next_after = 0;
        self.times_ns.clear();
        self.captured.clear();
        self.capture_ends.clear();
        self.work.clear();
        for reader in &plan.before {
            // SAFETY: the graph is alive and its inputs are set, as the caller of `begin_graph` promised.
            unsafe { reader.append_to(&mut self.captured) };
            self.capture_ends.push(self.captured.len());
        }
        if self.ticks.len() < plan.units {
            self.ticks.resize(plan.units, 0);
        }
        let first = self.ticks.as_mut_ptr();
        PEN.with(|pen| {
            pen.next.set(first);
            // SAFETY: there is a place for each unit.
            pen.end.set(unsafe { first.add(plan.units) });
            pen.extra_calls.set(0);
            pen.source.set(source);
        });
        self.plan = Some(plan);
        PEN.with(|pen| self.aim_capture(pen));
    }

    /// Sets the place at which the next operand is captured.
    fn aim_capture(&mut self, pen: &Pen) {
        let unit = self.plan.as_ref().and_then(|plan| plan.after.get(self.next_after)).map(|(unit, _)| *unit);
        let place = unit.map_or(std::ptr::null_mut(), |unit| &raw mut self.ticks[unit]);
        pen.capture_at.set(place);
    }

    /// Captures the operands that the unit which has just run was the first to use.
    fn capture(&mut self, pen: &Pen) {
        let Some(plan) = self.plan.clone() else { return };
        let unit = plan.after.get(self.next_after).map(|(unit, _)| *unit);
        while let Some((_, reader)) = plan.after.get(self.next_after).filter(|(first_use, _)| Some(*first_use) == unit)
        {
            // SAFETY: the unit that has just run read this operand, so it holds its values.
            unsafe { reader.append_to(&mut self.captured) };
            self.capture_ends.push(self.captured.len());
            self.next_after += 1;
        }
        self.aim_capture(pen);
    }

    /// A part of the graph is computed with this buffer. Parts that share one need as much as the most demanding of them; what
    /// the program computed in between, with a buffer of its own, is no part.
    fn add_work(&mut self, work: WorkBuffer) {
        self.work.pop_if(|last| last.first_unit == work.first_unit);
        match self.work.last_mut() {
            Some(last) if (last.address, last.threads) == (work.address, work.threads) => {
                last.size_bytes = last.size_bytes.max(work.size_bytes);
            }
            _ => self.work.push(work),
        }
    }

    /// Units whose ticks stand before a place.
    fn units_before(&self, place: *mut u64) -> usize {
        (place as usize - self.ticks.as_ptr() as usize) / size_of::<u64>()
    }

    /// Ends the writing of ticks and says how many calls there were.
    fn lift_pen(&mut self) -> usize {
        PEN.with(|pen| {
            let next = pen.next.replace(std::ptr::null_mut());
            pen.end.set(std::ptr::null_mut());
            pen.capture_at.set(std::ptr::null_mut());
            self.units_before(next) + pen.extra_calls.replace(0)
        })
    }

    fn write_payload(&mut self, plan: &Plan, end: Moment, status: i32) {
        let nodes_done = self.lift_pen();
        if nodes_done == plan.units {
            ticks_to_ns(&mut self.ticks[..plan.units], self.begin, end);
            self.times_ns.extend(plan.stamped_units.iter().map(|&unit| self.ticks[unit as usize]));
        } else {
            // The calls cannot be matched to operations: keep only what was captured before the computation.
            self.capture_ends.truncate(plan.before.len());
            self.captured.truncate(self.capture_ends.last().copied().unwrap_or(0));
        }
        self.payload.clear();
        let parts = StepParts {
            graph: plan.graph_id,
            thread: current_thread(),
            begin_ns: self.begin.ns,
            end_ns: end.ns,
            status,
            nodes_done: nodes_done as u32,
            times_ns: &self.times_ns,
            captured: &self.captured,
            capture_ends: &self.capture_ends,
            work: &self.work,
        };
        Step::encode_into(&mut self.payload, &parts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_graph_share_a_buffer_and_what_was_computed_in_between_is_no_part() {
        let work = |first_unit, address, size_bytes| WorkBuffer { first_unit, address, size_bytes, threads: 2 };
        SESSION.with_borrow_mut(|session| {
            // Two parts, a graph of the program's own between them, and a part for which the buffer had to grow.
            let parts = [work(0, 16, 100), work(3, 16, 400), work(5, 900, 50), work(5, 16, 200), work(7, 32, 800)];
            parts.into_iter().for_each(|part| session.add_work(part));
            assert_eq!(session.work, [work(0, 16, 400), work(7, 32, 800)]);
            session.work.clear();
        });
    }
}
