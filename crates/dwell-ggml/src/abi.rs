//! The part of ggml's binary interface that the recorder reads.
//!
//! `ggml_tensor` has had this layout in llama.cpp 0.5.0, 0.6.0 and 0.7.0. It is still checked against ggml's own
//! accessors in the running process before anything is recorded ([`check_tensor`]): a program with another layout
//! is left alone.
//!
//! Operation and type numbers differ between versions, so they are turned into names by asking ggml.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;

/// Dimensions of a tensor (`GGML_MAX_DIMS`).
pub const MAX_DIMS: usize = 4;
/// Sources of a node (`GGML_MAX_SRC`).
pub const MAX_SRC: usize = 10;
/// Bytes of a tensor's name (`GGML_MAX_NAME`).
pub const MAX_NAME: usize = 64;
/// Words of an operation's parameters (`GGML_MAX_OP_PARAMS` / 4).
pub const MAX_OP_PARAMS: usize = 16;

/// `GGML_TENSOR_FLAG_OUTPUT`: the user asked for this result.
pub const FLAG_OUTPUT: i32 = 2;
/// `GGML_TENSOR_FLAG_COMPUTE`: the node is executed; nodes without it are only in the graph.
pub const FLAG_COMPUTE: i32 = 16;

/// The beginning of `struct ggml_cplan`.
#[repr(C)]
pub struct ComputePlan {
    /// Bytes that the kernels need beside the tensors.
    pub work_size: usize,
    /// Where they are.
    pub work_data: *mut c_void,
    /// Threads that compute.
    pub n_threads: c_int,
}

/// `struct ggml_tensor`.
#[repr(C)]
pub struct Tensor {
    /// `enum ggml_type`.
    pub type_id: c_int,
    /// Buffer that holds the data; null for views, whose root has it.
    pub buffer: *mut c_void,
    /// Elements per dimension.
    pub ne: [i64; MAX_DIMS],
    /// Stride per dimension, in bytes.
    pub nb: [usize; MAX_DIMS],
    /// `enum ggml_op`.
    pub op: c_int,
    /// Parameters of the operation.
    pub op_params: [i32; MAX_OP_PARAMS],
    /// `GGML_TENSOR_FLAG_*`.
    pub flags: i32,
    /// Operands.
    pub src: [*mut Tensor; MAX_SRC],
    /// Tensor whose memory this one is a view of.
    pub view_src: *mut Tensor,
    /// Offset into it.
    pub view_offs: usize,
    /// First byte.
    pub data: *mut c_void,
    /// Name, terminated by 0.
    pub name: [c_char; MAX_NAME],
}

/// The functions of ggml that the recorder calls. All are exported, stable names.
#[derive(Clone, Copy)]
#[allow(missing_docs)] // Each field is the function of that name.
pub struct Api {
    pub ggml_graph_n_nodes: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub ggml_graph_node: unsafe extern "C" fn(*mut c_void, c_int) -> *mut Tensor,
    pub ggml_op_name: unsafe extern "C" fn(c_int) -> *const c_char,
    pub ggml_type_name: unsafe extern "C" fn(c_int) -> *const c_char,
    pub ggml_type_size: unsafe extern "C" fn(c_int) -> usize,
    pub ggml_blck_size: unsafe extern "C" fn(c_int) -> i64,
    pub ggml_nbytes: unsafe extern "C" fn(*const Tensor) -> usize,
    pub ggml_get_name: unsafe extern "C" fn(*const Tensor) -> *const c_char,
    pub ggml_get_data: unsafe extern "C" fn(*const Tensor) -> *mut c_void,
    pub ggml_backend_buffer_get_base: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    pub ggml_backend_buffer_get_size: unsafe extern "C" fn(*mut c_void) -> usize,
    pub ggml_backend_buffer_get_usage: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub ggml_backend_buffer_name: unsafe extern "C" fn(*mut c_void) -> *const c_char,
    pub ggml_backend_buffer_is_host: unsafe extern "C" fn(*mut c_void) -> bool,
}

