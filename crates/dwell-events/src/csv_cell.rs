//! Text in CSV files that spreadsheets open.

use std::borrow::Cow;

/// Characters with which a spreadsheet takes a cell for a formula.
const BEGIN_FORMULAS: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// The text of a cell. One that a spreadsheet would take for a formula gets an apostrophe in front; numbers stay numbers.
pub fn csv_cell(text: &str) -> Cow<'_, str> {
    match text.starts_with(BEGIN_FORMULAS) && text.parse::<f64>().is_err() {
        true => Cow::Owned(format!("'{text}")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_text_and_numbers_stay_numbers() {
        for text in ["=1+1", "+cmd|' /C calc'!A0", "-x", "@SUM(A1)", "\t=1", "\r=1"] {
            assert_eq!(csv_cell(text), format!("'{text}"));
        }
        for text in ["", "-1.5", "+2", "-1e9", "-inf", "blk.0=x", "'=1", "a@b"] {
            assert!(matches!(csv_cell(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }
}
