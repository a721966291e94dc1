//! The recorder: what is called around each graph, and what goes into the ring.
//!
//! Per token it must cost less than a hundredth of the computation. The weights of a token push everything else out of
//! the caches, so touching a thousand tensors is to be avoided: a graph that was not allocated anew is not walked again.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use dwell_records::{Fork, Hello, Kind, Placement, Refusal, Resolution, WIRE_VERSION, WeightPlaced};
use dwell_ring::RecordSender;

use crate::abi::{self, Api, Tensor};
use crate::fingerprint::fingerprint;
use crate::plan::{Plan, plan_graph};
use crate::session;
use crate::ticks::{Moment, TickSource};
use crate::transfers::{self, PlacedTensors};

/// ggml's usage of buffers that hold anything (`GGML_BACKEND_BUFFER_USAGE_ANY`), such as a KV cache.
const USAGE_ANY: i32 = 0;
/// ggml's usage of buffers that hold weights (`GGML_BACKEND_BUFFER_USAGE_WEIGHTS`).
const USAGE_WEIGHTS: i32 = 1;

/// Graphs whose plans are kept. A decode graph changes shape every 256 positions, so this covers a context of 128 Ki;
/// beyond it all are forgotten and stored again when they come back.
const PLANS_KEPT: usize = 512;

/// Numbers of graphs after which a graph is stored again, under a new number. The reader keeps twice as many; graphs of
/// other schedulers and of other recorders in the same process count too.
const GRAPH_IDS_KEPT: u32 = 1024;

/// How to record.
pub struct RecorderOptions {
    /// Where records go.
    pub sender: Arc<RecordSender>,
    /// How finely operations are timed.
    pub resolution: Resolution,
    /// How the recorder came into this process: `linked` or `preloaded`.
    pub way_in: &'static str,
    /// Where the memory of this process comes from, if it was forked from a recorded one.
    pub fork: Option<Fork>,
}

/// Records the graphs that one ggml library computes in this process.
pub struct Recorder {
    api: Api,
    resolution: Resolution,
    tick_source: TickSource,
    is_active: AtomicBool,
    is_layout_checked: AtomicBool,
    plans: Mutex<Plans>,
    placed: Mutex<PlacedTensors>,
    /// The number of the next graph, of all recorders in this process.
    next_graph_id: Arc<AtomicU32>,
    /// File of the ggml library, where it is one of its own; empty otherwise.
    library: String,
    sender: Arc<RecordSender>,
}

#[derive(Default)]
struct Plans {
    by_fingerprint: HashMap<u64, Arc<Plan>>,
    /// The graph that each scheduler has allocated, since it was recorded.
    allocated: Vec<AllocatedGraph>,
}

struct AllocatedGraph {
    scheduler: usize,
    graph: usize,
    plan: Arc<Plan>,
}

impl Recorder {
    /// Says hello, and records from now on.
    pub fn start(api: Api, options: RecorderOptions) -> Self {
        let hello = Hello {
            wire_version: WIRE_VERSION,
            pid: std::process::id(),
            resolution: options.resolution as u8,
            way_in: options.way_in.to_owned(),
            program: std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default(),
            fork: options.fork,
        };
        let recorder = Self {
            api,
            resolution: options.resolution,
            tick_source: TickSource::detect(),
            is_active: AtomicBool::new(true),
            is_layout_checked: AtomicBool::new(false),
            plans: Mutex::default(),
            placed: Mutex::default(),
            next_graph_id: Arc::default(),
            library: String::new(),
            sender: options.sender,
        };
        recorder.send(Kind::Hello, &hello.encode());
        recorder
    }

    /// A recorder for another ggml library in the same process. Its records go where those of this one go, and their
    /// graphs have different numbers; what one of them refuses, the other may record.
    pub fn beside(&self, api: Api) -> Self {
        Self {
            api,
            resolution: self.resolution,
            tick_source: self.tick_source,
            is_active: AtomicBool::new(true),
            is_layout_checked: AtomicBool::new(false),
            plans: Mutex::default(),
            placed: Mutex::default(),
            next_graph_id: self.next_graph_id.clone(),
            library: String::new(),
            sender: self.sender.clone(),
        }
    }

    /// Says in a refusal which library it is about.
    pub fn of_library(self, library: String) -> Self {
        Self { library, ..self }
    }

    /// Sends one record; after the observer has gone, nothing is recorded any more.
    fn send(&self, kind: Kind, payload: &[u8]) {
        if !self.sender.send(kind, payload) {
            self.is_active.store(false, Ordering::Relaxed);
        }
    }

