//! What a program does with tensors between graphs: it reads results, and clears buffers.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;

use dwell_records::{Transfer, Transferred};

use crate::abi::{Api, Tensor, is_in_host_memory};
use crate::session::current_thread;

/// A transfer that is going on in this thread. ggml makes some of its transfers out of others, through the same exported
/// functions; only the outermost is what the program asked for.
pub struct OpenTransfer {
    /// Not to be handed to another thread.
    _thread: std::marker::PhantomData<*mut ()>,
}

thread_local! {
    static IS_OPEN: Cell<bool> = const { Cell::new(false) };
}

impl OpenTransfer {
    /// Begins a transfer; none if it is a part of another one.
    pub fn begin() -> Option<Self> {
        let is_part = IS_OPEN.replace(true);
        // Made only where it is given: one that is dropped ends the transfer.
        (!is_part).then(|| Self { _thread: std::marker::PhantomData })
    }
}

impl Drop for OpenTransfer {
    fn drop(&mut self) {
        IS_OPEN.set(false);
    }
}

/// A tensor that was given its place in a buffer.
struct PlacedTensor {
    name: String,
    address: u64,
    size_bytes: u64,
}

impl PlacedTensor {
    fn overlaps(&self, other: &PlacedTensor) -> bool {
        self.address < other.address + other.size_bytes && other.address < self.address + self.size_bytes
    }
}

/// The tensors of buffers that are neither for weights nor for computing, such as those of a KV cache. A buffer is cleared
/// as a whole, and ggml cannot be asked which tensors are in it.
#[derive(Default)]
pub(crate) struct PlacedTensors {
    by_buffer: HashMap<usize, Vec<PlacedTensor>>,
}

impl PlacedTensors {
    /// A tensor was given its place.
    ///
    /// # Safety
    /// `tensor` is a live tensor of the ggml behind `api`, has the known layout and lies in `buffer`.
    pub(crate) unsafe fn add(&mut self, api: &Api, tensor: *const Tensor, buffer: *mut c_void) {
        // SAFETY: the caller gives a live tensor.
        let placed = unsafe {
            PlacedTensor {
                name: (*tensor).name(),
                address: (*tensor).data as u64,
                size_bytes: (api.ggml_nbytes)(tensor) as u64,
            }
        };
        let tensors = self.by_buffer.entry(buffer as usize).or_default();
        // What was there before belonged to a buffer that was freed and whose memory came back.
        tensors.retain(|known| !known.overlaps(&placed));
        tensors.push(placed);
    }

    /// A record for each tensor in a buffer that was cleared.
    ///
    /// # Safety
    /// `buffer` is a live buffer of the ggml behind `api`.
    pub(crate) unsafe fn cleared(&self, api: &Api, buffer: *mut c_void) -> Vec<Transferred> {
        // SAFETY: the caller gives a live buffer.
        let (base, size_bytes, usage) = unsafe {
            let base = (api.ggml_backend_buffer_get_base)(buffer) as u64;
            let usage = (api.ggml_backend_buffer_get_usage)(buffer) as u8;
            (base, (api.ggml_backend_buffer_get_size)(buffer) as u64, usage)
        };
        let end = base.saturating_add(size_bytes);
        let is_inside = |tensor: &&PlacedTensor| tensor.address >= base && tensor.address + tensor.size_bytes <= end;
        let tensors = self.by_buffer.get(&(buffer as usize)).into_iter().flatten().filter(is_inside);
        let thread = current_thread();
        tensors
            .map(|tensor| Transferred {
                transfer: Transfer::Cleared,
                thread,
                address: tensor.address,
                size_bytes: tensor.size_bytes,
                tensor: tensor.name.clone(),
                tensor_address: tensor.address,
                tensor_size_bytes: tensor.size_bytes,
                usage,
            })
            .collect()
    }
}

/// The record of bytes that were copied out of a tensor; none if they are not in this machine's memory.
///
/// # Safety
/// `tensor` is a live tensor of the ggml behind `api` and has the known layout.
pub(crate) unsafe fn read(api: &Api, tensor: *const Tensor, offset: usize, size: usize) -> Option<Transferred> {
    // SAFETY: the caller gives a live tensor; a view's root lives as long as the view.
    unsafe {
        let root = (*tensor).root();
        let buffer = if (*root).buffer.is_null() { (*tensor).buffer } else { (*root).buffer };
        if size == 0 || (*tensor).data.is_null() || buffer.is_null() || !is_in_host_memory(api, buffer) {
            return None;
        }
        Some(Transferred {
            transfer: Transfer::Read,
            thread: current_thread(),
            address: (*tensor).data as u64 + offset as u64,
            size_bytes: size as u64,
            tensor: (*root).name(),
            tensor_address: (*root).data as u64,
            tensor_size_bytes: (api.ggml_nbytes)(root) as u64,
            usage: (api.ggml_backend_buffer_get_usage)(buffer) as u8,
        })
    }
}
