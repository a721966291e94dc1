//! Weights on their way into memory.

use crate::DecodeError;
use crate::encode::{Put, Take};

/// How a weight tensor came into its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Placement {
    /// It lies in a mapping of the model file.
    Mapped = 0,
    /// It was written into a buffer, perhaps in another arrangement.
    Copied = 1,
}

/// A weight tensor got its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightPlaced {
    /// How.
    pub placement: Placement,
    /// First byte.
    pub address: u64,
    /// Bytes in the buffer.
    pub size_bytes: u64,
    /// Name of the tensor.
    pub name: String,
    /// Name of the buffer's kind, such as `CPU_Mapped` or `CPU_REPACK`.
    pub buffer: String,
}

impl WeightPlaced {
    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u8(self.placement as u8);
        out.put_u64(self.address);
        out.put_u64(self.size_bytes);
        out.put_text(&self.name);
        out.put_text(&self.buffer);
        out
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut take = Take::new(payload);
        Ok(Self {
            placement: if take.u8()? == Placement::Mapped as u8 { Placement::Mapped } else { Placement::Copied },
            address: take.u64()?,
            size_bytes: take.u64()?,
            name: take.text()?,
            buffer: take.text()?,
        })
    }
}
