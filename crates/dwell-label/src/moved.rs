//! Records of a process, moved to where the tables of the run have them.

use dwell_events::address_space::address_in_run;
use dwell_records::{Graph, Transferred, WeightPlaced, WorkBuffer};

/// Moves everything in a graph.
pub(crate) fn move_graph(process: u8, graph: &mut Graph) {
    for buffer in &mut graph.buffers {
        buffer.base = address_in_run(process, buffer.base);
    }
    for tensor in &mut graph.tensors {
        tensor.address = address_in_run(process, tensor.address);
    }
}

/// Moves a weight.
pub(crate) fn move_weight(process: u8, weight: &mut WeightPlaced) {
    weight.address = address_in_run(process, weight.address);
}

/// Moves bytes that were touched between graphs.
pub(crate) fn move_transfer(process: u8, transferred: &mut Transferred) {
    transferred.address = address_in_run(process, transferred.address);
    transferred.tensor_address = address_in_run(process, transferred.tensor_address);
}

/// A work buffer, moved.
pub(crate) fn moved_work(process: u8, work: WorkBuffer) -> WorkBuffer {
    WorkBuffer { address: address_in_run(process, work.address), ..work }
}
