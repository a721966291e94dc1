//! A part of a tensor, written as in numpy: `:, ::4`. The command line and the Python package read the same grammar here.

use std::fmt;
use std::str::FromStr;

use dwell_events::Hint;
use serde::{Deserialize, Serialize};

/// What is taken of each dimension, outermost first; of those that are not named, all. `...` stands for as many whole
/// dimensions as the other parts leave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slice {
    parts: Vec<SlicePart>,
}

/// What is taken of one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlicePart {
    /// One place, counted from the end if negative; the dimension goes away.
    Index(i64),
    /// `start:stop:step`, as far as there is something.
    Range {
        /// First place, counted from the end if negative; the first of all if `None`.
        start: Option<i64>,
        /// Place after the last, counted from the end if negative; the end if `None`.
        stop: Option<i64>,
        /// From one place to the next; above 0.
        step: u64,
    },
    /// `...`: all dimensions that no other part names. There is one at most.
    Rest,
}

/// What is taken of a dimension of known length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The first place.
    pub start: u64,
    /// How many places.
    pub count: u64,
    /// From one place to the next.
    pub step: u64,
    /// Whether the dimension stays.
    pub is_kept: bool,
}

/// A text that is no slice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("reading the slice {text:?}: {reason}")]
pub struct UnreadableSlice {
    text: String,
    reason: String,
}

impl Hint for UnreadableSlice {
    fn hints(&self) -> Vec<String> {
        vec![
            "one part per dimension, outermost first, such as ':, ::4', '-1' or ':, 0:64'; '...' stands for all between"
                .to_owned(),
        ]
    }
}

/// A slice that does not fit a tensor; completes a sentence about that tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    TooManyParts { parts: usize, dimensions: usize },
    IndexOutside { index: i64, dimension: usize, length: u64 },
}

impl Slice {
    /// What is taken of a tensor of this shape.
    pub(crate) fn of(&self, shape: &[u64]) -> Result<Vec<Taken>, Misfit> {
        let rest = self.parts.iter().position(|part| *part == SlicePart::Rest);
        let (before, after) = match rest {
            Some(place) => (&self.parts[..place], &self.parts[place + 1..]),
            None => (&self.parts[..], &[][..]),
        };
        let parts = before.len() + after.len();
        let whole = shape.len().checked_sub(parts).ok_or(Misfit::TooManyParts { parts, dimensions: shape.len() })?;
        let whole = std::iter::repeat_n(&SlicePart::ALL, whole);
        let take = |(dimension, (part, &length)): (usize, (&SlicePart, &u64))| {
            part.of(length).map_err(|index| Misfit::IndexOutside { index, dimension, length })
        };
        before.iter().chain(whole).chain(after).zip(shape).enumerate().map(take).collect()
    }

    /// Its parts, outermost dimension first.
    pub fn parts(&self) -> &[SlicePart] {
        &self.parts
    }

    /// Whether everything is taken.
    pub fn is_whole(&self) -> bool {
        self.parts.iter().all(|part| matches!(*part, SlicePart::ALL | SlicePart::Rest))
    }
}

impl SlicePart {
    const ALL: Self = Self::Range { start: None, stop: None, step: 1 };

    /// An index that is outside is given back.
    fn of(self, length: u64) -> Result<Taken, i64> {
        // From the end if negative, and not beyond either end.
        let place =
            |at: i64| if at < 0 { length.saturating_sub(at.unsigned_abs()) } else { at.unsigned_abs().min(length) };
        match self {
            SlicePart::Index(index) if index < 0 && index.unsigned_abs() > length => Err(index),
            SlicePart::Index(index) if index >= 0 && index.unsigned_abs() >= length => Err(index),
            SlicePart::Index(index) => Ok(Taken { start: place(index), count: 1, step: 1, is_kept: false }),
            SlicePart::Range { start, stop, step } => {
                let (start, stop) = (start.map_or(0, place), stop.map_or(length, place));
                Ok(Taken { start, count: stop.saturating_sub(start).div_ceil(step), step, is_kept: true })
            }
            SlicePart::Rest => SlicePart::ALL.of(length),
        }
    }
}

impl FromStr for Slice {
    type Err = UnreadableSlice;

    fn from_str(text: &str) -> Result<Self, UnreadableSlice> {
        let unreadable = |reason: String| UnreadableSlice { text: text.to_owned(), reason };
        if text.trim().is_empty() {
            return Err(unreadable("it is empty".to_owned()));
        }
        let parts: Result<Vec<SlicePart>, String> = text.split(',').map(|part| parse_part(part.trim())).collect();
        let parts = parts.map_err(unreadable)?;
        if parts.iter().filter(|part| **part == SlicePart::Rest).count() > 1 {
            return Err(unreadable("`...` can stand once".to_owned()));
        }
        Ok(Self { parts })
    }
}

