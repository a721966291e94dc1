//! The recorder: what is called around each graph, and what goes into the ring.
//!
//! Per token it must cost less than a hundredth of the computation, and what it costs is cache misses: the weights of a
//! token push everything else out. So a graph that was not allocated anew is not walked again, and what is called after
//! each operation touches two cache lines.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::abi::{self, Api, Tensor};
use crate::clock::{Moment, TickSource, monotonic_ns, ticks_to_ns};
use crate::fingerprint::fingerprint;
use crate::plan::{Plan, plan_graph};
use crate::ring::{DEFAULT_CAPACITY_BYTES, Producer, RingError};
use crate::wire::{self, Hello, Kind, Placement, Refusal, Step, StepParts, WIRE_VERSION, WeightPlaced};

/// ggml's usage of buffers that hold weights (`GGML_BACKEND_BUFFER_USAGE_WEIGHTS`).
const USAGE_WEIGHTS: i32 = 1;

/// Graphs whose plans are kept. A decode graph changes shape every 256 positions, so this covers a context of 128 Ki;
/// beyond it all are forgotten and stored again when they come back.
const PLANS_KEPT: usize = 512;

/// How finely operations are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Begin and end of the graph.
    Step,
    /// After each layer.
    Layer,
    /// After each operation.
    Op,
}

impl Resolution {
    /// The resolution with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "step" => Some(Resolution::Step),
            "layer" => Some(Resolution::Layer),
            "op" => Some(Resolution::Op),
            _ => None,
        }
    }
}

/// How to record.
pub struct RecorderOptions {
    /// Folder for the ring.
    pub ring_dir: PathBuf,
    /// Process that empties the ring.
    pub observer_pid: u32,
    /// How finely operations are timed.
    pub resolution: Resolution,
    /// How the recorder came into this process: `linked` or `preloaded`.
    pub way_in: &'static str,
}

/// Records the graphs that this process computes.
pub struct Recorder {
    api: Api,
    resolution: Resolution,
    tick_source: TickSource,
    is_active: AtomicBool,
    is_layout_checked: AtomicBool,
    plans: Mutex<Plans>,
    channel: Mutex<Channel>,
}

#[derive(Default)]
struct Plans {
    by_fingerprint: HashMap<u64, Arc<Plan>>,
    /// The graph that each scheduler has allocated, since it was recorded.
    allocated: Vec<AllocatedGraph>,
    next_graph_id: u32,
}

struct AllocatedGraph {
    scheduler: usize,
    graph: usize,
    plan: Arc<Plan>,
}

struct Channel {
    ring: Producer,
    next_sequence: u64,
}

/// The graph that a thread is computing. ggml calls back on the thread that asked for the computation, so there is
/// never more than one per thread, and threads do not see each other's.
struct Session {
    plan: Option<Arc<Plan>>,
    begin: Moment,
    next_after: usize,
    /// One place per unit.
    ticks: Vec<u64>,
    times_ns: Vec<u64>,
    captured: Vec<u8>,
    capture_ends: Vec<usize>,
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
            payload: Vec::new(),
        })
    };
}

impl Recorder {
    /// Makes the ring and says hello.
    pub fn start(api: Api, options: &RecorderOptions) -> Result<Self, RingError> {
        let ring = Producer::create(&options.ring_dir, options.observer_pid, DEFAULT_CAPACITY_BYTES)?;
        let hello = Hello {
            wire_version: WIRE_VERSION,
            pid: std::process::id(),
            resolution: options.resolution as u8,
            way_in: options.way_in.to_owned(),
            program: std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default(),
        };
        let recorder = Self {
            api,
            resolution: options.resolution,
            tick_source: TickSource::detect(),
            is_active: AtomicBool::new(true),
            is_layout_checked: AtomicBool::new(false),
            plans: Mutex::default(),
            channel: Mutex::new(Channel { ring, next_sequence: 0 }),
        };
        recorder.send(Kind::Hello, &hello.encode());
        Ok(recorder)
    }

    /// Sends one record; after the observer has gone, nothing is recorded any more.
    fn send(&self, kind: Kind, payload: &[u8]) {
        let mut channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let header = wire::frame_header(kind, channel.next_sequence, monotonic_ns(), payload.len());
        channel.next_sequence += 1;
        if !channel.ring.write(&[&header, payload]) {
            self.is_active.store(false, Ordering::Relaxed);
        }
    }

    /// Whether graphs are being recorded.
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// Sends an event of the engine, as JSON.
    pub fn engine_event(&self, json: &[u8]) {
        self.send(Kind::Engine, json);
    }

    /// To be called when a scheduler allocates a graph: what it had allocated before is void.
    pub fn graph_allocated(&self, scheduler: *mut c_void) {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.allocated.retain(|allocated| allocated.scheduler != scheduler as usize);
    }

    /// To be called right before a graph is computed, on the computing thread.
    ///
    /// # Safety
    /// `graph` is a live graph of the ggml behind the API that the recorder was started with; it is allocated by
    /// `scheduler` and its inputs are set.
    pub unsafe fn begin_graph(&self, scheduler: *mut c_void, graph: *mut c_void) {
        // SAFETY: the caller's promise is passed on.
        if !self.is_active() || unsafe { !self.has_known_layout(graph) } {
            return;
        }
        // SAFETY: as above, and the layout is the known one.
        let plan = unsafe { self.plan_of(scheduler, graph) };
        SESSION.with_borrow_mut(|session| {
            session.begin(plan, self.tick_source);
            // The counters are stored to as the last thing before and the first thing after the computation, so that an
            // instruction-level tracer can cut out exactly what the computation touched.
            self.channel.lock().unwrap_or_else(PoisonError::into_inner).ring.mark_graph_begun();
            session.begin = Moment::now(self.tick_source);
        });
    }

