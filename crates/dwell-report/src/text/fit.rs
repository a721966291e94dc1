//! Text that fits a terminal: long lines are wrapped, tables that are too wide are continued below.

use std::ops::Range;

use super::wrapped;

/// Spaces between two columns of a table, at least.
const GAP_CHARS: usize = 2;
/// Columns that a line of a table has, at least. A name and its value are no table.
const LEAST_COLUMNS: usize = 3;

/// The text with no line wider than this, as far as words allow.
pub fn fitted(text: &str, width_chars: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut fitted = String::with_capacity(text.len());
    for block in lines.chunk_by(|one, other| is_of_table(one) && is_of_table(other)) {
        let is_too_wide = block.iter().any(|line| chars(line) > width_chars);
        match Columns::of(block).filter(|columns| !columns.ends_with_prose(width_chars)) {
            _ if !is_too_wide => block.iter().for_each(|line| push_line(&mut fitted, line)),
            Some(columns) if block.len() > 1 => columns.push(&mut fitted, width_chars),
            _ => block.iter().for_each(|line| push_wrapped(&mut fitted, line, width_chars)),
        }
    }
    fitted
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

fn is_of_table(line: &str) -> bool {
    line.trim().split("  ").filter(|cell| !cell.is_empty()).count() >= LEAST_COLUMNS
}

/// Words below the place where the last column of the line begins: behind its name, if it has one.
fn push_wrapped(text: &mut String, line: &str, width_chars: usize) {
    let letters: Vec<char> = line.chars().collect();
    if letters.len() <= width_chars {
        return push_line(text, line);
    }
    let is_start = |&place: &usize| letters[place] != ' ' && letters[..place].ends_with(&[' '; GAP_CHARS]);
    let first = letters.iter().take_while(|letter| **letter == ' ').count();
    let indent = (0..letters.len().min(width_chars / 2)).rfind(is_start).unwrap_or(first);
    let (head, rest): (String, String) = (letters[..indent].iter().collect(), letters[indent..].iter().collect());
    for (number, words) in wrapped(&rest, width_chars.saturating_sub(indent).max(1)).iter().enumerate() {
        let before = if number == 0 { head.clone() } else { " ".repeat(indent) };
        push_line(text, &format!("{before}{words}"));
    }
}

/// The lines of a table, and where its columns lie: between places that are blank in every line.
struct Columns {
    lines: Vec<Vec<char>>,
    places: Vec<Range<usize>>,
}

impl Columns {
    /// None if the lines are no table.
    fn of(lines: &[&str]) -> Option<Self> {
        let lines: Vec<Vec<char>> = lines.iter().map(|line| line.chars().collect()).collect();
        let width = lines.iter().map(Vec::len).max()?;
        let is_blank = |place: usize| lines.iter().all(|line| line.get(place).is_none_or(|letter| *letter == ' '));
        let mut places: Vec<Range<usize>> = Vec::new();
        for place in (0..width).filter(|&place| !is_blank(place)) {
            match places.last_mut() {
                Some(column) if place - column.end < GAP_CHARS => column.end = place + 1,
                _ => places.push(place..place + 1),
            }
        }
        (places.len() >= LEAST_COLUMNS).then_some(Self { lines, places })
    }

    /// Whether the last column holds sentences, which can be wrapped.
    fn ends_with_prose(&self, width_chars: usize) -> bool {
        self.places.last().is_some_and(|column| column.len() > width_chars / 2)
    }

    /// As many columns beside each other as fit, and one at least; the first, which names the rows, is repeated.
    fn push(&self, text: &mut String, width_chars: usize) {
        let Some((names, mut rest)) = self.places.split_first() else { return };
        while !rest.is_empty() {
            let mut width = names.end;
            let fits = |column: &&Range<usize>| {
                width += GAP_CHARS + column.len();
                width <= width_chars
            };
            let (shown, left) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            self.lines.iter().for_each(|line| push_line(text, &cells(line, names, shown)));
            if !left.is_empty() {
                text.push('\n');
            }
            rest = left;
        }
    }
}

/// Some columns of a line, beside the name of its row.
fn cells(line: &[char], names: &Range<usize>, shown: &[Range<usize>]) -> String {
    let cell =
        |column: Range<usize>| -> String { column.map(|place| line.get(place).copied().unwrap_or(' ')).collect() };
    let columns = std::iter::once(0..names.end).chain(shown.iter().cloned());
    columns.map(cell).collect::<Vec<_>>().join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_table_goes_on_below_with_the_names_of_its_rows() {
        let text =
            "region     size    read  life p50\nweight  92.1 MB  11.5 G    1.17 s\nkv         3 MB  240 MB         –\n";
        assert_eq!(fitted(text, 80), text);
        let narrow = "region     size    read\nweight  92.1 MB  11.5 G\nkv         3 MB  240 MB\n\n\
                      region  life p50\nweight    1.17 s\nkv             –\n";
        assert_eq!(fitted(text, 24), narrow);
    }

    #[test]
    fn a_long_value_stays_beside_its_name() {
        let text = "memory    179 MiB PSS: weights (mapped) 92.1 MiB, KV cache 45.0 MiB\nlost      nothing\n";
        let narrow = "memory    179 MiB PSS: weights\n          (mapped) 92.1 MiB,\n          KV cache 45.0 MiB\nlost      nothing\n";
        assert_eq!(fitted(text, 30), narrow);
        let probes = "  psi      works  stalls of cpu were read\n  preload  no     it is not there\n";
        let narrow =
            "  psi      works  stalls of cpu were\n                  read\n  preload  no     it is not there\n";
        assert_eq!(fitted(probes, 40), narrow);
        assert_eq!(fitted("a/path/that/has/no/blank\n", 10), "a/path/that/has/no/blank\n");
    }
}