/// Where a tensor's layout disagrees with what ggml itself says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutMismatch {
    /// `ggml_get_name` gives another address than the field.
    Name,
    /// `ggml_get_data` gives another pointer than the field.
    Data,
    /// `ggml_nbytes` differs from the size computed from shape and strides.
    Size,
}

impl fmt::Display for LayoutMismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            LayoutMismatch::Name => "ggml_get_name",
            LayoutMismatch::Data => "ggml_get_data",
            LayoutMismatch::Size => "ggml_nbytes",
        })
    }
}

/// Compares our reading of a tensor with ggml's.
///
/// # Safety
/// `tensor` is a live tensor of the ggml behind `api`.
pub unsafe fn check_tensor(api: &Api, tensor: *const Tensor) -> Result<(), LayoutMismatch> {
    // SAFETY: the caller gives a live tensor. If the layout is another one, the fields read here are still within
    // ggml's tensor object, which is larger than the fields up to `name` in every version since 2023.
    unsafe {
        let ours = &*tensor;
        if (api.ggml_get_name)(tensor) != ours.name.as_ptr() {
            return Err(LayoutMismatch::Name);
        }
        if (api.ggml_get_data)(tensor) != ours.data {
            return Err(LayoutMismatch::Data);
        }
        let (block_bytes, block_values) = ((api.ggml_type_size)(ours.type_id), (api.ggml_blck_size)(ours.type_id));
        if spanned_bytes(&ours.ne, &ours.nb, block_bytes, block_values) != Some((api.ggml_nbytes)(tensor)) {
            return Err(LayoutMismatch::Size);
        }
    }
    Ok(())
}

/// Bytes from the first to the last byte of a tensor, as `ggml_nbytes` counts them.
fn spanned_bytes(ne: &[i64; MAX_DIMS], nb: &[usize; MAX_DIMS], block_bytes: usize, block_values: i64) -> Option<usize> {
    if ne.iter().any(|&count| count <= 0) {
        return Some(0);
    }
    let steps = |dim: usize| (usize::try_from(ne[dim] - 1).ok()?).checked_mul(nb[dim]);
    let mut bytes = if block_values == 1 {
        block_bytes.checked_add(steps(0)?)?
    } else {
        usize::try_from(ne[0]).ok()?.checked_mul(nb[0])? / usize::try_from(block_values).ok()?
    };
    for dim in 1..MAX_DIMS {
        bytes = bytes.checked_add(steps(dim)?)?;
    }
    Some(bytes)
}

/// The processor's own arrangements of weights are in this machine's memory, though ggml does not call them so; their
/// buffers have names that begin with this.
const CPU_BUFFER_PREFIX: &str = "CPU";

/// Whether the bytes of a buffer are in this machine's memory.
///
/// # Safety
/// `buffer` is a live buffer of the ggml behind `api`.
pub unsafe fn is_in_host_memory(api: &Api, buffer: *mut c_void) -> bool {
    // SAFETY: the caller gives a live buffer.
    unsafe {
        (api.ggml_backend_buffer_is_host)(buffer)
            || text((api.ggml_backend_buffer_name)(buffer)).starts_with(CPU_BUFFER_PREFIX)
    }
}

/// A C string of ggml as text; what is not UTF-8 is replaced.
///
/// # Safety
/// `text` is null or a C string that lives during the call.
pub unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, and the caller says that it is a C string.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

