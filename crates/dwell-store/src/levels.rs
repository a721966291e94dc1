//! Which rows of a column have a value.

use arrow_buffer::NullBuffer;

use crate::hybrid;
use crate::pages::PAGE_ROWS;

/// Runs of rows with and without a value: most columns have all or none.
#[derive(Default)]
pub(crate) struct Levels {
    runs: Vec<(usize, bool)>,
    rows: usize,
    missing: usize,
}

/// The rows of one page.
pub(crate) struct PageLevels {
    runs: Vec<(usize, bool)>,
    pub(crate) rows: usize,
    /// Rows that have a value.
    pub(crate) present: usize,
}

impl Levels {
    pub(crate) fn missing(&self) -> usize {
        self.missing
    }

    /// Adds rows of which these are missing.
    pub(crate) fn push(&mut self, rows: usize, nulls: Option<&NullBuffer>) {
        let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return self.push_run(rows, true) };
        let mut at = 0;
        for (begin, end) in nulls.valid_slices() {
            self.push_run(begin - at, false);
            self.push_run(end - begin, true);
            at = end;
        }
        self.push_run(rows - at, false);
    }

    fn push_run(&mut self, rows: usize, is_there: bool) {
        match self.runs.last_mut() {
            _ if rows == 0 => return,
            Some((last, was_there)) if *was_there == is_there => *last += rows,
            _ => self.runs.push((rows, is_there)),
        }
        self.rows += rows;
        self.missing += if is_there { 0 } else { rows };
    }

    /// The rows of each page; there are none afterwards.
    pub(crate) fn take_pages(&mut self) -> Vec<PageLevels> {
        let mut pages: Vec<PageLevels> = Vec::new();
        for (mut rows, is_there) in std::mem::take(self).runs {
            while rows > 0 {
                if pages.last().is_none_or(|page| page.rows == PAGE_ROWS) {
                    pages.push(PageLevels { runs: Vec::new(), rows: 0, present: 0 });
                }
                let Some(page) = pages.last_mut() else { break };
                let taken = rows.min(PAGE_ROWS - page.rows);
                page.runs.push((taken, is_there));
                page.rows += taken;
                page.present += if is_there { taken } else { 0 };
                rows -= taken;
            }
        }
        pages
    }
}

impl PageLevels {
    /// Appends a 1 for each row with a value and a 0 for each without, behind their length in bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&[0; 4]);
        match &self.runs[..] {
            [(rows, is_there)] => hybrid::repeat(u32::from(*is_there), *rows, 1, out),
            runs => {
                let each = runs.iter().flat_map(|(rows, is_there)| std::iter::repeat_n(u32::from(*is_there), *rows));
                hybrid::encode(&each.collect::<Vec<_>>(), 1, out);
            }
        }
        let bytes = (out.len() - begin - 4) as u32;
        out[begin..begin + 4].copy_from_slice(&bytes.to_le_bytes());
    }
}
