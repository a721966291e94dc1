//! Tensor streams, with the tensors in them.

use dwell_tensors::TensorFile;

use crate::scratch;

/// Tensors of one stream that are read.
const TENSORS_MAX: usize = 16;
/// Elements of one, in bytes: a stream may state gigabytes of zeros, which are then made.
const TENSOR_MAX_BYTES: u64 = 1 << 20;

pub(crate) fn run(bytes: &[u8]) {
    let path = scratch::file("stream.tensors", bytes);
    let Ok(file) = TensorFile::open(&path) else { return };
    for index in 0..file.packets().len().min(TENSORS_MAX) {
        let head = file.head(&file.packets()[index]);
        let elements =
            head.shape.iter().try_fold(head.dtype.size_bytes() as u64, |all, length| all.checked_mul(*length));
        if elements.is_some_and(|bytes| bytes <= TENSOR_MAX_BYTES)
            && let Ok(read) = file.read_elements(index)
        {
            assert_eq!(Some(read.len() as u64), elements);
        }
    }
}
