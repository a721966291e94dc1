//! `perf_mem_data_src`: what a processor said about where one access was answered.
//!
//! The bits are those of `linux/perf_event.h`. Two generations of them describe the level: `mem_lvl`, one bit for each
//! level with a common hit or miss, and `mem_lvl_num` with `mem_remote` and `mem_hops`, which newer kernels set too. The
//! newer ones win where both are set, because they tell more.
//!
//! What the processors mean by them:
//!
//! - **Intel PEBS** fills all of them from a table for each model. A store says only whether it hit L1; the level that
//!   answered a store that missed is not known.
//! - **AMD IBS** samples operations of all kinds, so an access may have no level. `hops` 0 is a cache of another core
//!   complex of the same node, `remote` another node. The source of data is valid for loads only.
//! - **Arm SPE** is recorded as a stream of its own (AUXTRACE); samples with these bits exist only after `perf inject`.
//!   Its last-level cache is L3.

/// The 64 bits of a sample's data source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DataSource(pub u64);

/// What the instruction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryOp {
    /// Read memory.
    Load,
    /// Wrote memory. An instruction that read and wrote is one, because its write is what changes the memory.
    Store,
    /// Asked for memory to be fetched into a cache.
    Prefetch,
    /// Fetched instructions.
    Execute,
}

/// Whether the level that is named had the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It had.
    Hit,
    /// It had not: another level, which is not named, answered.
    Miss,
}

/// What other caches answered when they were asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Snoop {
    /// No other cache was asked.
    None,
    /// Another cache had the line.
    Hit,
    /// No other cache had it.
    Miss,
    /// Another cache had the line modified.
    HitModified,
    /// Another cache forwarded the line.
    Forward,
    /// The line came from a peer.
    Peer,
}

/// Whether the address was translated from a TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tlb {
    /// The first level had it.
    L1Hit,
    /// The second level had it.
    L2Hit,
    /// One of the two had it; Intel does not say which.
    AnyHit,
    /// The page table was walked, or the access faulted.
    Miss,
}

const OP_LOAD: u64 = 0x02;
const OP_STORE: u64 = 0x04;
const OP_PREFETCH: u64 = 0x08;
const OP_EXECUTE: u64 = 0x10;

const LVL_HIT: u64 = 0x02;
const LVL_MISS: u64 = 0x04;

/// Levels of `mem_lvl`, with the name of each; the farthest first, because a load that went to memory may have the bits of
/// caches that it passed.
const LEVEL_BITS: [(u64, &str); 9] = [
    (0x2000, "uncached"),
    (0x1000, "IO"),
    (0x0100 | 0x0200, "remote_DRAM"),
    (0x0400 | 0x0800, "remote_cache"),
    (0x0080, "DRAM"),
    (0x0040, "L3"),
    (0x0020, "L2"),
    (0x0010, "LFB"),
    (0x0008, "L1"),
];

const TLB_HIT: u64 = 0x02;
const TLB_MISS: u64 = 0x04;
const TLB_L1: u64 = 0x08;
const TLB_L2: u64 = 0x10;

/// How far away, of `mem_hops`: another core of the same node.
const HOPS_SAME_NODE: u64 = 1;

impl DataSource {
    fn bits(self, shift: u32, width: u32) -> u64 {
        (self.0 >> shift) & ((1 << width) - 1)
    }

    /// What the instruction did, if it is known.
    pub fn op(self) -> Option<MemoryOp> {
        let bits = self.bits(0, 5);
        let ops = [
            (OP_STORE, MemoryOp::Store),
            (OP_LOAD, MemoryOp::Load),
            (OP_PREFETCH, MemoryOp::Prefetch),
            (OP_EXECUTE, MemoryOp::Execute),
        ];
        ops.into_iter().find(|(bit, _)| bits & bit != 0).map(|(_, op)| op)
    }

    /// Whether the named level hit or missed, if that is known.
    pub fn outcome(self) -> Option<Outcome> {
        let level = self.bits(5, 14);
        match (level & LVL_HIT != 0, level & LVL_MISS != 0) {
            (true, _) => Some(Outcome::Hit),
            (false, true) => Some(Outcome::Miss),
            (false, false) => None,
        }
    }

