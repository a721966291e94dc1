//! Which steps touched a byte, in six bytes.

/// Number of the prompt, step 0 of a process. Requests come back to it for as long as a run lasts, so it is never forgotten.
pub(crate) const PROMPT_NUMBER: u32 = 1;

/// A step is remembered until this many later ones of its process have begun. Rows of one process that computes in
/// several threads may lie between each other; more threads than this are not expected.
pub(crate) const STEPS_BACK: u32 = 7;

const PROMPT_BIT: u16 = 1;
const LATEST_BIT: u16 = 1 << 1;
const LATER_BITS: u16 = ((1 << (STEPS_BACK + 1)) - 1) << 1;

/// The steps of one process that touched some bytes: the prompt, the latest step, and those shortly before it.
///
/// The prompt has number 1; the other steps count from 2 in the order in which they begin. 0 stands for no step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TouchedSteps {
    /// Number of the latest step other than the prompt; 0 if there was none.
    latest: u32,
    /// The prompt, the latest step, and with each further bit the step one before.
    bits: u16,
}

impl TouchedSteps {
    /// Whether a step is not known to have touched the bytes. False for no step, and for one too long ago to be known.
    pub fn lack(self, number: u32) -> bool {
        self.bit(number).is_some_and(|bit| self.bits & bit == 0)
    }

    /// The same after a step has touched the bytes.
    pub fn with(self, number: u32) -> Self {
        if number <= self.latest || number <= PROMPT_NUMBER {
            return Self { bits: self.bits | self.bit(number).unwrap_or(0), ..self };
        }
        let steps_on = number - self.latest;
        let before = if steps_on <= STEPS_BACK { ((self.bits & LATER_BITS) << steps_on) & LATER_BITS } else { 0 };
        Self { latest: number, bits: (self.bits & PROMPT_BIT) | before | LATEST_BIT }
    }

    /// The bit of a step: an empty one if it is later than any seen, none if it cannot be told.
    fn bit(self, number: u32) -> Option<u16> {
        match number {
            0 => None,
            PROMPT_NUMBER => Some(PROMPT_BIT),
            _ if number > self.latest => Some(0),
            _ => Some(self.latest - number).filter(|back| *back <= STEPS_BACK).map(|back| LATEST_BIT << back),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched(numbers: &[u32]) -> TouchedSteps {
        numbers.iter().fold(TouchedSteps::default(), |steps, number| steps.with(*number))
    }

    #[test]
    fn a_step_that_comes_back_between_others_is_known() {
        let steps = touched(&[2, 4, 3, 6]);
        let lacking: Vec<u32> = (0..=8).filter(|number| steps.lack(*number)).collect();
        assert_eq!(lacking, [1, 5, 7, 8]);
        assert_eq!(touched(&[2, 4, 3, 6, 2, 4, 0]), steps);
    }

    #[test]
    fn the_prompt_is_never_forgotten_and_a_step_only_after_many() {
        let steps = touched(&[PROMPT_NUMBER, 2, 2 + STEPS_BACK]);
        assert!(!steps.lack(PROMPT_NUMBER) && !steps.lack(2) && steps.lack(3));
        let later = steps.with(1_000_000);
        assert!(!later.lack(PROMPT_NUMBER));
        assert!(!later.lack(2), "too long ago to count again");
        assert!(later.lack(1_000_000 - 1));
    }

    #[test]
    fn a_life_still_fits_a_cache_line_with_its_range() {
        assert!(size_of::<crate::lives::Life>() + size_of::<crate::lives::ByteRange>() <= 64);
    }
}