    /// Whether graphs are being recorded.
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// To be called when a scheduler allocates a graph: what it had allocated before is void.
    pub fn graph_allocated(&self, scheduler: *mut c_void) {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.allocated.retain(|allocated| allocated.scheduler != scheduler as usize);
    }

    /// To be called when the library may have been unloaded and loaded again at the same place: what its schedulers had
    /// allocated is void, and its layout is checked again.
    pub fn forget_allocated(&self) {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner).allocated.clear();
        self.is_layout_checked.store(false, Ordering::Relaxed);
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
        // The counters are stored to as the last thing before and the first thing after the computation, so that an
        // instruction-level tracer can cut out exactly what the computation touched.
        session::begin(plan, self.tick_source, |node_marks| self.sender.mark_graph_begun(node_marks));
    }

    /// To be called right after a graph was computed, with what ggml returned.
    pub fn end_graph(&self, status: i32) {
        let end = Moment::now(self.tick_source);
        if session::is_open() {
            self.sender.mark_graph_ended();
            session::end(end, status, |payload| self.send(Kind::Step, payload));
        }
    }

    /// To be called when a tensor got its memory. Weights are recorded, and those of a KV cache are remembered.
    ///
    /// # Safety
    /// `tensor` is a live tensor with data, and `buffer` is the buffer that holds it.
    pub unsafe fn tensor_placed(&self, tensor: *const Tensor, buffer: *mut c_void, placement: Placement) {
        // SAFETY: the caller gives a live tensor and buffer.
        unsafe {
            if !self.is_active() || buffer.is_null() {
                return;
            }
            let usage = (self.api.ggml_backend_buffer_get_usage)(buffer);
            let is_kept = usage == USAGE_WEIGHTS || (usage == USAGE_ANY && placement == Placement::Mapped);
            // Of another layout the first graph refuses with a reason.
            if !is_kept || abi::check_tensor(&self.api, tensor).is_err() {
                return;
            }
            if usage == USAGE_ANY {
                let mut placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
                return placed.add(&self.api, tensor, buffer);
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

    /// To be called when the program has copied bytes out of a tensor.
    ///
    /// # Safety
    /// `tensor` is a live tensor.
    pub unsafe fn tensor_read(&self, tensor: *const Tensor, offset: usize, size: usize) {
        // SAFETY: the caller gives a live tensor, whose layout is checked first.
        unsafe {
            if !self.is_active() || abi::check_tensor(&self.api, tensor).is_err() {
                return;
            }
            if let Some(record) = transfers::read(&self.api, tensor, offset, size) {
                self.send(Kind::Transferred, &record.encode());
            }
        }
    }

    /// To be called when the program has set all bytes of a buffer to one value.
    ///
    /// # Safety
    /// `buffer` is a live buffer.
    pub unsafe fn buffer_cleared(&self, buffer: *mut c_void) {
        if !self.is_active() || buffer.is_null() {
            return;
        }
        let placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller gives a live buffer.
        for record in unsafe { placed.cleared(&self.api, buffer) } {
            self.send(Kind::Transferred, &record.encode());
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
            let of_library = if self.library.is_empty() { String::new() } else { format!(" of {}", self.library) };
            let reason = format!(
                "reading the first graph{of_library}, {mismatch} disagrees with the layout of ggml_tensor that the recorder knows \
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
        if let Some(known) = plans.allocated.iter().find(is_it).filter(|known| self.is_recent(&known.plan)) {
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

    /// Whether the reader still knows the graph by its number.
    fn is_recent(&self, plan: &Plan) -> bool {
        self.next_graph_id.load(Ordering::Relaxed).wrapping_sub(plan.graph_id) <= GRAPH_IDS_KEPT
    }

    /// # Safety
    /// As for [`Recorder::begin_graph`], with the known layout.
    unsafe fn plan_by_fingerprint(&self, plans: &mut Plans, graph: *mut c_void) -> Arc<Plan> {
        // SAFETY: the caller gives a live graph with the known layout.
        let key = unsafe { fingerprint(&self.api, graph) };
        if let Some(plan) = plans.by_fingerprint.get(&key).filter(|plan| self.is_recent(plan)) {
            return plan.clone();
        }
        if plans.by_fingerprint.len() >= PLANS_KEPT {
            plans.by_fingerprint.clear();
        }
        let id = self.next_graph_id.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        let (shape, plan) = unsafe { plan_graph(&self.api, graph, id, self.resolution) };
        self.send(Kind::Graph, &shape.encode());
        let plan = Arc::new(plan);
        plans.by_fingerprint.insert(key, plan.clone());
        plan
    }
}
