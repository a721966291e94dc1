//! Counts and tables as text, in one place.

use super::count;

/// A count with its noun: `1 file`, `15 files`.
pub fn counted(value: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(value), if value == 1 { "" } else { "s" })
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

/// Lines of cells as aligned columns; the first column is text and stands left, the others stand right.
pub fn table(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_with_their_nouns() {
        assert_eq!((counted(1, "file"), counted(1_500, "run")), ("1 file".to_owned(), "1,500 runs".to_owned()));
        assert_eq!(totals(&[(3, "ok"), (0, "damaged"), (1, "unfinished")]), "3 ok, 1 unfinished");
    }

    #[test]
    fn columns_line_up() {
        let lines = [vec!["a".to_owned(), "10".to_owned()], vec!["long".to_owned(), "9".to_owned()]];
        assert_eq!(table(&lines), "a     10\nlong   9\n");
    }
}
