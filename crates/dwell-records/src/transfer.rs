//! What a program does with tensors between graphs.

use crate::DecodeError;
use crate::encode::{Put, Take};

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Transfer {
    /// Bytes were copied out of a tensor, as logits are after a graph.
    Read = 0,
    /// All bytes were set to one value, as those of a new KV cache are.
    Cleared = 1,
}

/// Bytes of a tensor were touched outside of any graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transferred {
    /// How.
    pub transfer: Transfer,
    /// Thread that did it.
    pub thread: u32,
    /// First byte that was touched.
    pub address: u64,
    /// Bytes that were touched.
    pub size_bytes: u64,
    /// Name of the tensor that owns the memory.
    pub tensor: String,
    /// First byte of that tensor.
    pub tensor_address: u64,
    /// Bytes of that tensor.
    pub tensor_size_bytes: u64,
    /// What ggml says that the tensor's buffer is for, as in [`crate::Buffer`].
    pub usage: u8,
}

impl Transferred {
    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u8(self.transfer as u8);
        out.put_u32(self.thread);
        out.put_u64(self.address);
        out.put_u64(self.size_bytes);
        out.put_text(&self.tensor);
        out.put_u64(self.tensor_address);
        out.put_u64(self.tensor_size_bytes);
        out.put_u8(self.usage);
        out
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut take = Take::new(payload);
        Ok(Self {
            transfer: match take.u8()? {
                0 => Transfer::Read,
                1 => Transfer::Cleared,
                _ => return Err(DecodeError::Value),
            },
            thread: take.u32()?,
            address: take.u64()?,
            size_bytes: take.u64()?,
            tensor: take.text()?,
            tensor_address: take.u64()?,
            tensor_size_bytes: take.u64()?,
            usage: take.u8()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_comes_back_from_its_bytes_and_a_cut_or_unknown_one_is_refused() {
        let read = Transferred {
            transfer: Transfer::Read,
            thread: 7,
            address: 0x1010,
            size_bytes: 16,
            tensor: "result_output".to_owned(),
            tensor_address: 0x1000,
            tensor_size_bytes: 64,
            usage: 2,
        };
        for transferred in [read.clone(), Transferred { transfer: Transfer::Cleared, ..read.clone() }] {
            assert_eq!(Transferred::decode(&transferred.encode()), Ok(transferred));
        }
        let mut bytes = read.encode();
        assert_eq!(Transferred::decode(&bytes[..bytes.len() - 1]), Err(DecodeError::Short));
        bytes[0] = 2;
        assert_eq!(Transferred::decode(&bytes), Err(DecodeError::Value));
    }
}
