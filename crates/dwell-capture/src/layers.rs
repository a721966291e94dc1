//! Which layers: `0,5-8`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use dwell_events::Hint;
use serde::{Deserialize, Serialize};

/// The most layers that a list may name.
const MOST_LAYERS: u32 = 1 << 16;

/// A set of layers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Layers {
    layers: BTreeSet<u32>,
}

/// A text that is no list of layers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("reading the layers {text:?}: {reason}")]
pub struct UnreadableLayers {
    text: String,
    reason: String,
}

impl Hint for UnreadableLayers {
    fn hints(&self) -> Vec<String> {
        vec!["numbers and ranges from 0: --layers 0,5-8".to_owned()]
    }
}

impl Layers {
    /// Whether a layer is one of them.
    pub fn contains(&self, layer: u32) -> bool {
        self.layers.contains(&layer)
    }

    /// The last of them.
    pub(crate) fn last(&self) -> Option<u32> {
        self.layers.last().copied()
    }
}

impl FromIterator<u32> for Layers {
    fn from_iter<I: IntoIterator<Item = u32>>(layers: I) -> Self {
        Self { layers: layers.into_iter().collect() }
    }
}

impl FromStr for Layers {
    type Err = UnreadableLayers;

    fn from_str(text: &str) -> Result<Self, UnreadableLayers> {
        let unreadable = |reason: String| UnreadableLayers { text: text.to_owned(), reason };
        let number = |text: &str| {
            let number = text.trim().parse::<u32>().ok().filter(|layer| *layer < MOST_LAYERS);
            number.ok_or_else(|| unreadable(format!("{:?} is no layer", text.trim())))
        };
        let mut layers = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(unreadable(format!("{first}-{last} goes backwards")));
            }
            layers.extend(first..=last);
        }
        Ok(Self { layers })
    }
}

impl fmt::Display for Layers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for &layer in &self.layers {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == layer => *last = layer,
                _ => ranges.push((layer, layer)),
            }
        }
        let text = |(first, last): &(u32, u32)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        };
        out.write_str(&ranges.iter().map(text).collect::<Vec<_>>().join(","))
    }
}

impl From<Layers> for String {
    fn from(layers: Layers) -> String {
        layers.to_string()
    }
}

impl TryFrom<String> for Layers {
    type Error = UnreadableLayers;

    fn try_from(text: String) -> Result<Self, UnreadableLayers> {
        text.parse()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges_are_one_set() {
        let layers: Layers = "5-8, 0,6".parse().unwrap();
        assert_eq!(layers.to_string(), "0,5-8");
        assert!(layers.contains(7) && !layers.contains(1));
    }

    #[test]
    fn what_names_no_layers_is_refused() {
        for text in ["", "a", "3-1", "1,,2", "-1", "4294967295"] {
            assert!(text.parse::<Layers>().is_err(), "{text:?}");
        }
    }
}
