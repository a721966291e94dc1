use std::borrow::Cow;

use dwell_codec::Encoded;

use crate::{TensorHead, TokenMark};

/// One row of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Row {
    /// One tensor; its payload follows those of the rows before it.
    Tensor {
        /// Number given at hand-over.
        packet: u64,
        head: TensorHead,
        encoded: Encoded,
        /// Of the payload as stored.
        crc32c: u32,
        payload_bytes: u64,
    },
    /// A token boundary.
    Token(TokenMark),
    /// Tensors of one name that were dropped since the previous such row.
    Dropped {
        name: String,
        /// The last one dropped.
        packet: u64,
        count: u64,
        /// Bytes of their elements.
        raw_bytes: u64,
        timestamp_ns: i64,
        step: u64,
    },
}

/// Texts of the column `record`.
pub(super) const TENSOR: &str = "tensor";
pub(super) const TOKEN: &str = "token";
pub(super) const DROPPED: &str = "dropped";

impl Row {
    /// Leaves out what a stream of the first container version has no column for.
    pub(crate) fn forget_cosine(&mut self) {
        if let Self::Tensor { encoded, .. } = self {
            encoded.min_cosine = None;
        }
    }
}

/// The cells of a row, column by column.
impl Row {
    pub(super) fn packet(&self) -> u64 {
        match self {
            Self::Tensor { packet, .. } | Self::Dropped { packet, .. } => *packet,
            Self::Token(mark) => mark.packet,
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Tensor { head, .. } => &head.name,
            Self::Dropped { name, .. } => name,
            Self::Token(_) => "",
        }
    }

    pub(super) fn step(&self) -> u64 {
        match self {
            Self::Tensor { head, .. } => head.step,
            Self::Dropped { step, .. } => *step,
            Self::Token(_) => 0,
        }
    }

    pub(super) fn token_index(&self) -> Option<u64> {
        match self {
            Self::Tensor { head, .. } => head.token_index,
            Self::Token(mark) => Some(mark.token_index),
            Self::Dropped { .. } => None,
        }
    }

    pub(super) fn timestamp_ns(&self) -> i64 {
        match self {
            Self::Tensor { head, .. } => head.timestamp_ns,
            Self::Token(mark) => mark.timestamp_ns,
            Self::Dropped { timestamp_ns, .. } => *timestamp_ns,
        }
    }

    pub(super) fn raw_bytes(&self) -> u64 {
        match self {
            Self::Tensor { head, .. } => head.raw_bytes().unwrap_or(u64::MAX),
            Self::Dropped { raw_bytes, .. } => *raw_bytes,
            Self::Token(_) => 0,
        }
    }

    pub(super) fn record(&self) -> &'static str {
        match self {
            Self::Tensor { .. } => TENSOR,
            Self::Token(_) => TOKEN,
            Self::Dropped { .. } => DROPPED,
        }
    }

    pub(super) fn head(&self) -> Option<&TensorHead> {
        match self {
            Self::Tensor { head, .. } => Some(head),
            _ => None,
        }
    }

    pub(super) fn encoded(&self) -> Option<&Encoded> {
        match self {
            Self::Tensor { encoded, .. } => Some(encoded),
            _ => None,
        }
    }

    pub(super) fn codec(&self) -> Option<Cow<'_, str>> {
        self.encoded().map(|encoded| Cow::Owned(encoded.codec.to_string()))
    }

    pub(super) fn crc32c(&self) -> Option<u32> {
        match self {
            Self::Tensor { crc32c, .. } => Some(*crc32c),
            _ => None,
        }
    }

    /// Bytes of the payload; 0 for rows that have none.
    pub(super) fn payload_bytes(&self) -> u64 {
        match self {
            Self::Tensor { payload_bytes, .. } => *payload_bytes,
            _ => 0,
        }
    }

    pub(super) fn dropped(&self) -> Option<u64> {
        match self {
            Self::Dropped { count, .. } => Some(*count),
            _ => None,
        }
    }

    pub(super) fn token(&self) -> Option<&TokenMark> {
        match self {
            Self::Token(mark) => Some(mark),
            _ => None,
        }
    }
}