    /// To be called right after a graph was computed, with what ggml returned.
    pub fn end_graph(&self, status: i32) {
        let end = Moment::now(self.tick_source);
        SESSION.with_borrow_mut(|session| {
            let Some(plan) = session.plan.take() else { return };
            self.channel.lock().unwrap_or_else(PoisonError::into_inner).ring.mark_graph_ended();
            session.write_payload(&plan, end, status);
            self.send(Kind::Step, &session.payload);
        });
    }

    /// To be called when a tensor got its memory; only weights are recorded.
    ///
    /// # Safety
    /// `tensor` is a live tensor with data, and `buffer` is the buffer that holds it.
    pub unsafe fn tensor_placed(&self, tensor: *const Tensor, buffer: *mut c_void, placement: Placement) {
        // SAFETY: the caller gives a live tensor and buffer.
        unsafe {
            if !self.is_active()
                || buffer.is_null()
                || (self.api.ggml_backend_buffer_get_usage)(buffer) != USAGE_WEIGHTS
            {
                return;
            }
            if abi::check_tensor(&self.api, tensor).is_err() {
                return; // The first graph refuses with a reason.
            }
            let record = WeightPlaced {
                placement,
                address: (*tensor).data as u64,
                size_bytes: (self.api.ggml_nbytes)(tensor) as u64,
                name: (*tensor).name(),
                buffer: abi::text((self.api.ggml_backend_buffer_name)(buffer)),
            };
            self.send(Kind::WeightPlaced, &record.encode());
        }
    }

    /// # Safety
    /// As for [`Recorder::begin_graph`].
    unsafe fn has_known_layout(&self, graph: *mut c_void) -> bool {
        if self.is_layout_checked.load(Ordering::Relaxed) {
            return true;
        }
        // SAFETY: a live graph; each node is live.
        let mismatch = unsafe {
            (0..(self.api.ggml_graph_n_nodes)(graph))
                .map(|index| (self.api.ggml_graph_node)(graph, index))
                .find_map(|node| abi::check_tensor(&self.api, node).err())
        };
        if let Some(mismatch) = mismatch {
            let reason = format!(
                "reading the first graph, {mismatch} disagrees with the layout of ggml_tensor that the recorder knows \
                 (llama.cpp 0.5 to 0.7); the program runs on untraced"
            );
            self.send(Kind::Refusal, &Refusal { reason }.encode());
            self.is_active.store(false, Ordering::Relaxed);
            return false;
        }
        self.is_layout_checked.store(true, Ordering::Relaxed);
        true
    }

    /// # Safety
    /// As for [`Recorder::begin_graph`], with the known layout.
    unsafe fn plan_of(&self, scheduler: *mut c_void, graph: *mut c_void) -> Arc<Plan> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |known: &&AllocatedGraph| (known.scheduler, known.graph) == (scheduler as usize, graph as usize);
        if let Some(known) = plans.allocated.iter().find(is_it) {
            // SAFETY: the caller gives a live graph with the known layout.
            if unsafe { known.plan.still_fits(&self.api, graph) } {
                return known.plan.clone();
            }
        }
        // SAFETY: as above.
        let plan = unsafe { self.plan_by_fingerprint(&mut plans, graph) };
        plans.allocated.retain(|known| known.scheduler != scheduler as usize);
        let known = AllocatedGraph { scheduler: scheduler as usize, graph: graph as usize, plan: plan.clone() };
        plans.allocated.push(known);
        plan
    }

    /// # Safety
    /// As for [`Recorder::begin_graph`], with the known layout.
    unsafe fn plan_by_fingerprint(&self, plans: &mut Plans, graph: *mut c_void) -> Arc<Plan> {
        // SAFETY: the caller gives a live graph with the known layout.
        let key = unsafe { fingerprint(&self.api, graph) };
        if let Some(plan) = plans.by_fingerprint.get(&key) {
            return plan.clone();
        }
        if plans.by_fingerprint.len() >= PLANS_KEPT {
            plans.by_fingerprint.clear();
        }
        let id = plans.next_graph_id;
        plans.next_graph_id += 1;
        // SAFETY: as above.
        let (shape, plan) = unsafe { plan_graph(&self.api, graph, id, self.resolution) };
        self.send(Kind::Graph, &shape.encode());
        let plan = Arc::new(plan);
        plans.by_fingerprint.insert(key, plan.clone());
        plan
    }
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

impl Session {
    fn begin(&mut self, plan: Arc<Plan>, source: TickSource) {
        self.next_after = 0;
        self.times_ns.clear();
        self.captured.clear();
        self.capture_ends.clear();
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

    /// Ends the writing of ticks and says how many calls there were.
    fn lift_pen(&mut self) -> usize {
        PEN.with(|pen| {
            let next = pen.next.replace(std::ptr::null_mut());
            pen.end.set(std::ptr::null_mut());
            pen.capture_at.set(std::ptr::null_mut());
            let written = (next as usize - self.ticks.as_ptr() as usize) / size_of::<u64>();
            written + pen.extra_calls.replace(0)
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
            // SAFETY: gettid has no preconditions.
            thread: unsafe { libc::gettid() } as u32,
            begin_ns: self.begin.ns,
            end_ns: end.ns,
            status,
            nodes_done: nodes_done as u32,
            times_ns: &self.times_ns,
            captured: &self.captured,
            capture_ends: &self.capture_ends,
        };
        Step::encode_into(&mut self.payload, &parts);
    }
}
