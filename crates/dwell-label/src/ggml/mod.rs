//! The accesses of ggml's graphs: from the shape of a graph and the values of a step to byte ranges.
//!
//! ```text
//! Graph ─▶ touch: which operands an operation reads and writes ─▶ compiled: as regions and byte ranges
//!            └─▶ work: what its kernel keeps beside the tensors
//! Step  ─▶ expand: rows of `trace`, with what only the step knows: rows, cells, experts, times
//!            └─▶ kv: lives of KV blocks ─▶ rows of `kv_block_lifecycle`
//! Transferred ─▶ transfers: what happens between graphs
//! ```

mod compiled;
mod expand;
mod kv;
mod ranges;
mod recurrence;
mod touch;
mod transfers;
mod work;

use std::collections::{HashMap, HashSet};

use dwell_events::address_space::{PROCESSES_MAX, address_in_other};
use dwell_events::engine::EngineEvent;
use dwell_events::kv_accesses::KvAccesses;
use dwell_events::schema::region_map::RegionRow;
use dwell_events::schema::trace::{FILE_READ_SYMBOL, MAPPED_SYMBOL, TraceRow};
use dwell_events::{LossKind, OpType, Phase, RegionType};
use dwell_records::names::layer_of;
use dwell_records::{Graph, Placement, Step, WeightPlaced};

use crate::Labelling;
use crate::loss_count::LossCount;
use crate::moved::{move_graph, move_weight, moved_work};
use crate::output::Output;
use crate::regions::{RegionPlace, Regions};
use crate::timeline::{Inputs, Moment};
use compiled::{CompiledGraph, compile};
use expand::{Expansion, WorkMemory, decode_captures};
use kv::KvCaches;

/// Name of the collector in the `source` column.
pub const SOURCE: &str = "tensor_ops";
/// Name of the code that computes, in the `dso` column.
const DSO: &str = "ggml-cpu";
/// Name of the code that puts weights into memory.
const LOADER_DSO: &str = "llama";

/// Recorders of earlier versions do not tell what happens between graphs.
const FIRST_WIRE_VERSION_WITH_TRANSFERS: u16 = 2;

/// Graphs after which an older one is not computed under its number any more.
const GRAPHS_KEPT: u32 = 2048;

/// A tensor of the model file, to tell where mapped weights come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTensor {
    /// Name.
    pub name: String,
    /// First byte in the file.
    pub file_offset: u64,
}

/// What the recorder saw in the processes of a run, as accesses.
///
/// Time, step and token of each come from the timeline of the [`Labelling`]; regions and rows go to it.
pub struct GraphLabeller {
    file_offsets: HashMap<String, u64>,
    kv: KvCaches,
    /// By process and number.
    graphs: HashMap<(u8, u32), CompiledGraph>,
    /// Regions of weights that are in place, whatever rules call the access that put them there, and since when.
    placed: HashMap<u32, u64>,
    /// Processes whose recorder tells what happens between graphs.
    tells_transfers: HashSet<u8>,
    /// The latest computation of each process: what follows it before the next one is made with its results.
    latest: HashMap<u8, Moment>,
    /// Forked processes.
    forks: HashMap<u8, ForkedFrom>,
    graph_count: u64,
    step_count: u64,
}

impl GraphLabeller {
    /// For a model with these tensors in its file.
    pub fn new(file_tensors: &[FileTensor]) -> Self {
        Self {
            file_offsets: file_tensors.iter().map(|tensor| (tensor.name.clone(), tensor.file_offset)).collect(),
            kv: KvCaches::default(),
            graphs: HashMap::new(),
            placed: HashMap::new(),
            tells_transfers: HashSet::new(),
            latest: HashMap::new(),
            forks: HashMap::new(),
            graph_count: 0,
            step_count: 0,
        }
    }

    /// Graphs that were stored, and computations of them.
    pub fn counts(&self) -> (u64, u64) {
        (self.graph_count, self.step_count)
    }

