//! Colours and dashes, those of the report's pages on paper: people with any kind of colour blindness can tell them apart
//! (Okabe and Ito), and lines differ in their dashes too.

use super::mark::Marker;
use crate::figures::scene::{Colour, Stroke};

pub(in crate::figures) const INK: Colour = Colour(0x1a, 0x1c, 0x1f);
pub(in crate::figures) const MUTED: Colour = Colour(0x5a, 0x5f, 0x66);
const GRID_COLOUR: Colour = Colour(0xe4, 0xe6, 0xe9);
pub(in crate::figures) const READ: Colour = Colour(0x50, 0x6e, 0xdc);
pub(in crate::figures) const WRITTEN: Colour = Colour(0xe6, 0x96, 0x3c);
/// A part of memory that is not there.
pub(in crate::figures) const MINUS: Colour = Colour(0xc9, 0xcf, 0xd6);

/// Journals refuse thinner lines.
const THIN_PT: f64 = 0.5;
/// Width of lines that show values.
pub(in crate::figures) const LINE_PT: f64 = 1.1;
pub(in crate::figures) const AXIS: Stroke = Stroke::solid(INK, THIN_PT);
pub(in crate::figures) const GRID: Stroke = Stroke::solid(GRID_COLOUR, THIN_PT);
/// Thresholds and other lines that are no values.
pub(in crate::figures) const REFERENCE: Stroke = Stroke { colour: MUTED, width_pt: THIN_PT, dashes_pt: &[2.5, 1.5] };

/// Region types in the order in which figures stack and list them, with their colours and dashes.
const REGION_TYPES: [(&str, Colour, &[f64]); 6] = [
    ("weight", Colour(0x00, 0x72, 0xb2), &[]),
    ("kv_cache", Colour(0xd5, 0x5e, 0x00), &[4.0, 3.0]),
    ("recurrent_state", Colour(0xe6, 0x9f, 0x00), &[2.0, 2.0]),
    ("activation", Colour(0x00, 0x9e, 0x73), &[]),
    ("work_buffer", Colour(0x56, 0xb4, 0xe9), &[1.5, 1.0]),
    ("runtime", Colour(0xcc, 0x79, 0xa7), &[]),
];
const OTHER: Colour = Colour(0x6e, 0x6e, 0x6e);

/// Place of a region type in lists and stacks.
pub(in crate::figures) fn region_rank(region_type: &str) -> usize {
    REGION_TYPES.iter().position(|(name, ..)| *name == region_type).unwrap_or(REGION_TYPES.len())
}

pub(in crate::figures) fn region_colour(region_type: &str) -> Colour {
    REGION_TYPES.get(region_rank(region_type)).map_or(OTHER, |(_, colour, _)| *colour)
}

/// The line of a region type. Lines that lie on each other stay visible through the gaps.
pub(in crate::figures) fn region_stroke(region_type: &str) -> Stroke {
    let dashes_pt = REGION_TYPES.get(region_rank(region_type)).map_or(&[][..], |(_, _, dashes)| dashes);
    Stroke { colour: region_colour(region_type), width_pt: LINE_PT, dashes_pt }
}

/// Lines that stand for no region type: colour, dashes and marker differ.
const SERIES: [(Colour, &[f64], Marker); 6] = [
    (INK, &[], Marker::Circle),
    (Colour(0x00, 0x72, 0xb2), &[4.5, 2.0], Marker::Square),
    (Colour(0xb5, 0x50, 0x0a), &[1.5, 1.5], Marker::Triangle),
    (Colour(0x00, 0x79, 0x5a), &[6.0, 2.0, 1.5, 2.0], Marker::Diamond),
    (Colour(0xcc, 0x79, 0xa7), &[], Marker::Square),
    (Colour(0xe6, 0x9f, 0x00), &[4.5, 2.0], Marker::Circle),
];

/// The line and marker of a series by its place. After the last colour the first comes again, with other dashes.
pub(in crate::figures) fn series(place: usize) -> (Stroke, Marker) {
    let round = place / SERIES.len();
    let (colour, ..) = SERIES[place % SERIES.len()];
    let (_, dashes_pt, marker) = SERIES[(place + round) % SERIES.len()];
    (Stroke { colour, width_pt: LINE_PT, dashes_pt }, marker)
}

/// Parts that are stacked on each other: neighbours differ in lightness, so that grey tells them apart.
const PARTS: [Colour; 6] = [
    Colour(0x00, 0x72, 0xb2),
    Colour(0xe6, 0x9f, 0x00),
    Colour(0x00, 0x9e, 0x73),
    Colour(0x56, 0xb4, 0xe9),
    Colour(0xd5, 0x5e, 0x00),
    Colour(0xcc, 0x79, 0xa7),
];

/// Where sizes come from: none of the colours of parts, because both stand in one figure.
const SOURCES: [Colour; 5] = [
    Colour(0x33, 0x22, 0x88),
    Colour(0x99, 0x99, 0x33),
    Colour(0x88, 0x22, 0x55),
    Colour(0x44, 0xaa, 0x99),
    Colour(0xaa, 0x44, 0x99),
];

pub(in crate::figures) fn source_colour(place: usize) -> Colour {
    SOURCES[place % SOURCES.len()]
}

pub(in crate::figures) fn part_colour(place: usize) -> Colour {
    PARTS[place % PARTS.len()]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn colours_of_parts_and_of_sources_are_never_the_same() {
        assert!(SOURCES.iter().all(|source| !PARTS.contains(source)));
    }

    /// The colour of a variable of the viewer on paper.
    fn on_paper(variable: &str) -> Colour {
        let style = include_str!("../../../../../viewer/src/report.css");
        let (_, after) = style.split_once(&format!("--{variable}: light-dark(#")).unwrap();
        let channel = |place: usize| u8::from_str_radix(&after[2 * place..2 * place + 2], 16).unwrap();
        Colour(channel(0), channel(1), channel(2))
    }

    #[test]
    fn the_palette_is_that_of_the_reports() {
        for (region_type, colour, _) in REGION_TYPES {
            assert_eq!(on_paper(region_type), colour, "{region_type}");
        }
        for (place, (colour, ..)) in SERIES.iter().take(4).enumerate() {
            assert_eq!(on_paper(&format!("series-{place}")), *colour);
        }
        let others = [("ink", INK), ("muted", MUTED), ("grid", GRID_COLOUR), ("read", READ), ("written", WRITTEN)];
        for (variable, colour) in others.into_iter().chain([("other", OTHER), ("minus", MINUS)]) {
            assert_eq!(on_paper(variable), colour, "{variable}");
        }
    }

    #[test]
    fn no_two_of_many_series_look_the_same() {
        let looks: Vec<Stroke> = (0..12).map(|place| series(place).0).collect();
        assert!((0..12).all(|one| (0..one).all(|other| looks[one] != looks[other])));
    }

    #[test]
    fn no_line_is_thinner_than_journals_take() {
        assert!([AXIS, GRID, REFERENCE, region_stroke("weight"), series(9).0].iter().all(|line| line.width_pt >= 0.5));
    }
}