    /// The cache or memory that is named, as `trace` names it; none if the processor named none.
    ///
    /// `L0`, `L1`, `LFB` (line fill buffer), `L2`, `L2_MHB` (miss handling buffer of L2), `L3`, `L4`, `MSC` (cache at the
    /// memory), `DRAM`, `PMEM`, `CXL`, `IO`, `uncached`, `cache` (one of them); `peer_cache` for a cache of another core of
    /// the same node; `remote_cache`, `remote_DRAM`, `remote_PMEM` and `remote_CXL` for those of another node.
    pub fn named_level(self) -> Option<&'static str> {
        self.level_by_number().or_else(|| self.level_by_bits())
    }

    /// The cache or memory that answered the access: the named one, unless that missed.
    pub fn answering_level(self) -> Option<&'static str> {
        self.named_level().filter(|_| self.outcome() != Some(Outcome::Miss))
    }

    fn level_by_number(self) -> Option<&'static str> {
        let (near, far) = match self.bits(33, 4) {
            0x1 => ("L1", "remote_cache"),
            0x2 => ("L2", "remote_cache"),
            0x3 => ("L3", "remote_cache"),
            0x4 => ("L4", "remote_cache"),
            0x5 => ("L2_MHB", "remote_cache"),
            0x6 => ("MSC", "remote_cache"),
            0x7 => ("L0", "remote_cache"),
            0x8 => ("uncached", "uncached"),
            0x9 => ("CXL", "remote_CXL"),
            0xa => ("IO", "IO"),
            0xb => ("cache", "remote_cache"),
            0xc => ("LFB", "LFB"),
            0xd => ("DRAM", "remote_DRAM"),
            0xe => ("PMEM", "remote_PMEM"),
            _ => return None,
        };
        Some(match self.hops() {
            Some(0) if far == "remote_cache" => "peer_cache",
            Some(0) => near,
            None if !self.is_remote() => near,
            _ => far,
        })
    }

    fn level_by_bits(self) -> Option<&'static str> {
        let level = self.bits(5, 14);
        LEVEL_BITS.into_iter().find(|(bits, _)| level & bits != 0).map(|(_, name)| name)
    }

    /// Whether another node answered, or another core.
    pub fn is_remote(self) -> bool {
        self.bits(37, 1) != 0
    }

    /// How far the answer came: 0 from another core of the node, 1 from another node of the socket, 2 from another socket,
    /// 3 from another board; none if it is not known.
    pub fn hops(self) -> Option<u8> {
        self.bits(43, 3).checked_sub(HOPS_SAME_NODE).map(|hops| hops as u8)
    }

    /// What other caches answered, if that is known.
    pub fn snoop(self) -> Option<Snoop> {
        let extended = [(0x02, Snoop::Peer), (0x01, Snoop::Forward)];
        let bits = [(0x10, Snoop::HitModified), (0x04, Snoop::Hit), (0x08, Snoop::Miss), (0x02, Snoop::None)];
        let found =
            |table: &[(u64, Snoop)], bits: u64| table.iter().find(|(bit, _)| bits & bit != 0).map(|(_, snoop)| *snoop);
        found(&bits[..2], self.bits(19, 5))
            .or_else(|| found(&extended, self.bits(38, 2)))
            .or_else(|| found(&bits[2..], self.bits(19, 5)))
    }

    /// Whether the address was translated from a TLB, if that is known.
    pub fn tlb(self) -> Option<Tlb> {
        let bits = self.bits(26, 7);
        match bits {
            _ if bits & TLB_MISS != 0 => Some(Tlb::Miss),
            _ if bits & TLB_HIT == 0 => None,
            _ if bits & (TLB_L1 | TLB_L2) == TLB_L1 => Some(Tlb::L1Hit),
            _ if bits & (TLB_L1 | TLB_L2) == TLB_L2 => Some(Tlb::L2Hit),
            _ => Some(Tlb::AnyHit),
        }
    }

    /// Whether the instruction locked the bus or the line, if that is known.
    pub fn is_locked(self) -> Option<bool> {
        match self.bits(24, 2) {
            bits if bits & 0x02 != 0 => Some(true),
            0 => Some(false),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lvl(bits: u64) -> DataSource {
        DataSource(bits << 5)
    }

    #[test]
    fn a_load_that_hit_l1_is_what_perf_prints_as_op_load_lvl_l1_hit() {
        let source = DataSource(0x6810_0142);
        assert_eq!(source.op(), Some(MemoryOp::Load));
        assert_eq!(source.answering_level(), Some("L1"));
        assert_eq!(source.outcome(), Some(Outcome::Hit));
        assert_eq!(source.snoop(), Some(Snoop::None));
        assert_eq!(source.tlb(), Some(Tlb::AnyHit));
        assert_eq!(source.is_locked(), Some(false));
    }

    #[test]
    fn what_is_not_available_is_nothing() {
        let source = DataSource(0x1e_0508_0021);
        assert_eq!((source.op(), source.named_level(), source.outcome()), (None, None, None));
        assert_eq!((source.snoop(), source.tlb(), source.is_locked()), (None, None, None));
    }

    #[test]
    fn a_level_that_missed_did_not_answer() {
        let source = lvl(LVL_MISS | 0x08);
        assert_eq!(source.named_level(), Some("L1"));
        assert_eq!(source.answering_level(), None);
    }

    #[test]
    fn memory_wins_over_the_caches_that_were_passed() {
        assert_eq!(lvl(LVL_HIT | 0x80 | 0x40).answering_level(), Some("DRAM"));
        assert_eq!(lvl(LVL_HIT | 0x200).answering_level(), Some("remote_DRAM"));
        assert_eq!(lvl(LVL_HIT | 0x400).answering_level(), Some("remote_cache"));
    }

    #[test]
    fn numbered_levels_are_told_apart_by_distance() {
        let number = |number: u64, remote: u64, hops: u64| {
            DataSource((number << 33) | (remote << 37) | (hops << 43)).answering_level()
        };
        assert_eq!(number(0x3, 0, 0), Some("L3"));
        assert_eq!(number(0xb, 1, 1), Some("peer_cache"));
        assert_eq!(number(0xb, 1, 2), Some("remote_cache"));
        assert_eq!(number(0xd, 1, 1), Some("DRAM"));
        assert_eq!(number(0xd, 1, 0), Some("remote_DRAM"));
        assert_eq!(number(0xd, 1, 3), Some("remote_DRAM"));
        assert_eq!(number(0x9, 0, 0), Some("CXL"));
        assert_eq!(number(0xf, 0, 0), None);
    }

    #[test]
    fn an_atomic_operation_is_a_store() {
        assert_eq!(DataSource(OP_LOAD | OP_STORE).op(), Some(MemoryOp::Store));
    }
}