    /// What was loaded and stored of the KV cache.
    pub fn kv_accesses(&self) -> KvAccesses {
        self.kv.accesses()
    }

    /// A process is recorded from now on, with records of this version.
    pub fn begins(&mut self, process: u8, wire_version: u16) {
        if wire_version >= FIRST_WIRE_VERSION_WITH_TRANSFERS {
            self.tells_transfers.insert(process);
        }
    }

    /// A process was forked from another, and has what was in its memory then: weights and KV blocks.
    pub fn forked(&mut self, process: u8, parent: u8, time_ns: u64) {
        self.forks.insert(process, ForkedFrom { parent, time_ns });
        self.kv.fork(parent, process, time_ns);
    }

    /// A graph was seen for the first time. Weights that nobody was seen to place were in place at `loaded_ns`.
    pub fn graph(
        &mut self,
        process: u8,
        mut graph: Graph,
        loaded_ns: u64,
        labelling: &mut Labelling,
        out: &mut Output,
    ) {
        self.graph_count += 1;
        move_graph(process, &mut graph);
        let compiled = compile(&graph, &mut labelling.regions, &mut self.kv);
        if compiled.has_foreign_memory {
            labelling.loss.add(LossKind::ForeignDevice, 1, None, || {
                let names = graph.buffers.iter().filter(|buffer| !buffer.is_host).map(|buffer| buffer.name.as_str());
                format!("buffers {}", names.collect::<Vec<_>>().join(", "))
            });
        }
        self.store_unplaced_weights(process, &compiled, loaded_ns, labelling, out);
        self.graphs.insert((process, graph.id), compiled);
        // The recorder forgets graphs long before it has stored this many more; it names them anew if they come back.
        if let Some(oldest) = graph.id.checked_sub(GRAPHS_KEPT) {
            self.graphs.retain(|&(owner, id), _| owner != process || id > oldest);
        }
        labelling.timeline.set_kv_bytes(self.kv.live_bytes());
    }

    /// A weight tensor got its memory.
    pub fn weight(
        &mut self,
        process: u8,
        mut weight: WeightPlaced,
        time_ns: u64,
        labelling: &mut Labelling,
        out: &mut Output,
    ) {
        move_weight(process, &mut weight);
        let label = labelling.regions.declare(&RegionPlace {
            region_type: RegionType::Weight,
            tensor: &weight.name,
            layer: layer_of(&weight.name),
            address: weight.address,
            size_bytes: weight.size_bytes,
        });
        let (origin, file_offset, symbol) = match weight.placement {
            Placement::Mapped => ("mapped", self.file_offsets.get(&weight.name).copied(), MAPPED_SYMBOL),
            Placement::Copied if weight.buffer.contains("REPACK") => ("repacked", None, "ggml_backend_tensor_set"),
            Placement::Copied => ("copied", None, "ggml_backend_tensor_set"),
        };
        if let Some(row) = labelling.regions.row_mut(label.id) {
            row.origin = origin;
            row.file_offset = file_offset.or(row.file_offset);
        }
        let store = WeightStore { address: weight.address, size_bytes: weight.size_bytes, symbol, time_ns };
        self.store_weight(label.id, &store, labelling, out);
    }

