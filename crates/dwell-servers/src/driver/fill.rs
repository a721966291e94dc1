//! A prompt of a wanted number of tokens, by repeating a text and cutting it.

use crate::ServerError;

/// Fewest and most characters of the sample that lengths are estimated from.
const SAMPLE_CHARACTERS: (usize, usize) = (16, 2000);
/// Most steps by which a cut is moved to hit the number.
const STEPS_ASIDE: usize = 16;

/// Repeats a text until it has this many tokens.
///
/// `count` tells the tokens of a prompt, with what is around its text. Where counting is cheap the cut is searched until
/// the number is hit; elsewhere it is estimated from two samples.
pub(super) fn fill(
    text: &str,
    wanted: u32,
    is_counting_cheap: bool,
    mut count: impl FnMut(&str) -> Result<u64, ServerError>,
) -> Result<String, ServerError> {
    let wrong = |found: String| ServerError::Fill { wanted, found };
    if text.is_empty() {
        return Err(wrong("the text to repeat is empty".to_owned()));
    }
    let half = half_sample(text, wanted);
    let (of_half, of_sample) = (count(&repeated(text, half))?, count(&repeated(text, 2 * half))?);
    if of_sample <= of_half {
        return Err(wrong(format!("{of_half} and {of_sample} tokens were counted in a text and in its double")));
    }
    let per_character = (of_sample - of_half) as f64 / half as f64;
    let around = of_half as f64 - per_character * half as f64;
    let characters = (f64::from(wanted) - around) / per_character;
    if is_counting_cheap {
        return search(text, wanted, characters.max(1.0), count);
    }
    if characters < 1.0 {
        return Err(no_room(wanted, around));
    }
    Ok(repeated(text, characters.round() as usize))
}

/// Characters of a sample that is not longer than the prompt will be: whole repetitions, where some fit.
fn half_sample(text: &str, wanted: u32) -> usize {
    let half = (2 * wanted as usize).clamp(SAMPLE_CHARACTERS.0, SAMPLE_CHARACTERS.1) / 2;
    let characters = text.chars().count();
    if characters <= half { half / characters * characters } else { half }
}

fn no_room(wanted: u32, around: f64) -> ServerError {
    ServerError::Fill {
        wanted,
        found: format!("{around:.0} tokens are around the text, room for at least 1 of it is needed"),
    }
}

/// The shortest cut that has as many tokens, near an estimate.
fn search(
    text: &str,
    wanted: u32,
    estimate: f64,
    mut count: impl FnMut(&str) -> Result<u64, ServerError>,
) -> Result<String, ServerError> {
    let shortest = count(&repeated(text, 1))?;
    if shortest > u64::from(wanted) {
        return Err(no_room(wanted, shortest as f64 - 1.0));
    }
    let wanted = u64::from(wanted);
    let mut too_short = 0;
    let mut long_enough = estimate.ceil() as usize;
    while count(&repeated(text, long_enough))? < wanted {
        too_short = long_enough;
        long_enough += long_enough / 8 + 8;
    }
    while long_enough - too_short > 1 {
        let middle = too_short + (long_enough - too_short) / 2;
        if count(&repeated(text, middle))? < wanted { too_short = middle } else { long_enough = middle }
    }
    // A character can make a token more than one longer, or two into one; near by there is a cut that fits.
    for aside in 0..STEPS_ASIDE {
        for length in [long_enough + aside, long_enough.saturating_sub(aside).max(1)] {
            let cut = repeated(text, length);
            if count(&cut)? == wanted {
                return Ok(cut);
            }
        }
    }
    Ok(repeated(text, long_enough))
}

fn repeated(text: &str, characters: usize) -> String {
    text.chars().cycle().take(characters).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    /// A token per word and one around all.
    fn words(text: &str) -> Result<u64, ServerError> {
        Ok(text.split_whitespace().count() as u64 + 1)
    }

    #[test]
    fn a_counted_prompt_has_exactly_the_wanted_tokens() {
        for wanted in [2, 17, 500, 5000] {
            let filled = fill("one two three, ", wanted, true, words).unwrap();
            assert_eq!(words(&filled).unwrap(), u64::from(wanted));
            assert!("one two three, ".repeat(2000).starts_with(&filled));
        }
    }

    #[test]
    fn an_estimated_prompt_takes_two_trials_and_is_near() {
        let mut trials = 0;
        let filled = fill("one two three, ", 5000, false, |text| {
            trials += 1;
            words(text)
        });
        let tokens = words(&filled.unwrap()).unwrap();
        assert_eq!(trials, 2);
        assert!(tokens.abs_diff(5000) <= 50, "{tokens}");
    }

    #[test]
    fn what_cannot_be_filled_is_an_error() {
        assert!(fill("", 5, true, words).is_err());
        assert!(fill("word ", 1, true, words).unwrap_err().to_string().contains("1 tokens are around the text"));
        assert!(fill("word ", 5, true, |_| Ok(3)).is_err());
    }
}
