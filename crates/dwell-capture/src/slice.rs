//! A part of a tensor, written as in numpy: `:, ::4`.

use std::fmt;
use std::str::FromStr;

use dwell_events::Hint;
use serde::{Deserialize, Serialize};

/// What is taken of each dimension, outermost first; of those that are not named, all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slice {
    parts: Vec<Part>,
}

/// What is taken of one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// One place, counted from the end if negative; the dimension goes away.
    Index(i64),
    /// `start:stop:step`, as far as there is something.
    Range { start: Option<i64>, stop: Option<i64>, step: u64 },
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
        vec!["one part per dimension, outermost first: --slice ':, ::4', --slice '-1', --slice ':, 0:64'".to_owned()]
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
        if self.parts.len() > shape.len() {
            return Err(Misfit::TooManyParts { parts: self.parts.len(), dimensions: shape.len() });
        }
        let take = |(dimension, &length): (usize, &u64)| {
            let part = self.parts.get(dimension).copied().unwrap_or(Part::ALL);
            part.of(length).map_err(|index| Misfit::IndexOutside { index, dimension, length })
        };
        shape.iter().enumerate().map(take).collect()
    }

    /// Whether everything is taken.
    pub fn is_whole(&self) -> bool {
        self.parts.iter().all(|part| *part == Part::ALL)
    }
}

impl Part {
    const ALL: Part = Part::Range { start: None, stop: None, step: 1 };

    /// An index that is outside is given back.
    fn of(self, length: u64) -> Result<Taken, i64> {
        // From the end if negative, and not beyond either end.
        let place =
            |at: i64| if at < 0 { length.saturating_sub(at.unsigned_abs()) } else { at.unsigned_abs().min(length) };
        match self {
            Part::Index(index) if index < 0 && index.unsigned_abs() > length => Err(index),
            Part::Index(index) if index >= 0 && index.unsigned_abs() >= length => Err(index),
            Part::Index(index) => Ok(Taken { start: place(index), count: 1, step: 1, is_kept: false }),
            Part::Range { start, stop, step } => {
                let (start, stop) = (start.map_or(0, place), stop.map_or(length, place));
                Ok(Taken { start, count: stop.saturating_sub(start).div_ceil(step), step, is_kept: true })
            }
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
        let parts: Result<Vec<Part>, String> = text.split(',').map(|part| parse_part(part.trim())).collect();
        Ok(Self { parts: parts.map_err(unreadable)? })
    }
}

fn parse_part(text: &str) -> Result<Part, String> {
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| format!("{text:?} is not a whole number"));
    let optional = |text: &str| if text.trim().is_empty() { Ok(None) } else { number(text).map(Some) };
    match text.split(':').collect::<Vec<_>>()[..] {
        [index] => Ok(Part::Index(number(index)?)),
        [start, stop] => Ok(Part::Range { start: optional(start)?, stop: optional(stop)?, step: 1 }),
        [start, stop, step] => {
            let step = u64::try_from(optional(step)?.unwrap_or(1)).ok().filter(|step| *step > 0);
            let step = step.ok_or("a step must be 1 or more")?;
            Ok(Part::Range { start: optional(start)?, stop: optional(stop)?, step })
        }
        _ => Err(format!("{text:?} has more than two colons")),
    }
}

impl fmt::Display for Part {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Index(index) => write!(out, "{index}"),
            Part::Range { start, stop, step } => {
                let text = |place: &Option<i64>| place.map_or_else(String::new, |place| place.to_string());
                write!(out, "{}:{}", text(start), text(stop))?;
                if *step == 1 { Ok(()) } else { write!(out, ":{step}") }
            }
        }
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.parts.iter().map(Part::to_string).collect::<Vec<_>>().join(", "))
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

    fn taken(text: &str, shape: &[u64]) -> Vec<(u64, u64, u64)> {
        let slice: Slice = text.parse().unwrap();
        slice.of(shape).unwrap().iter().map(|taken| (taken.start, taken.count, taken.step)).collect()
    }

    #[test]
    fn parts_mean_what_they_mean_in_numpy() {
        // What `range(10)[...]` gives in Python.
        assert_eq!(taken("::4", &[10]), [(0, 3, 4)]);
        assert_eq!(taken("-3:", &[10]), [(7, 3, 1)]);
        assert_eq!(taken(":-3", &[10]), [(0, 7, 1)]);
        assert_eq!(taken("2:100", &[10]), [(2, 8, 1)]);
        assert_eq!(taken("8:2", &[10]), [(8, 0, 1)]);
        assert_eq!(taken("-100:2", &[10]), [(0, 2, 1)]);
        assert_eq!(taken("1:8:3", &[10]), [(1, 3, 3)]);
        assert_eq!(taken("-1", &[10]), [(9, 1, 1)]);
        assert_eq!(taken(":, ::2", &[3, 5, 7]), [(0, 3, 1), (0, 3, 2), (0, 7, 1)]);
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
        for text in ["", " ", "a", "1:2:0", "::-1", "1:2:3:4", ":,", "1.5"] {
            assert!(text.parse::<Slice>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn text_leads_back_to_the_slice() {
        for text in [":", ":, ::4", "-1", "1:, :-2:3, 0"] {
            assert_eq!(text.parse::<Slice>().unwrap().to_string(), text);
        }
    }
}