    /// Expands one computation. False if its graph is not known.
    pub fn step(&mut self, process: u8, step: &Step, labelling: &mut Labelling, out: &mut Output) -> bool {
        let Some(graph) = self.graphs.get(&(process, step.graph)) else { return false };
        self.step_count += 1;
        let captures = decode_captures(graph, step);
        let integers = |capture: Option<usize>| {
            capture.and_then(|index| captures.get(index)).and_then(|capture| capture.integers())
        };
        let (ids, positions) = (integers(graph.token_ids), integers(graph.positions));
        let tokens = graph.tokens.max(positions.as_ref().map_or(0, Vec::len).min(graph.tokens.max(1)));
        let outputs = integers(graph.outputs).or_else(|| graph.has_no_output.then(Vec::new));
        let stored = graph.stored_keys();
        let cells = stored.and_then(|(_, capture)| integers(Some(capture))).filter(|cells| cells.len() == tokens);
        let streams = stored.zip(cells).and_then(|((cache, _), cells)| self.kv.streams_of(cache, &cells));
        let key_cells = integers(graph.key_cells);
        let are_first = |numbers: &Vec<i64>| numbers.iter().all(|&number| number == 0);
        let begins_sequence = graph.keeps_nothing || positions.as_ref().or(key_cells.as_ref()).is_some_and(are_first);
        let inputs = Inputs {
            tokens,
            begins_sequence,
            ids: ids.as_deref(),
            positions: positions.as_deref(),
            cache: stored.map(|(cache, _)| cache),
            streams: streams.as_deref(),
            outputs: outputs.as_deref(),
            begin_ns: step.begin_ns,
        };
        let computation = labelling.timeline.computes(process, &inputs);
        for &dropped in &computation.dropped {
            self.kv.drop_lane(process, dropped, step.begin_ns, &mut out.blocks);
        }
        let tells_transfers = self.tells_transfers.contains(&process);
        count_unseen(&mut labelling.loss, graph, step, tells_transfers);
        self.latest.insert(process, computation.moment);
        let mut expansion = Expansion {
            regions: &mut labelling.regions,
            kv: &mut self.kv,
            loss: &mut labelling.loss,
            computation: &computation,
            out,
        };
        if tells_transfers {
            expansion.inputs(graph, step);
        }
        let work: Vec<WorkMemory> =
            step.work.iter().map(|&work| expansion.work_memory(moved_work(process, work))).collect();
        expansion.run(graph, step, &captures, &work);
        labelling.timeline.computed(process, computation.step, self.kv.live_bytes());
        true
    }

    /// The engine reported something; what it did to the KV cache outside of graphs ends lives or moves blocks. To be
    /// told before the timeline is, which lists tokens with the bytes in the cache.
    pub fn engine_event(&mut self, event: &EngineEvent, time_ns: u64, labelling: &mut Labelling, out: &mut Output) {
        match *event {
            EngineEvent::KvRemoved { sequence, from, to } => {
                self.kv.remove(sequence, from, to, time_ns, &mut out.blocks);
            }
            EngineEvent::KvShifted { sequence, from, to, delta } => self.kv.shift(sequence, from, to, delta),
            EngineEvent::KvCopied { source, target } => {
                let bytes = self.kv.copy(source, target, time_ns, &mut out.blocks);
                if bytes > 0 {
                    let detail = || format!("sequence {source} to {target}");
                    labelling.loss.add(LossKind::KvStreamCopy, 1, Some(bytes), detail);
                }
            }
            _ => return,
        }
        if self.graph_count > 0 {
            labelling.timeline.set_kv_bytes(self.kv.live_bytes());
        }
    }

    /// Ends the KV blocks that still live.
    pub fn finish(mut self, out: &mut Output) {
        self.kv.finish(&mut out.blocks);
    }

    /// Weights that were read straight into their buffer pass no function that is recorded; they were in place when
    /// loading ended. Those that a process has from its parent were not stored at all.
    fn store_unplaced_weights(
        &mut self,
        process: u8,
        graph: &CompiledGraph,
        loaded_ns: u64,
        labelling: &mut Labelling,
        out: &mut Output,
    ) {
        for operand in graph.units.iter().flat_map(|unit| &unit.loads) {
            let region = &operand.region;
            if region.region_type != RegionType::Weight || self.placed.contains_key(&region.id) {
                continue;
            }
            if self.inherit_weight(process, region.id, &mut labelling.regions) {
                continue;
            }
            let Some(row) = labelling.regions.row_mut(region.id).filter(|row| row.bytes_written == 0) else { continue };
            row.origin = "copied";
            let (address, size_bytes) = (row.address, row.size_bytes);
            let store = WeightStore { address, size_bytes, symbol: FILE_READ_SYMBOL, time_ns: loaded_ns };
            self.store_weight(region.id, &store, labelling, out);
        }
    }

