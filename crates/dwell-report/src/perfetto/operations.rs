//! Operations and layers as slices. A row of a trace says when its operation completed; it began when the one before did.

use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_array::types::{UInt16Type, UInt32Type, UInt64Type};
use dwell_store::{number_at, text_at};

use super::tracks::{Slice, Track, TrackWriter};
use super::{PerfettoReport, plain};

/// An operation whose rows are being read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Operation {
    symbol: String,
    /// Tensor that it stored to; that of its last row if it stored nothing.
    tensor: String,
    layer: Option<u16>,
    step: Option<u32>,
    end_ns: u64,
    read_bytes: u64,
    written_bytes: u64,
}

impl Operation {
    /// Whether a row belongs to the same computation of the same operation.
    fn goes_on(&self, next: &Operation) -> bool {
        self.end_ns == next.end_ns && self.symbol == next.symbol && self.step == next.step
    }
}

/// Slices of one layer, while it goes on.
struct Layer {
    number: u16,
    step: Option<u32>,
    begin_ns: u64,
    end_ns: u64,
}

/// Makes slices of the rows of a trace, which come by time.
pub(super) struct OperationSlices<'a, W> {
    writer: &'a mut TrackWriter<W>,
    operations: Track,
    layers: Track,
    current: Option<Operation>,
    layer: Option<Layer>,
    last_end_ns: u64,
    last_step: Option<u32>,
    report: PerfettoReport,
}

impl<'a, W: Write> OperationSlices<'a, W> {
    pub(super) fn new(writer: &'a mut TrackWriter<W>) -> io::Result<Self> {
        let (layers, operations) = (writer.slices("Layers")?, writer.slices("Operations")?);
        Ok(Self {
            writer,
            operations,
            layers,
            current: None,
            layer: None,
            last_end_ns: 0,
            last_step: None,
            report: PerfettoReport::default(),
        })
    }

    pub(super) fn push(&mut self, batch: &RecordBatch, row: usize) -> io::Result<()> {
        let next = operation(batch, row);
        match &mut self.current {
            Some(current) if current.goes_on(&next) => {
                current.read_bytes = current.read_bytes.saturating_add(next.read_bytes);
                current.written_bytes = current.written_bytes.saturating_add(next.written_bytes);
                if next.written_bytes > 0 {
                    (current.tensor, current.layer) = (next.tensor, next.layer.or(current.layer));
                }
                current.layer = current.layer.or(next.layer);
                Ok(())
            }
            _ => {
                self.write_current()?;
                self.current = Some(next);
                Ok(())
            }
        }
    }

    fn write_current(&mut self) -> io::Result<()> {
        let Some(operation) = self.current.take() else { return Ok(()) };
        self.report.operations += 1;
        self.report.read_bytes = self.report.read_bytes.saturating_add(operation.read_bytes);
        self.report.written_bytes = self.report.written_bytes.saturating_add(operation.written_bytes);
        // Between two steps the runtime does other things: the first operation of a step has no known beginning.
        let is_first = operation.step != self.last_step;
        let begin_ns = if is_first { operation.end_ns } else { self.last_end_ns.min(operation.end_ns) };
        let mut numbers = vec![("read_bytes", operation.read_bytes), ("written_bytes", operation.written_bytes)];
        numbers.extend(operation.step.map(|step| ("step", u64::from(step))));
        numbers.extend(operation.layer.map(|layer| ("layer", u64::from(layer))));
        let slice = Slice {
            numbers: &numbers,
            texts: &[("tensor", &operation.tensor)],
            ..plain(&operation.symbol, begin_ns, operation.end_ns)
        };
        self.writer.slice(self.operations, &slice)?;
        self.follow_layer(&operation, begin_ns)?;
        (self.last_end_ns, self.last_step) = (operation.end_ns, operation.step);
        Ok(())
    }

    fn follow_layer(&mut self, operation: &Operation, begin_ns: u64) -> io::Result<()> {
        match (&mut self.layer, operation.layer) {
            (Some(layer), Some(number)) if layer.number == number && layer.step == operation.step => {
                layer.end_ns = operation.end_ns;
                Ok(())
            }
            _ => {
                self.write_layer()?;
                self.layer = operation.layer.filter(|_| operation.step.is_some()).map(|number| Layer {
                    number,
                    step: operation.step,
                    begin_ns,
                    end_ns: operation.end_ns,
                });
                Ok(())
            }
        }
    }

    fn write_layer(&mut self) -> io::Result<()> {
        let Some(layer) = self.layer.take() else { return Ok(()) };
        self.writer.slice(self.layers, &plain(&format!("layer {}", layer.number), layer.begin_ns, layer.end_ns))
    }

    /// What was written in all.
    pub(super) fn finish(mut self) -> io::Result<PerfettoReport> {
        self.write_current()?;
        self.write_layer()?;
        Ok(self.report)
    }
}

fn operation(batch: &RecordBatch, row: usize) -> Operation {
    let text = |column| text_at(batch, column, row).unwrap_or_default();
    let bytes = number_at::<UInt64Type>(batch, "size_bytes", row).unwrap_or(1);
    let is_store = text("op_type") == "store";
    Operation {
        symbol: text("symbol").to_owned(),
        tensor: text("tensor").to_owned(),
        layer: number_at::<UInt16Type>(batch, "layer", row),
        step: number_at::<UInt32Type>(batch, "step", row),
        end_ns: number_at::<UInt64Type>(batch, "timestamp_ns", row).unwrap_or(0),
        read_bytes: if is_store { 0 } else { bytes },
        written_bytes: if is_store { bytes } else { 0 },
    }
}
