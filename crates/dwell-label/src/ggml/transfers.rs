//! What a program does with tensors between graphs, as accesses.

use dwell_events::schema::trace::{CLEAR_SYMBOL, TraceRow};
use dwell_events::{OpType, Phase};
use dwell_records::names::layer_of;
use dwell_records::{Transfer, Transferred};

use super::compiled::region_type;
use super::ranges::ByteRange;
use super::{GraphLabeller, SOURCE};
use crate::Labelling;
use crate::moved::move_transfer;
use crate::output::Output;
use crate::regions::RegionPlace;
use crate::timeline::Moment;

/// What the reading of results is called in the `symbol` column.
const READ_SYMBOL: &str = "ggml_backend_tensor_get";
/// Name of the code that moves bytes between graphs, in the `dso` column.
const DSO: &str = "ggml-base";

impl GraphLabeller {
    /// Bytes were touched outside of any graph.
    pub fn transferred(
        &mut self,
        process: u8,
        mut transferred: Transferred,
        time_ns: u64,
        labelling: &mut Labelling,
        out: &mut Output,
    ) {
        move_transfer(process, &mut transferred);
        let place = RegionPlace {
            region_type: region_type(
                &transferred.tensor,
                transferred.tensor_address,
                Some(transferred.usage),
                &self.kv,
            ),
            tensor: &transferred.tensor,
            layer: layer_of(&transferred.tensor),
            address: transferred.tensor_address,
            size_bytes: transferred.tensor_size_bytes,
        };
        let label = labelling.regions.declare(&place);
        // A program that reports no phases loads until it computes.
        let unreported = if self.graph_count == 0 { Phase::WeightLoad } else { Phase::Generation };
        let now = Moment { phase: Some(labelling.timeline.phase().unwrap_or(unreported)), ..Moment::default() };
        let (op_type, symbol, moment) = match transferred.transfer {
            Transfer::Read => (OpType::Load, READ_SYMBOL, self.latest.get(&process).copied().unwrap_or(now)),
            Transfer::Cleared => (OpType::Store, CLEAR_SYMBOL, now),
        };
        let row = TraceRow {
            timestamp_ns: time_ns,
            phase: moment.phase,
            address: transferred.address,
            size_bytes: transferred.size_bytes,
            op_type,
            symbol,
            dso: DSO,
            region_type: label.region_type,
            region_id: label.id,
            thread_id: Some(transferred.thread),
            token_index: moment.token_index,
            context_tokens: moment.context_tokens,
            step: moment.step,
            tensor: &label.tensor,
            layer: label.layer,
            source: SOURCE,
            period: 1,
            ..TraceRow::EMPTY
        };
        labelling.regions.push(row, &mut out.trace);
        let range = ByteRange { address: transferred.address, size_bytes: transferred.size_bytes };
        match transferred.transfer {
            Transfer::Read => self.kv.read_outside(transferred.tensor_address, range, time_ns),
            Transfer::Cleared => {
                self.kv.clear(transferred.tensor_address, range, time_ns, &mut out.blocks);
                if self.graph_count > 0 {
                    labelling.timeline.set_kv_bytes(self.kv.live_bytes());
                }
            }
        }
    }
}
