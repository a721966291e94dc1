//! How large a figure is.

use std::str::FromStr;

use super::scene::{MM_PER_INCH, Scene};

/// Width of one of two columns.
const COLUMN_MM: f64 = 85.0;
/// Width of both columns.
const PAGE_MM: f64 = 178.0;
/// Smaller ones have no room for axes.
const LEAST_MM: f64 = 30.0;
/// Larger ones fit no paper.
const MOST_MM: f64 = 1200.0;
/// Plots stand side by side from this width on.
const WIDE_MM: f64 = 120.0;

/// How large a figure is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FigureSize {
    /// As wide as one of two columns, as high as the figure needs.
    Column,
    /// As wide as both columns, as high as the figure needs.
    Page,
    /// Exactly this.
    Exact {
        /// Width in millimetres.
        width_mm: f64,
        /// Height in millimetres.
        height_mm: f64,
    },
}

impl FigureSize {
    pub(super) fn width_mm(self) -> f64 {
        match self {
            Self::Column => COLUMN_MM,
            Self::Page => PAGE_MM,
            Self::Exact { width_mm, .. } => width_mm,
        }
    }

    /// Whether plots stand side by side.
    pub(super) fn is_wide(self) -> bool {
        self.width_mm() >= WIDE_MM
    }

    /// An empty sheet, with the height that the figure needs in a column and on a page.
    pub(super) fn scene(self, column_height_mm: f64, page_height_mm: f64) -> Scene {
        let height_mm = match self {
            Self::Column => column_height_mm,
            Self::Page => page_height_mm,
            Self::Exact { height_mm, .. } => height_mm,
        };
        Scene::new(self.width_mm(), height_mm)
    }
}

impl FromStr for FigureSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "column" => return Ok(Self::Column),
            "page" => return Ok(Self::Page),
            _ => {}
        }
        let needed =
            || "`column`, `page`, or a width and a height such as `120x60mm` or `5x2.5in` was needed".to_owned();
        let (numbers, unit_mm) = match (text.strip_suffix("mm"), text.strip_suffix("in")) {
            (Some(numbers), _) => (numbers, 1.0),
            (_, Some(numbers)) => (numbers, MM_PER_INCH),
            _ => (text, 1.0),
        };
        let (width, height) = numbers.split_once('x').ok_or_else(needed)?;
        let length = |text: &str| text.trim().parse::<f64>().map(|length| length * unit_mm).map_err(|_| needed());
        let (width_mm, height_mm) = (length(width)?, length(height)?);
        match [width_mm, height_mm].iter().all(|length| (LEAST_MM..=MOST_MM).contains(length)) {
            true => Ok(Self::Exact { width_mm, height_mm }),
            false => Err(format!("width and height must be between {LEAST_MM} mm and {MOST_MM} mm")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_names_or_lengths_with_a_unit() {
        assert_eq!("column".parse(), Ok(FigureSize::Column));
        let exact = |width_mm, height_mm| Ok(FigureSize::Exact { width_mm, height_mm });
        assert_eq!(["120x60", "120x60mm", "120 x 60mm"].map(str::parse), [(); 3].map(|()| exact(120.0, 60.0)));
        assert_eq!("5x2in".parse(), exact(127.0, 50.8));
        for wrong in ["wide", "120", "120x", "axb", "120x60cm"] {
            assert!(wrong.parse::<FigureSize>().is_err_and(|error| error.contains("120x60mm")), "{wrong}");
        }
        for wrong in ["10x60", "120x5000mm", "-50x60", "NaNx60", "nanxinf"] {
            assert!(wrong.parse::<FigureSize>().is_err_and(|error| error.contains("between 30 mm")), "{wrong}");
        }
    }

    #[test]
    fn a_figure_chooses_its_height_unless_it_is_given() {
        let heights = |size: FigureSize| (size.scene(70.0, 60.0).width_mm, size.scene(70.0, 60.0).height_mm);
        assert_eq!([FigureSize::Column, FigureSize::Page].map(heights), [(85.0, 70.0), (178.0, 60.0)]);
        assert_eq!(heights(FigureSize::Exact { width_mm: 100.0, height_mm: 40.0 }), (100.0, 40.0));
    }
}