impl Tensor {
    /// The tensor's name.
    pub fn name(&self) -> String {
        let bytes: Vec<u8> = self.name.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The tensor that owns the memory of this one, following views.
    pub fn root(&self) -> *const Tensor {
        let mut current: *const Tensor = self;
        // SAFETY: a view keeps its source alive; chains end at a tensor without `view_src`.
        unsafe {
            while !(*current).view_src.is_null() {
                current = (*current).view_src;
            }
        }
        current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ggml whose tensors have another field in front: every offset is wrong.
    mod shifted {
        use super::*;

        unsafe extern "C" fn name(tensor: *const Tensor) -> *const c_char {
            // SAFETY: the test's tensor has bytes behind it.
            unsafe { tensor.cast::<c_char>().add(std::mem::offset_of!(Tensor, name) + 8) }
        }

        pub(super) fn api() -> Api {
            Api { ggml_get_name: name, ..known::api() }
        }
    }

    /// A ggml with the layout that the recorder knows.
    mod known {
        use super::*;

        unsafe extern "C" fn count(_: *mut c_void) -> c_int {
            0
        }
        unsafe extern "C" fn node(_: *mut c_void, _: c_int) -> *mut Tensor {
            std::ptr::null_mut()
        }
        unsafe extern "C" fn no_text(_: c_int) -> *const c_char {
            c"".as_ptr()
        }
        unsafe extern "C" fn type_size(_: c_int) -> usize {
            4
        }
        unsafe extern "C" fn block_size(_: c_int) -> i64 {
            1
        }
        unsafe extern "C" fn nbytes(tensor: *const Tensor) -> usize {
            // SAFETY: the test gives a live tensor.
            unsafe { ((*tensor).ne[0] * (*tensor).ne[1]) as usize * 4 }
        }
        unsafe extern "C" fn name(tensor: *const Tensor) -> *const c_char {
            // SAFETY: as above.
            unsafe { (*tensor).name.as_ptr() }
        }
        unsafe extern "C" fn data(tensor: *const Tensor) -> *mut c_void {
            // SAFETY: as above.
            unsafe { (*tensor).data }
        }
        unsafe extern "C" fn base(_: *mut c_void) -> *mut c_void {
            std::ptr::null_mut()
        }
        unsafe extern "C" fn size(_: *mut c_void) -> usize {
            0
        }
        unsafe extern "C" fn usage(_: *mut c_void) -> c_int {
            0
        }
        unsafe extern "C" fn buffer_name(_: *mut c_void) -> *const c_char {
            c"".as_ptr()
        }
        unsafe extern "C" fn is_host(_: *mut c_void) -> bool {
            true
        }

        pub(super) fn api() -> Api {
            Api {
                ggml_graph_n_nodes: count,
                ggml_graph_node: node,
                ggml_op_name: no_text,
                ggml_type_name: no_text,
                ggml_type_size: type_size,
                ggml_blck_size: block_size,
                ggml_nbytes: nbytes,
                ggml_get_name: name,
                ggml_get_data: data,
                ggml_backend_buffer_get_base: base,
                ggml_backend_buffer_get_size: size,
                ggml_backend_buffer_get_usage: usage,
                ggml_backend_buffer_name: buffer_name,
                ggml_backend_buffer_is_host: is_host,
            }
        }
    }

    fn tensor(row_stride: usize) -> Tensor {
        Tensor {
            type_id: 0,
            buffer: std::ptr::null_mut(),
            ne: [8, 3, 1, 1],
            nb: [4, row_stride, 96, 96],
            op: 0,
            op_params: [0; MAX_OP_PARAMS],
            flags: 0,
            src: [std::ptr::null_mut(); MAX_SRC],
            view_src: std::ptr::null_mut(),
            view_offs: 0,
            data: std::ptr::null_mut(),
            name: [0; MAX_NAME],
        }
    }

    #[test]
    fn the_known_layout_is_accepted() {
        // SAFETY: the tensor lives during the call.
        assert_eq!(unsafe { check_tensor(&known::api(), &tensor(32)) }, Ok(()));
    }

    #[test]
    fn another_layout_is_refused_by_what_disagrees() {
        // SAFETY: the tensors live during the calls.
        unsafe {
            assert_eq!(check_tensor(&shifted::api(), &tensor(32)), Err(LayoutMismatch::Name));
            assert_eq!(check_tensor(&known::api(), &tensor(48)), Err(LayoutMismatch::Size));
        }
    }
}
