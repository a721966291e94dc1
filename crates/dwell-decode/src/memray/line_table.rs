//! Lines of Python code: from an instruction of a code object to the line that it was compiled from.
//!
//! A capture has the line table of each code object as the interpreter had it, so its form depends on the version of
//! Python: `co_linetable` as of 3.11, that of 3.10, or `co_lnotab` before.

const PYTHON_3_10: u32 = 0x030a_0000;
const PYTHON_3_11: u32 = 0x030b_0000;

/// The line of an instruction; none if the table does not say.
pub(super) fn line_of(python_version: u32, table: &[u8], first_line: i64, instruction: i64) -> Option<u32> {
    let instruction = u64::try_from(instruction).ok()?;
    let line = match python_version {
        PYTHON_3_11.. => line_of_entry(TableBytes(table), first_line, instruction / 2)?,
        PYTHON_3_10.. => line_of_pair(table, first_line, instruction.checked_mul(2)?, true),
        _ => line_of_pair(table, first_line, instruction, false),
    };
    u32::try_from(line).ok().filter(|line| *line > 0)
}

/// `co_linetable` of Python 3.11 and later: entries of several bytes, each for one to eight code units.
fn line_of_entry(mut table: TableBytes<'_>, first_line: i64, code_unit: u64) -> Option<i64> {
    let (mut line, mut unit) = (first_line, 0);
    loop {
        let head = table.byte()?;
        let form = (head >> 3) & 15;
        line += table.line_step(form)?;
        unit += u64::from(head & 7) + 1;
        if code_unit < unit {
            return (form != NO_LOCATION).then_some(line);
        }
    }
}

/// Form of an entry for code that belongs to no line.
const NO_LOCATION: u8 = 15;

/// The rest of a table.
struct TableBytes<'a>(&'a [u8]);

impl TableBytes<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Six bits a byte, the lowest first; the bit above says that more follow.
    fn varint(&mut self) -> Option<i64> {
        let mut value = 0;
        for shift in (0..60).step_by(6) {
            let byte = self.byte()?;
            value |= i64::from(byte & 63) << shift;
            if byte & 64 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some(if value & 1 == 0 { value >> 1 } else { -(value >> 1) })
    }

    /// How many lines an entry of this form is behind the one before; takes its columns, too.
    fn line_step(&mut self, form: u8) -> Option<i64> {
        match form {
            NO_LOCATION => Some(0),
            14 => {
                let step = self.signed()?;
                (0..3).try_for_each(|_| self.varint().map(drop))?;
                Some(step)
            }
            13 => self.signed(),
            10..=12 => {
                (0..2).try_for_each(|_| self.byte().map(drop))?;
                Some(i64::from(form) - 10)
            }
            _ => self.byte().map(|_| 0),
        }
    }
}

/// Pairs of a step in the code and a step in the lines. A pair of 3.10 ends a range of code that has the line, where −128
/// stands for none; one before begins the next range.
fn line_of_pair(table: &[u8], first_line: i64, instruction: u64, is_3_10: bool) -> i64 {
    let (mut line, mut at) = (first_line, 0_u64);
    for pair in table.chunks_exact(2) {
        at += u64::from(pair[0]);
        let (is_behind, step) = (at > instruction, i64::from(pair[1] as i8));
        if is_behind && !is_3_10 {
            break;
        }
        line += if is_3_10 && step == -128 { 0 } else { step };
        if is_behind {
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `co_linetable` of this function in Python 3.11, and what `co_lines` says of it.
    ///
    /// ```python
    /// def f(x):
    ///     y = [0] * x
    ///
    ///     return (y,
    ///             bytearray(x))
    /// ```
    #[test]
    fn lines_are_those_of_the_interpreter() {
        let table = [
            0x80, 0x00, 0xd8, 0x09, 0x0a, 0x88, 0x03, 0x88, 0x61, 0x89, 0x07, 0x80, 0x41, 0xe0, 0x0c, 0x0d, 0xdd, 0x0c,
            0x15, 0x90, 0x61, 0x89, 0x4c, 0x8c, 0x4c, 0xf0, 0x03, 0x01, 0x0c, 0x1a, 0xf0, 0x00, 0x01, 0x05, 0x1a,
        ];
        let lines = [(0, 1), (2, 2), (12, 2), (14, 4), (16, 5), (26, 5), (42, 5), (44, 4), (46, 4)];
        for (instruction, line) in lines {
            assert_eq!(line_of(0x030b_07f0, &table, 1, instruction), Some(line), "{instruction}");
        }
        assert_eq!(line_of(0x030b_07f0, &table, 1, 1000), None);
        assert_eq!(line_of(0x030b_07f0, &table, 1, -1), None);
    }

    #[test]
    fn lines_of_older_interpreters_are_found() {
        // Six bytes of code in line 10, four without a line, two in line 13.
        let table_3_10 = [6, 0, 4, 128, 2, 3];
        let line = |instruction| line_of(PYTHON_3_10, &table_3_10, 10, instruction);
        assert_eq!([line(0), line(2), line(5)], [Some(10), Some(10), Some(13)]);
        // Six bytes in line 10, the rest in line 12.
        let line = |instruction| line_of(0x0309_0000, &[6, 2], 10, instruction);
        assert_eq!([line(0), line(5), line(6), line(90)], [Some(10), Some(10), Some(12), Some(12)]);
    }

    #[test]
    fn a_table_that_ends_too_early_or_never_gives_no_line() {
        assert_eq!(line_of(PYTHON_3_11, &[0xf0, 0xff], 1, 0), None);
        assert_eq!(line_of(PYTHON_3_11, &[0xff; 40], 1, 0), None);
        assert_eq!(line_of(PYTHON_3_11, &[], 1, 0), None);
        assert_eq!(line_of(PYTHON_3_10, &[1], 0, 0), None);
    }
}
