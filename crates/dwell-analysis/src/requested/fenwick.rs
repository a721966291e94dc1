//! Sums over the end of a list whose entries change: Fenwick's binary indexed tree.

/// Amounts by place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fenwick {
    amounts: Vec<u64>,
    /// Each holds the sum of the amounts in as many places up to its own, counted from 1, as its lowest bit says.
    sums: Vec<u64>,
    total: u64,
}

impl Fenwick {
    /// The amounts, and room for others up to so many places.
    pub(crate) fn new(mut amounts: Vec<u64>, places: usize) -> Self {
        amounts.resize(places.max(amounts.len()), 0);
        let mut sums = amounts.clone();
        for place in 1..=sums.len() {
            let parent = place + lowest_bit(place);
            if parent <= sums.len() {
                sums[parent - 1] += sums[place - 1];
            }
        }
        let total = amounts.iter().sum();
        Self { amounts, sums, total }
    }

    pub(crate) fn places(&self) -> usize {
        self.amounts.len()
    }

    /// The amount in a place.
    pub(crate) fn at(&self, place: usize) -> u64 {
        self.amounts[place]
    }

    pub(crate) fn add(&mut self, place: usize, amount: u64) {
        self.amounts[place] += amount;
        self.total += amount;
        self.change_sums(place, |sum| *sum += amount);
    }

    pub(crate) fn subtract(&mut self, place: usize, amount: u64) {
        self.amounts[place] -= amount;
        self.total -= amount;
        self.change_sums(place, |sum| *sum -= amount);
    }

    /// The sum of all amounts in later places.
    pub(crate) fn after(&self, place: usize) -> u64 {
        let (mut up_to, mut at) = (0, place + 1);
        while at > 0 {
            up_to += self.sums[at - 1];
            at -= lowest_bit(at);
        }
        self.total - up_to
    }

    fn change_sums(&mut self, place: usize, change: impl Fn(&mut u64)) {
        let mut at = place + 1;
        while at <= self.sums.len() {
            change(&mut self.sums[at - 1]);
            at += lowest_bit(at);
        }
    }
}

fn lowest_bit(number: usize) -> usize {
    number & number.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sums_are_those_of_the_list(
            mut amounts in prop::collection::vec(0u64..9, 1..40),
            changes in prop::collection::vec((0usize..60, 0u64..9, any::<bool>()), 0..40),
        ) {
            let mut sums = Fenwick::new(amounts.clone(), 50);
            amounts.resize(50, 0);
            for (place, amount, is_added) in changes {
                let place = place % 50;
                if is_added {
                    sums.add(place, amount);
                    amounts[place] += amount;
                } else {
                    let amount = amount.min(amounts[place]);
                    sums.subtract(place, amount);
                    amounts[place] -= amount;
                }
            }
            for place in 0..50 {
                prop_assert_eq!(sums.after(place), amounts[place + 1..].iter().sum::<u64>());
                prop_assert_eq!(sums.at(place), amounts[place]);
            }
        }
    }
}
