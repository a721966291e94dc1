//! Text in CSV files that spreadsheets open.

use std::borrow::Cow;

/// Characters with which a spreadsheet takes a cell for a formula.
const BEGIN_FORMULAS: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];
/// Put before text that would be taken for a formula.
const MARK: char = '\'';

/// The cell for a text. One that a spreadsheet would take for a formula gets an apostrophe in front; numbers stay numbers.
pub fn csv_cell(text: &str) -> Cow<'_, str> {
    match is_formula(text) {
        true => Cow::Owned(format!("{MARK}{text}")),
        false => Cow::Borrowed(text),
    }
}

/// The text of a cell: the inverse of [`csv_cell`].
pub fn csv_text(cell: &str) -> &str {
    cell.strip_prefix(MARK).filter(|text| is_formula(text)).unwrap_or(cell)
}

/// Also one behind apostrophes, so that a cell has one text only.
fn is_formula(text: &str) -> bool {
    let bare = text.trim_start_matches(MARK);
    bare.starts_with(BEGIN_FORMULAS) && bare.parse::<f64>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_text_and_numbers_stay_numbers() {
        for text in ["=1+1", "+cmd|' /C calc'!A0", "-x", "@SUM(A1)", "\t=1", "\r=1", "'=1"] {
            assert_eq!(csv_cell(text), format!("'{text}"));
        }
        for text in ["", "-1.5", "+2", "-1e9", "-inf", "blk.0=x", "'-1.5", "'a", "a@b"] {
            assert!(matches!(csv_cell(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn a_cell_gives_its_text_back() {
        for text in ["=1", "'=1", "''=1", "'", "-1.5", "'-1.5", "it's", "", "-x"] {
            assert_eq!(csv_text(&csv_cell(text)), text);
        }
        assert_eq!(csv_text("=1"), "=1", "files of earlier versions have no apostrophe");
    }
}
