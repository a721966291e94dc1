//! The font that all figures are set in, embedded in SVG and PDF: a subset of Inter. `assets/README.md` says how it was made.

use std::sync::LazyLock;

use ttf_parser::{Face, GlyphId};

/// Its name.
pub(super) const FAMILY: &str = "Inter";
/// For PDF and for measuring.
pub(super) const TTF: &[u8] = include_bytes!("../../../assets/inter-figures.ttf");
/// The same font, smaller, for SVG.
pub(super) const WOFF2: &[u8] = include_bytes!("../../../assets/inter-figures.woff2");

static FACE: LazyLock<Face<'static>> =
    LazyLock::new(|| Face::parse(TTF, 0).expect("the font that is compiled in can be read"));

pub(super) fn face() -> &'static Face<'static> {
    &FACE
}

/// A glyph and how far the next one is, in parts of the size. A character that the font lacks is its empty box.
pub(super) fn glyph(character: char) -> (GlyphId, f64) {
    let id = FACE.glyph_index(character).unwrap_or_default();
    let advance = f64::from(FACE.glyph_hor_advance(id).unwrap_or_default());
    (id, advance / f64::from(FACE.units_per_em()))
}

/// Width of text in points.
pub(in crate::figures) fn text_width(text: &str, size_pt: f64) -> f64 {
    text.chars().map(|character| glyph(character).1).sum::<f64>() * size_pt
}

/// Height of capital letters and digits in points.
pub(in crate::figures) fn cap_height(size_pt: f64) -> f64 {
    let height = FACE.capital_height().unwrap_or_default();
    f64::from(height) / f64::from(FACE.units_per_em()) * size_pt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_as_wide_as_its_glyphs() {
        let (_, zero) = glyph('0');
        assert!((0.5..0.7).contains(&zero), "{zero}");
        assert!((text_width("000", 10.0) - 30.0 * zero).abs() < 1e-9);
        assert!((0.7..0.75).contains(&cap_height(1.0)), "{}", cap_height(1.0));
    }

    #[test]
    fn every_sign_that_figures_use_has_a_glyph() {
        for sign in "0123456789⁰¹²³⁴⁵⁶⁷⁸⁹⁻−–·×µ≥≤≈→↑↓…%°()/,".chars() {
            assert_ne!(glyph(sign).0, GlyphId(0), "{sign}");
        }
    }
}
