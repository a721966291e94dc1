//! Random numbers that a seed repeats (SplitMix64).

use std::time::Duration;

/// A source of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The numbers of one trial of a seed: they do not depend on how many numbers other trials took.
    pub(crate) fn of_trial(seed: u64, trial: u64) -> Self {
        Self(Self(seed ^ trial.wrapping_mul(0xd6e8_feb8_6659_fd93)).next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one, which is above 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// Whether something happens that happens once in so many times.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// A duration up to this one.
    pub(crate) fn up_to(&mut self, longest: Duration) -> Duration {
        Duration::from_micros(self.below(longest.as_micros() as u64 + 1))
    }

    /// One of these, which are not empty.
    pub(crate) fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_numbers_and_trials_differ() {
        let numbers = |mut random: Random| [random.next(), random.next()];
        assert_eq!(numbers(Random::of_trial(7, 1)), numbers(Random::of_trial(7, 1)));
        assert_ne!(numbers(Random::of_trial(7, 1)), numbers(Random::of_trial(7, 2)));
        assert_ne!(numbers(Random::of_trial(7, 1)), numbers(Random::of_trial(8, 1)));
    }
}
