//! One address space for the processes of a run.
//!
//! Each process has addresses of its own, and two of them may have different tensors at the same one. So the addresses of
//! each further process carry its number above all that a process of this machine can have: the tables stay one, regions
//! and lives stay apart, and the lower bits are the process's own address.

use dwell_records::{Graph, WeightPlaced};

/// User addresses have at most 56 bits (x86-64 with five levels of page tables; others have fewer).
const ADDRESS_BITS: u32 = 56;

/// How many processes of a run can be kept apart: some tables have addresses in 64 bits with a sign.
pub const PROCESSES_MAX: usize = 64;

/// An address of a process as the tables of the run have it. Process 0 has its own ones.
pub(crate) fn address_in_run(process: u8, address: u64) -> u64 {
    // None is none in any process; what is larger than an address is a damaged record.
    let is_address = address != 0 && address < 1 << ADDRESS_BITS;
    if is_address { address | u64::from(process) << ADDRESS_BITS } else { address }
}

/// Moves everything in a graph.
pub(crate) fn move_graph(process: u8, graph: &mut Graph) {
    for buffer in &mut graph.buffers {
        buffer.base = address_in_run(process, buffer.base);
    }
    for tensor in &mut graph.tensors {
        tensor.address = address_in_run(process, tensor.address);
    }
}

/// Moves a weight.
pub(crate) fn move_weight(process: u8, weight: &mut WeightPlaced) {
    weight.address = address_in_run(process, weight.address);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_two_processes_never_meet_and_those_of_the_first_stay() {
        let last = (1 << ADDRESS_BITS) - 1;
        assert_eq!([0, 1, last].map(|address| address_in_run(0, address)), [0, 1, last]);
        assert_eq!(address_in_run(1, 0x7f00_0000_1000), 0x0100_7f00_0000_1000);
        assert_eq!(address_in_run(1, 0), 0, "no address");
        assert_eq!(address_in_run(1, u64::MAX), u64::MAX, "a damaged record");
        let highest = address_in_run(u8::try_from(PROCESSES_MAX - 1).unwrap_or(u8::MAX), last);
        assert!(i64::try_from(highest).is_ok());
    }
}
