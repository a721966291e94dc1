//! How old data is when it is read, by the region type that stored it.

use crate::distribution::Distribution;
use crate::metrics::retention::Needed;
use crate::region_type::KNOWN_TYPES;

/// Groups that the reads of a KV block are taken in at most; the age of a read is then off by a 64th of the oldest.
const GROUPS_MOST: u64 = 64;

/// Ages of all reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadAges {
    by_type: [AgeTotals; KNOWN_TYPES],
}

impl ReadAges {
    pub(crate) fn of(&mut self, type_index: usize) -> &mut AgeTotals {
        &mut self.by_type[type_index]
    }

    pub(crate) fn of_type(&self, type_index: usize) -> &AgeTotals {
        &self.by_type[type_index]
    }
}

/// Ages of the data of one region type when it was read, once for each read and byte.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgeTotals {
    pub(crate) ns: Distribution,
    pub(crate) steps: Distribution,
    /// Some ages were not seen: the store was not, or only how many reads there were.
    pub(crate) has_inferred: bool,
}

impl AgeTotals {
    /// Adds a read.
    pub(crate) fn add(&mut self, age: Needed, bytes: u64, is_inferred: bool) {
        self.ns.add(age.ns, bytes);
        self.steps.add(age.span.steps, bytes);
        self.has_inferred |= is_inferred;
    }

    /// Adds so many reads of which the time of the last is known alone, as evenly spread from the store to it.
    pub(crate) fn add_spread(&mut self, last: Needed, reads: u64, bytes: u64) {
        let groups = reads.min(GROUPS_MOST);
        for group in 1..=groups {
            // Groups of whole reads that differ by one at most.
            let group_reads = reads * group / groups - reads * (group - 1) / groups;
            let weight = bytes.saturating_mul(group_reads);
            let at = |whole: u64| (u128::from(whole) * u128::from(group) / u128::from(groups)) as u64;
            self.ns.add(at(last.ns), weight);
            self.steps.add(at(last.span.steps), weight);
        }
        self.has_inferred |= reads > 0;
    }

    /// Adds the reads of another part or run.
    pub(crate) fn merge(&mut self, other: &AgeTotals) {
        self.ns.merge(&other.ns);
        self.steps.merge(&other.steps);
        self.has_inferred |= other.has_inferred;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step_clock::Span;

    #[test]
    fn reads_of_which_the_last_is_known_alone_are_spread_evenly() {
        let last = Needed { ns: 100, span: Span { steps: 4, pause_ns: 0 } };
        let mut ages = AgeTotals::default();
        ages.add_spread(last, 4, 8);
        assert_eq!(ages.ns.points().collect::<Vec<_>>(), [(25.0, 8), (50.0, 8), (75.0, 8), (100.0, 8)]);
        assert_eq!(ages.steps.points().collect::<Vec<_>>(), [(1.0, 8), (2.0, 8), (3.0, 8), (4.0, 8)]);
        ages.add_spread(last, 0, 8);
        assert_eq!(ages.ns.weight(), 32);
        ages.add_spread(last, 1_000, 1);
        assert_eq!((ages.ns.weight(), ages.ns.largest_seen()), (1_032, Some(100)));
    }
}
