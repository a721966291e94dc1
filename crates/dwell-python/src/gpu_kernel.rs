//! A kernel that copies small tensors straight into pinned memory, all of them in one launch.
//!
//! A copy by the driver changes from the engine that computes to the one that copies, and back for what the model computes
//! next; for a few kilobytes that takes longer than the copy. A kernel stays on the engine that computes, and writes to
//! the host's memory by itself. What is copied where stands in a table that is the kernel's argument.

use crate::cuda::{CudaError, CudaStream, Driver, Kernel};

/// Written for the oldest devices that PyTorch knows; the driver translates it for the newest.
const HEAD: &str = ".version 6.0\n.target sm_50\n.address_size 64\n";
/// Copies the tensors of a table: of each, `words` times 16 bytes by the blocks that have its number.
const BODY: &str = "\
.visible .entry NAME(.param .align 8 .b8 table[TABLE_BYTES])
{
    .reg .pred %done;
    .reg .b32 %tensor, %block, %threads, %thread, %blocks, %a, %b, %c, %d;
    .reg .b64 %row, %to, %from, %words, %at, %stride, %offset, %read, %write;
    mov.u32 %tensor, %ctaid.y;
    mul.wide.u32 %offset, %tensor, 24;
    mov.u64 %row, table;
    add.u64 %row, %row, %offset;
    ld.param.u64 %to, [%row];
    ld.param.u64 %from, [%row+8];
    ld.param.u64 %words, [%row+16];
    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %thread, %tid.x;
    mov.u32 %blocks, %nctaid.x;
    mul.wide.u32 %at, %block, %threads;
    cvt.u64.u32 %offset, %thread;
    add.u64 %at, %at, %offset;
    mul.wide.u32 %stride, %blocks, %threads;
again:
    setp.ge.u64 %done, %at, %words;
    @%done bra end;
    shl.b64 %offset, %at, 4;
    add.u64 %read, %from, %offset;
    add.u64 %write, %to, %offset;
    ld.global.v4.u32 {%a, %b, %c, %d}, [%read];
    st.global.v4.u32 [%write], {%a, %b, %c, %d};
    add.u64 %at, %at, %stride;
    bra again;
end:
    ret;
}
";

/// A row is three numbers: target, source, words.
const ROW_NUMBERS: usize = 3;
/// A launch carries the whole table that its kernel was written for, so there are shorter ones. Arguments end at 4 KiB.
const TABLE_ROWS: [usize; 3] = [1, 32, MOST_ROWS];
/// So many tensors can be copied by one launch.
const MOST_ROWS: usize = 170;

const WORD_BYTES: usize = 16;
const THREADS: u32 = 256;
/// For each tensor: enough to have a few writes to the host under way; more would take room from what the model computes.
const MOST_BLOCKS: u32 = 16;

/// Bytes that are copied: from where on the device to where on the host.
#[derive(Clone, Copy)]
pub(crate) struct Copy {
    pub(crate) target: usize,
    pub(crate) source: usize,
    pub(crate) bytes: usize,
}

impl Copy {
    /// Whether the kernel can do it: whole words, at addresses that are multiples of a word.
    pub(crate) fn fits_kernel(self) -> bool {
        self.bytes > 0 && (self.target | self.source | self.bytes).is_multiple_of(WORD_BYTES)
    }
}

/// The kernel on one device, and where that device sees the ring.
pub(crate) struct CopyKernel {
    /// One for each of `TABLE_ROWS`.
    kernels: Vec<Kernel>,
    /// Address of the ring on the host, and on the device.
    ring: (usize, usize),
}

impl CopyKernel {
    /// For the device of a stream and pinned memory at `ring_address`.
    pub(crate) fn load(driver: &Driver, stream: CudaStream, ring_address: usize) -> Result<Self, CudaError> {
        let names = TABLE_ROWS.map(|rows| format!("dwell_copy_{rows}"));
        let kernels = driver.load_kernels(stream, &source(&names), &names)?;
        let on_device = driver.device_address(stream, ring_address)?;
        Ok(Self { kernels, ring: (ring_address, on_device) })
    }

    /// Begins copies, after what the stream has to do so far.
    ///
    /// # Safety
    /// For each copy as for [`Driver::copy_to_host`]; targets must lie in the ring, and [`Copy::fits_kernel`] must hold.
    pub(crate) unsafe fn copy(&self, driver: &Driver, stream: CudaStream, copies: &[Copy]) -> Result<(), CudaError> {
        copies.chunks(MOST_ROWS).try_for_each(|copies| {
            let (kernel, rows) = self.kernel_for(copies.len());
            let mut table: Vec<u64> = copies.iter().flat_map(|copy| self.row(copy)).collect();
            table.resize(rows * ROW_NUMBERS, 0);
            let most_words = copies.iter().map(|copy| copy.bytes / WORD_BYTES).max().unwrap_or(0);
            let blocks = u32::try_from(most_words.div_ceil(THREADS as usize)).unwrap_or(MOST_BLOCKS);
            let grid = (blocks.clamp(1, MOST_BLOCKS), copies.len() as u32);
            // SAFETY: the kernel takes a table of this length, and touches the ranges that the caller answers for: there
            // are blocks for the rows of `copies` alone.
            unsafe { driver.launch(kernel, stream, grid, THREADS, &mut table) }
        })
    }

    /// The kernel with the shortest table for so many copies, and how many rows that has.
    fn kernel_for(&self, copies: usize) -> (&Kernel, usize) {
        let place = TABLE_ROWS.iter().position(|rows| copies <= *rows).unwrap_or(TABLE_ROWS.len() - 1);
        (&self.kernels[place], TABLE_ROWS[place])
    }

    fn row(&self, copy: &Copy) -> [u64; ROW_NUMBERS] {
        let target = copy.target - self.ring.0 + self.ring.1;
        [target as u64, copy.source as u64, (copy.bytes / WORD_BYTES) as u64]
    }
}

/// The kernels for all lengths of a table, in the driver's language.
fn source(names: &[String; TABLE_ROWS.len()]) -> String {
    let entry = |(name, rows): (&String, usize)| {
        let table_bytes = rows * ROW_NUMBERS * size_of::<u64>();
        BODY.replace("NAME", name).replace("TABLE_BYTES", &table_bytes.to_string())
    };
    let entries: String = names.iter().zip(TABLE_ROWS).map(entry).collect();
    format!("{HEAD}{entries}")
}