fn parse_part(text: &str) -> Result<SlicePart, String> {
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| format!("{text:?} is not a whole number"));
    let optional = |text: &str| if text.trim().is_empty() { Ok(None) } else { number(text).map(Some) };
    match text.split(':').collect::<Vec<_>>()[..] {
        ["..."] => Ok(SlicePart::Rest),
        [index] => Ok(SlicePart::Index(number(index)?)),
        [start, stop] => Ok(SlicePart::Range { start: optional(start)?, stop: optional(stop)?, step: 1 }),
        [start, stop, step] => {
            let step = u64::try_from(optional(step)?.unwrap_or(1)).ok().filter(|step| *step > 0);
            let step = step.ok_or("a step must be 1 or more")?;
            Ok(SlicePart::Range { start: optional(start)?, stop: optional(stop)?, step })
        }
        _ => Err(format!("{text:?} has more than two colons")),
    }
}

impl fmt::Display for SlicePart {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlicePart::Rest => out.write_str("..."),
            SlicePart::Index(index) => write!(out, "{index}"),
            SlicePart::Range { start, stop, step } => {
                let text = |place: &Option<i64>| place.map_or_else(String::new, |place| place.to_string());
                write!(out, "{}:{}", text(start), text(stop))?;
                if *step == 1 { Ok(()) } else { write!(out, ":{step}") }
            }
        }
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.parts.iter().map(SlicePart::to_string).collect::<Vec<_>>().join(", "))
    }
}

impl From<Slice> for String {
    fn from(slice: Slice) -> String {
        slice.to_string()
    }
}

impl TryFrom<String> for Slice {
    type Error = UnreadableSlice;

    fn try_from(text: String) -> Result<Self, UnreadableSlice> {
        text.parse()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    /// Examples that the tests of the Python package read too.
    const EXAMPLES: &str = include_str!("../tests/selection_examples.json");

    #[derive(Deserialize)]
    struct Examples {
        slices: Vec<Example>,
        unreadable_slices: Vec<String>,
        misfits: Vec<Example>,
    }

    #[derive(Deserialize)]
    struct Example {
        text: String,
        shape: Vec<u64>,
        #[serde(default)]
        places: Vec<Vec<u64>>,
        #[serde(default)]
        result: Vec<u64>,
    }

    fn examples() -> Examples {
        serde_json::from_str(EXAMPLES).unwrap()
    }

    #[test]
    fn parts_mean_what_they_mean_in_numpy() {
        for example in examples().slices {
            let taken = example.text.parse::<Slice>().unwrap().of(&example.shape).unwrap();
            let places = |taken: &Taken| (0..taken.count).map(|n| taken.start + n * taken.step).collect::<Vec<u64>>();
            assert_eq!(taken.iter().map(places).collect::<Vec<_>>(), example.places, "{:?}", example.text);
            let kept: Vec<u64> = taken.iter().filter(|taken| taken.is_kept).map(|taken| taken.count).collect();
            assert_eq!(kept, example.result, "{:?}", example.text);
        }
    }

    #[test]
    fn what_fits_no_tensor_of_a_shape_is_refused() {
        for example in examples().misfits {
            let slice: Slice = example.text.parse().unwrap();
            assert!(slice.of(&example.shape).is_err(), "{:?} of {:?}", example.text, example.shape);
        }
    }

    #[test]
    fn an_index_takes_its_dimension_away() {
        let slice: Slice = "-1, :".parse().unwrap();
        let kept: Vec<bool> = slice.of(&[4, 4]).unwrap().iter().map(|taken| taken.is_kept).collect();
        assert_eq!(kept, [false, true]);
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let slice: Slice = ":, 5".parse().unwrap();
        assert_eq!(slice.of(&[3]), Err(Misfit::TooManyParts { parts: 2, dimensions: 1 }));
        assert_eq!(slice.of(&[3, 5]), Err(Misfit::IndexOutside { index: 5, dimension: 1, length: 5 }));
        assert!("-6".parse::<Slice>().unwrap().of(&[5]).is_err());
    }

    #[test]
    fn what_is_no_slice_is_refused() {
        for text in examples().unreadable_slices {
            assert!(text.parse::<Slice>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn text_leads_back_to_the_slice() {
        for text in [":", ":, ::4", "-1", "1:, :-2:3, 0", "..., ::4"] {
            assert_eq!(text.parse::<Slice>().unwrap().to_string(), text);
        }
    }
}
