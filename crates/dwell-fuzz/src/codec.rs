//! Payloads of tensors in every codec.

use dwell_codec::{Codec, DType, Decoder};

const CODECS: [&str; 6] = ["none", "lz4", "zstd:1", "float", "bounded:range:1e-3", "bounded:nmse:1e-6"];
const DTYPES: [DType; 6] = [DType::F16, DType::Bf16, DType::F32, DType::F64, DType::F8E5M2, DType::I8];

/// The first bytes choose codec and type, and say how many elements there are.
pub(crate) fn run(bytes: &[u8]) {
    let Some((&[codec, dtype, low, high], payload)) = bytes.split_first_chunk::<4>() else { return };
    let codec: Codec = CODECS[usize::from(codec) % CODECS.len()].parse().expect("the list has names of codecs");
    let dtype = DTYPES[usize::from(dtype) % DTYPES.len()];
    let elements = usize::from(u16::from_le_bytes([low, high]) & 0xfff);
    let _ = Decoder::default().decode(codec, dtype, payload, &mut vec![0; elements * dtype.size_bytes()]);
}
