//! How the memory of a stream is divided, from the options alone.

use dwell_codec::{Codec, max_payload_bytes};

use super::buffers::capacity_for;
use super::error::StreamError;
use super::memory::Need;
use super::sink::staging_bytes;
use crate::container::PAGE_BYTES;
use crate::{StreamOptions, TensorsError};

/// Threads that write; direct writes need a few under way to keep a disk busy.
pub(super) const WRITING_THREADS: usize = 3;
/// The least memory that a stream works with.
const LEAST_MEMORY_BYTES: u64 = 1 << 20;
/// What is known of a tensor besides its elements takes about so much in all stages together.
const ITEM_BYTES: usize = 512;

/// Sizes that follow from the options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Threads that encode.
    pub(super) workers: usize,
    /// The most that one write takes.
    pub(super) chunk_bytes: usize,
    /// Small tensors share a buffer of this size.
    pub(super) parcel_bytes: usize,
    /// The most entries of one parcel.
    pub(super) parcel_items: usize,
    /// Tensors up to this size are small.
    pub(super) small_bytes: usize,
    /// Room for the payloads of a parcel of small tensors; 0 where elements are stored as they are.
    pub(super) parcel_payload_bytes: usize,
    /// A batch is written once it holds this much.
    pub(super) flush_bytes: u64,
    /// What is taken before the first tensor comes.
    pub(super) fixed_bytes: u64,
    /// What is left for tensors.
    pub(super) tensors_bytes: u64,
    encodes: bool,
}

impl Layout {
    pub(super) fn new(options: &StreamOptions) -> Result<Self, TensorsError> {
        let memory_bytes = options.max_memory_bytes;
        if memory_bytes < LEAST_MEMORY_BYTES {
            return Err(StreamError::UnfitOption {
                option: "max_memory_bytes",
                reason: format!("{memory_bytes}, and at least {LEAST_MEMORY_BYTES} are needed"),
            }
            .into());
        }
        let share = |divisor: u64, least: usize, most: usize| {
            usize::try_from(memory_bytes / divisor).unwrap_or(most).clamp(least, most).next_multiple_of(PAGE_BYTES)
        };
        let encodes = options.codec != Codec::None;
        let chunk_bytes = share(32, 64 << 10, 4 << 20);
        let parcel_bytes = capacity_for(share(64, 16 << 10, 512 << 10));
        let fixed_bytes = staging_bytes(options.direct_io, WRITING_THREADS, chunk_bytes);
        let tensors_bytes = memory_bytes - fixed_bytes;
        let cores = || std::thread::available_parallelism().map_or(1, |count| count.get());
        Ok(Self {
            workers: if options.workers == 0 { cores() } else { options.workers },
            chunk_bytes,
            parcel_bytes,
            parcel_items: parcel_bytes / 1024,
            small_bytes: parcel_bytes / 8,
            parcel_payload_bytes: if encodes { parcel_bytes + parcel_bytes / 2 } else { 0 },
            flush_bytes: options.flush_bytes.clamp(1, (tensors_bytes / 4).max(1)),
            fixed_bytes,
            tensors_bytes,
            encodes,
        })
    }

    /// What a shared buffer for small tensors needs.
    pub(super) fn parcel_need(&self) -> Need {
        let extra = (ITEM_BYTES * self.parcel_items) as u64;
        Need { raw: self.parcel_bytes, payload: self.parcel_payload_bytes, extra }
    }

    /// What one tensor on its own needs; `is_copied` if its elements are.
    pub(super) fn tensor_need(&self, name: &str, raw_bytes: usize, is_copied: bool) -> Need {
        let elsewhere = if is_copied { 0 } else { raw_bytes };
        Need {
            raw: if is_copied { raw_bytes } else { 0 },
            payload: self.worst_payload_bytes(raw_bytes),
            extra: (ITEM_BYTES + name.len() + elsewhere) as u64,
        }
    }

    /// The most that a payload takes beside the elements; 0 where the elements are the payload.
    pub(super) fn worst_payload_bytes(&self, raw_bytes: usize) -> usize {
        if self.encodes { max_payload_bytes(raw_bytes) } else { 0 }
    }
}
