//! One address space for the processes of a run.
//!
//! Each process has addresses of its own, and two of them may have different tensors at the same one. So the addresses of
//! each further process carry its number above all that a process of this machine can have: the tables stay one, regions
//! and lives stay apart, and the lower bits are the process's own address.

/// User addresses have at most 56 bits (x86-64 with five levels of page tables; others have fewer).
const ADDRESS_BITS: u32 = 56;

/// How many processes of a run can be kept apart: some tables have addresses in 64 bits with a sign.
pub const PROCESSES_MAX: usize = 64;

/// An address of a process as the tables of the run have it. Process 0 has its own ones.
pub fn address_in_run(process: u8, address: u64) -> u64 {
    // None is none in any process; what is larger than an address is a damaged record.
    let is_address = address != 0 && address < 1 << ADDRESS_BITS;
    if is_address { address | u64::from(process) << ADDRESS_BITS } else { address }
}

/// The process that an address in a table belongs to. Addresses of the kernel, which a sampler may have seen, belong to
/// process 0.
pub fn process_of(address_in_run: u64) -> u8 {
    let number = address_in_run >> ADDRESS_BITS;
    if number < PROCESSES_MAX as u64 { number as u8 } else { 0 }
}

/// The same address in another process of the run: where a forked process has what its parent has there.
pub fn address_in_other(process: u8, address: u64) -> u64 {
    address_in_run(process, address & ((1 << ADDRESS_BITS) - 1))
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

    #[test]
    fn an_address_tells_its_process_and_the_same_place_in_another() {
        let own = 0x7f00_0000_1000;
        assert_eq!([0, 1, 63].map(|process| process_of(address_in_run(process, own))), [0, 1, 63]);
        assert_eq!(process_of(0xffff_8000_0000_1000), 0, "an address of the kernel");
        assert_eq!(address_in_other(2, address_in_run(5, own)), address_in_run(2, own));
        assert_eq!(address_in_other(0, address_in_run(5, own)), own);
    }
}
