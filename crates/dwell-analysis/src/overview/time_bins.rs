//! Bins of time that become coarser as a trace becomes longer.

use super::TimeAxis;

/// Bytes loaded and stored.
pub(super) type Bytes = [u64; 2];

/// Which bins a trace needs so far: all from the first to the last, each of `1 << shift` nanoseconds.
///
/// A bin is named by its number since the clock began. Coarser bins begin where finer ones do, so what was added before the
/// trace grew long stays exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeCut {
    shift: u32,
    /// First and last bin; none before the first row.
    range: Option<(u64, u64)>,
    most_bins: u64,
}

impl TimeCut {
    /// Finest cut: about a microsecond, below the time of any operation that matters.
    const LEAST_SHIFT: u32 = 10;

    pub(super) fn new(most_bins: u64) -> Self {
        Self { shift: Self::LEAST_SHIFT, range: None, most_bins }
    }

    /// The number of the bin that a time lies in.
    #[inline]
    pub(super) fn bin(&self, now_ns: u64) -> u64 {
        now_ns >> self.shift
    }

    /// Makes room for a time. Says by how many powers of two the bins became longer: bin `n` is then `n >> shifts`.
    #[inline]
    pub(super) fn cover(&mut self, now_ns: u64) -> u32 {
        let bin = self.bin(now_ns);
        match self.range {
            Some((first, last)) if first <= bin && bin <= last => 0,
            _ => self.widen(bin),
        }
    }

    fn widen(&mut self, bin: u64) -> u32 {
        let (first, last) = self.range.map_or((bin, bin), |(first, last)| (first.min(bin), last.max(bin)));
        self.range = Some((first, last));
        self.coarsen(self.most_bins)
    }

    /// Makes bins longer until there are at most so many.
    fn coarsen(&mut self, most_bins: u64) -> u32 {
        let Some((mut first, mut last)) = self.range else { return 0 };
        let mut shifts = 0;
        while last - first >= most_bins {
            (first, last, shifts) = (first >> 1, last >> 1, shifts + 1);
        }
        (self.range, self.shift) = (Some((first, last)), self.shift + shifts);
        shifts
    }

    /// Twice as long bins.
    pub(super) fn coarser(&mut self) {
        self.range = self.range.map(|(first, last)| (first >> 1, last >> 1));
        self.shift += 1;
    }

    pub(super) fn axis(&self) -> TimeAxis {
        let (first, last) = self.range.unwrap_or((1, 0));
        let bins = (last + 1).saturating_sub(first);
        TimeAxis {
            first_bin_ns: if bins == 0 { 0 } else { first << self.shift },
            bin_ns: 1 << self.shift,
            bins: u32::try_from(bins).unwrap_or(u32::MAX),
        }
    }
}

/// Bytes by bin, from the first bin that anything was added to.
#[derive(Clone, Debug, Default)]
pub(super) struct BinnedBytes {
    first: u64,
    bytes: Vec<Bytes>,
}

impl BinnedBytes {
    /// Adds bytes, 0 for those loaded and 1 for those stored, to a bin.
    #[inline]
    pub(super) fn add(&mut self, bin: u64, direction: usize, bytes: u64) {
        let place = bin.wrapping_sub(self.first) as usize;
        match self.bytes.get_mut(place) {
            Some(cell) => cell[direction] = cell[direction].saturating_add(bytes),
            None => self.make_room(bin)[direction] = bytes,
        }
    }

    fn make_room(&mut self, bin: u64) -> &mut Bytes {
        if self.bytes.is_empty() {
            self.first = bin;
        }
        if bin < self.first {
            let missing = (self.first - bin) as usize;
            self.bytes.splice(0..0, std::iter::repeat_n([0; 2], missing));
            self.first = bin;
        }
        let place = (bin - self.first) as usize;
        if place >= self.bytes.len() {
            self.bytes.resize(place + 1, [0; 2]);
        }
        &mut self.bytes[place]
    }

    /// The same with bins that are `1 << shifts` times as long.
    pub(super) fn coarsen(&mut self, shifts: u32) {
        if shifts == 0 || self.bytes.is_empty() {
            return;
        }
        let mut coarser = BinnedBytes::default();
        self.cells().for_each(|(bin, bytes)| coarser.add_cell(bin >> shifts, bytes));
        *self = coarser;
    }

    fn add_cell(&mut self, bin: u64, bytes: Bytes) {
        self.add(bin, 0, bytes[0]);
        self.add(bin, 1, bytes[1]);
    }

    /// Bins with anything in them, by time.
    pub(super) fn cells(&self) -> impl Iterator<Item = (u64, Bytes)> + '_ {
        (self.first..).zip(&self.bytes).map(|(bin, &bytes)| (bin, bytes)).filter(|(_, bytes)| *bytes != [0; 2])
    }

    pub(super) fn sum(&self) -> Bytes {
        self.bytes.iter().fold([0; 2], |sum, cell| [sum[0].saturating_add(cell[0]), sum[1].saturating_add(cell[1])])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_become_coarser_until_a_trace_fits_and_lose_nothing() {
        let (mut cut, mut binned) = (TimeCut::new(8), BinnedBytes::default());
        for row in 0..1_000u64 {
            let now_ns = 5_000_000 + row * 10_000;
            binned.coarsen(cut.cover(now_ns));
            binned.add(cut.bin(now_ns), (row % 2) as usize, row);
        }
        let axis = cut.axis();
        assert!(axis.bins <= 8 && axis.bins > 4, "{axis:?}");
        assert!(axis.first_bin_ns <= 5_000_000 && axis.first_bin_ns + axis.bin_ns > 5_000_000);
        assert_eq!(binned.sum(), [(0..1_000u64).step_by(2).sum::<u64>(), (1..1_000u64).step_by(2).sum()]);
        // What lies in a bin is what was added in its time.
        for (bin, bytes) in binned.cells() {
            let rows = (0..1_000u64).filter(|row| (5_000_000 + row * 10_000) / axis.bin_ns == bin);
            assert_eq!(bytes[0] + bytes[1], rows.sum::<u64>());
        }
    }

    #[test]
    fn rows_that_are_earlier_find_their_bins() {
        let (mut cut, mut binned) = (TimeCut::new(16), BinnedBytes::default());
        for now_ns in [9_000_000u64, 2_000_000, 40_000_000, 3_000_000] {
            binned.coarsen(cut.cover(now_ns));
            binned.add(cut.bin(now_ns), 0, now_ns);
        }
        let bin_ns = cut.axis().bin_ns;
        let expected = [
            (2_000_000 / bin_ns, [5_000_000, 0]),
            (9_000_000 / bin_ns, [9_000_000, 0]),
            (40_000_000 / bin_ns, [40_000_000, 0]),
        ];
        assert_eq!(binned.cells().collect::<Vec<_>>(), expected);
        assert_eq!(bin_ns, 1 << 22);
    }

    #[test]
    fn a_trace_without_rows_has_no_bins() {
        assert_eq!(TimeCut::new(8).axis(), TimeAxis { first_bin_ns: 0, bin_ns: 1024, bins: 0 });
    }
}