    /// Gives a weight the origin that it has in the process that this one was forked from. False if it was not in place
    /// there at that time.
    fn inherit_weight(&mut self, process: u8, region_id: u32, regions: &mut Regions) -> bool {
        let Some(row) = regions.row(region_id) else { return false };
        let Some((ancestor_id, since_ns)) = self.ancestor_of_weight(process, row, regions) else { return false };
        let Some(ancestor) = regions.row(ancestor_id) else { return false };
        let (origin, file_offset) = (ancestor.origin, ancestor.file_offset);
        self.placed.insert(region_id, since_ns);
        if let Some(row) = regions.row_mut(region_id) {
            (row.origin, row.file_offset) = (origin, file_offset);
        }
        true
    }

    /// The same weight at the same address in a parent, or in a parent of that, if it was in place when this process was
    /// forked; and since when this process has it.
    fn ancestor_of_weight(&self, process: u8, row: &RegionRow, regions: &Regions) -> Option<(u32, u64)> {
        let fork = *self.forks.get(&process)?;
        let mut next = fork;
        // Damaged records may say that a process is its own ancestor.
        for _ in 0..PROCESSES_MAX {
            let address = address_in_other(next.parent, row.address);
            let ancestor_id = regions.declared(RegionType::Weight, &row.tensor, address);
            let is_in_place = |id: &u32| self.placed.get(id).is_some_and(|&placed_ns| placed_ns <= next.time_ns);
            if let Some(ancestor_id) = ancestor_id.filter(is_in_place) {
                return Some((ancestor_id, fork.time_ns));
            }
            next = *self.forks.get(&next.parent)?;
        }
        None
    }

    fn store_weight(&mut self, region_id: u32, store: &WeightStore, labelling: &mut Labelling, out: &mut Output) {
        self.placed.insert(region_id, store.time_ns);
        let Some(region) = labelling.regions.row(region_id) else { return };
        let (tensor, layer) = (region.tensor.clone(), region.layer);
        let row = TraceRow {
            timestamp_ns: store.time_ns,
            phase: Some(Phase::WeightLoad),
            address: store.address,
            size_bytes: store.size_bytes,
            op_type: OpType::Store,
            symbol: store.symbol,
            dso: LOADER_DSO,
            region_type: RegionType::Weight,
            region_id,
            tensor: &tensor,
            layer,
            source: SOURCE,
            period: 1,
            ..TraceRow::EMPTY
        };
        labelling.regions.push(row, &mut out.trace);
    }
}

/// The process that another one was forked from, and when.
#[derive(Clone, Copy)]
struct ForkedFrom {
    parent: u8,
    time_ns: u64,
}

/// The access that put a weight into its memory.
struct WeightStore {
    address: u64,
    size_bytes: u64,
    symbol: &'static str,
    time_ns: u64,
}

/// What no computation of a graph shows.
fn count_unseen(loss: &mut LossCount, graph: &CompiledGraph, step: &Step, tells_transfers: bool) {
    if step.times_ns.len() != graph.stamps {
        let (expected, found) = (graph.units.len(), step.nodes_done);
        loss.add(LossKind::UnalignedOpTimes, 1, None, || {
            format!("{found} calls for {expected} operations in the first such step")
        });
    }
    if !tells_transfers {
        loss.add(LossKind::InputUpload, 1, Some(graph.input_bytes), || "inputs written before each graph".into());
        if graph.result_bytes > 0 {
            loss.add(LossKind::LogitsReadBack, 1, Some(graph.result_bytes), || "logits read after a graph".into());
        }
    }
    let unseen = match step.work[..] {
        [] => "scratch of the kernels, size not known to the graph",
        _ => "tables and tiles that kernels keep per thread",
    };
    loss.add(LossKind::WorkBuffer, 1, None, || unseen.into());
}
