//! Counts and tables as text, in one place.

use super::{count, visible_in_line};

/// The text with a capital first letter.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A count with its noun: `1 file`, `15 files`, `2 batches`.
pub fn counted(value: u64, noun: &str) -> String {
    let ending = match noun {
        _ if value == 1 => "",
        noun if noun.ends_with("ch") || noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {noun}{ending}", count(value))
}

/// What there is any of: `3 ok, 1 damaged`.
pub fn totals(counts: &[(u64, &str)]) -> String {
    let some = counts.iter().filter(|(value, _)| *value > 0);
    some.map(|(value, what)| format!("{} {what}", count(*value))).collect::<Vec<_>>().join(", ")
}

/// `–` for what there is no figure of.
pub fn or_dash<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), text)
}

/// A share as a percentage: `9.1 %`, and `~0 %` for what is not nothing.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        all if all >= 100.0 => "100 %".to_owned(),
        percent if percent < 0.1 => "~0 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

/// A share that is known up to bounds: `80.2 %`, or `0–100 %`.
pub(super) fn percent_between((low, high): (f64, f64)) -> String {
    match (percent(low), percent(high)) {
        (low, high) if low == high => high,
        (low, high) => format!("{}–{high}", low.trim_end_matches(" %")),
    }
}

/// Lines of cells as aligned columns; the first column is text and stands left, the others stand right.
pub fn table(lines: &[Vec<String>]) -> String {
    let lines = &in_lines(lines);
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(|column| column_width(lines, column)).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// How a table becomes narrower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Leaves out the column with this heading.
    LeaveOut(&'static str),
    /// Shortens the cells of the column with this heading in their middle, to this many characters at least.
    Shorten(&'static str, usize),
}

/// A table within a width: the first line holds the headings, and the steps are taken in turn until the lines fit.
pub fn table_within(lines: &[Vec<String>], width_chars: usize, fit: &[Fit]) -> String {
    let mut lines = in_lines(lines);
    for step in fit {
        let too_wide = table_width(&lines).saturating_sub(width_chars);
        let place = |heading: &str| lines.first().and_then(|line| line.iter().position(|cell| cell == heading));
        match *step {
            _ if too_wide == 0 => break,
            Fit::LeaveOut(heading) => {
                let Some(column) = place(heading) else { continue };
                lines.iter_mut().filter(|line| column < line.len()).for_each(|line| drop(line.remove(column)));
            }
            Fit::Shorten(heading, least_chars) => {
                let Some(column) = place(heading) else { continue };
                let most_chars = column_width(&lines, column).saturating_sub(too_wide).max(least_chars);
                lines.iter_mut().filter_map(|line| line.get_mut(column)).for_each(|cell| shorten(cell, most_chars));
            }
        }
    }
    table(&lines)
}

/// Cells that stay in their lines, whatever they hold: names come from anywhere.
fn in_lines(lines: &[Vec<String>]) -> Vec<Vec<String>> {
    let in_line = |line: &Vec<String>| line.iter().map(|cell| visible_in_line(cell).into_owned()).collect();
    lines.iter().map(in_line).collect()
}

fn column_width(lines: &[Vec<String>], column: usize) -> usize {
    lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
}

fn table_width(lines: &[Vec<String>]) -> usize {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    (0..columns).map(|column| column_width(lines, column)).sum::<usize>() + 2 * columns.saturating_sub(1)
}

/// The same for a text of its own.
pub(super) fn shortened(text: &str, most_chars: usize) -> String {
    let mut text = text.to_owned();
    shorten(&mut text, most_chars);
    text
}

/// Replaces the middle of a text by `…`: names often differ at their ends.
fn shorten(text: &mut String, most_chars: usize) {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() > most_chars && most_chars > 0 {
        let kept = most_chars - 1;
        let (head, tail) = (kept.div_ceil(2), kept / 2);
        *text = letters[..head].iter().chain(&['…']).chain(&letters[letters.len() - tail..]).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_gives_way_in_the_order_that_it_is_told() {
        let cells = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let lines = [cells("name size kind"), cells("abcdefghijkl 10 text")];
        let fit = [Fit::Shorten("name", 7), Fit::LeaveOut("size")];
        assert_eq!(table_within(&lines, 100, &fit), table(&lines));
        assert_eq!(table_within(&lines, 20, &fit), "name      size  kind\nabcd…jkl    10  text\n");
        assert_eq!(table_within(&lines, 13, &fit), "name     kind\nabc…jkl  text\n");
    }

    #[test]
    fn counts_go_with_their_nouns() {
        assert_eq!((counted(1, "file"), counted(1_500, "run")), ("1 file".to_owned(), "1,500 runs".to_owned()));
        assert_eq!([1, 2].map(|value| counted(value, "access")), ["1 access", "2 accesses"]);
        assert_eq!([1, 0].map(|value| counted(value, "batch")), ["1 batch", "0 batches"]);
        assert_eq!(totals(&[(3, "ok"), (0, "damaged"), (1, "unfinished")]), "3 ok, 1 unfinished");
    }

    #[test]
    fn a_name_with_a_line_break_stays_in_its_line() {
        let lines = [vec!["a".to_owned(), "10".to_owned()], vec!["b\nc".to_owned(), "9".to_owned()]];
        assert_eq!(table(&lines), "a        10\nb\\u{a}c   9\n");
    }

    #[test]
    fn columns_line_up() {
        let lines = [vec!["a".to_owned(), "10".to_owned()], vec!["long".to_owned(), "9".to_owned()]];
        assert_eq!(table(&lines), "a     10\nlong   9\n");
    }
}
