//! Random numbers that are the same everywhere, from integers only.

/// The splitmix64 generator: one addition and one mix per number.
pub(crate) struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    pub(crate) fn new(seed: u64) -> SplitMix64 {
        SplitMix64 { state: seed }
    }

    /// A generator of its own for each stream, so that a tensor's weights do not depend on the tensors before it.
    pub(crate) fn for_stream(seed: u64, stream: u64) -> SplitMix64 {
        SplitMix64::new(mix(seed ^ mix(stream.wrapping_add(1))))
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number near the normal distribution with mean 0 and deviation 1, never further out than 3.5.
    ///
    /// The sum of four 16-bit numbers: close enough for weights, and free of functions whose last bit differs
    /// between platforms.
    pub(crate) fn next_normal(&mut self) -> f32 {
        // Deviation of one 16-bit number is 65536 / sqrt(12), of four twice that.
        const DEVIATION: f32 = 37_837.23;
        let random = self.next_u64();
        let sum: i32 = [0, 16, 32, 48].iter().map(|shift| ((random >> shift) & 0xffff) as i32).sum();
        (sum - 2 * 0xffff) as f32 / DEVIATION
    }
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_reference() {
        let mut random = SplitMix64::new(1_234_567);
        let numbers: Vec<u64> = (0..5).map(|_| random.next_u64()).collect();
        let reference = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(numbers, reference);
    }

    #[test]
    fn normal_numbers_have_mean_0_and_deviation_1() {
        let mut random = SplitMix64::new(7);
        let numbers: Vec<f64> = (0..100_000).map(|_| f64::from(random.next_normal())).collect();
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        let variance = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / numbers.len() as f64;
        assert!(mean.abs() < 0.02, "{mean}");
        assert!((variance - 1.0).abs() < 0.03, "{variance}");
    }

    #[test]
    fn streams_of_one_seed_differ() {
        let first: Vec<u64> = (0..100).map(|stream| SplitMix64::for_stream(1, stream).next_u64()).collect();
        let distinct: std::collections::BTreeSet<_> = first.iter().collect();
        assert_eq!(distinct.len(), first.len());
    }
}
