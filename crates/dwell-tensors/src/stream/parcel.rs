//! What travels from producers to the file: one large tensor, or many small ones in one buffer.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::Elements;
use super::grant::{Lease, PayloadBuffer, RawBuffer};
use super::spill::Extent;
use crate::TensorHead;
use crate::container::Row;

/// One entry of a parcel.
pub(super) enum Item {
    /// A tensor; its elements follow those of the items before it.
    Tensor { packet: u64, head: TensorHead, raw_bytes: usize },
    /// A row without elements.
    Note(Row),
}

/// Where the elements or payloads of a parcel are.
pub(super) enum Source {
    Nothing,
    Own(RawBuffer),
    Encoded(PayloadBuffer),
    Foreign(Box<dyn Elements>),
    Spilled(Extent),
}

impl Source {
    /// The bytes, where they are in memory.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(buffer) => buffer.bytes(),
            Self::Encoded(buffer) => &buffer.bytes,
            Self::Foreign(elements) => elements.bytes(),
            Self::Nothing | Self::Spilled(_) => &[],
        }
    }
}

/// Where a flush ends in the file; set once its batch has its place.
pub(super) type FlushEnd = Arc<OnceLock<u64>>;

/// Tensors before they are encoded.
pub(super) struct Parcel {
    /// Place in the order of the file, from 0.
    pub(super) place: u64,
    pub(super) items: Vec<Item>,
    pub(super) source: Source,
    /// Room for the payloads; `None` where the elements are the payload, or wait in the spill file.
    pub(super) payload_room: Option<PayloadBuffer>,
    /// What is paid for besides buffers.
    pub(super) lease: Option<Lease>,
    /// A batch ends behind this parcel.
    pub(super) flush_end: Option<FlushEnd>,
    pub(super) began: Instant,
}

/// Tensors as they are stored.
pub(super) struct EncodedParcel {
    pub(super) place: u64,
    pub(super) rows: Vec<Row>,
    pub(super) payload: Source,
    pub(super) lease: Option<Lease>,
    pub(super) flush_end: Option<FlushEnd>,
    pub(super) began: Instant,
}
