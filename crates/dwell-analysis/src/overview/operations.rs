//! Bytes by operation.

use super::Operation;
use crate::AnalysisError;

/// Number of an operation among those that were seen.
pub(crate) type SymbolIndex = u16;

/// Operations that are told apart while rows come; samples have one for every function of a program.
const MOST_SYMBOLS: usize = 4096;

/// Operations that are listed.
const MOST_LISTED: usize = 64;

/// What every operation accessed.
#[derive(Clone, Debug)]
pub(crate) struct Operations {
    /// The first stands for all that are not told apart, and for rows without one.
    seen: Vec<Operation>,
    /// The one that was asked for last: rows mostly repeat a few.
    numbers: rustc_hash::FxHashMap<String, SymbolIndex>,
}

impl Default for Operations {
    fn default() -> Self {
        Self { seen: vec![Operation::default()], numbers: rustc_hash::FxHashMap::default() }
    }
}

impl Operations {
    /// Number of the operation that a row names.
    pub(crate) fn intern(&mut self, symbol: Option<&str>) -> Result<SymbolIndex, AnalysisError> {
        let Some(symbol) = symbol.filter(|symbol| !symbol.is_empty()) else { return Ok(0) };
        if let Some(&known) = self.numbers.get(symbol) {
            return Ok(known);
        }
        if self.seen.len() >= MOST_SYMBOLS {
            return Ok(0);
        }
        let number = self.seen.len() as SymbolIndex;
        self.numbers.insert(symbol.to_owned(), number);
        self.seen.push(Operation { symbol: symbol.to_owned(), ..Operation::default() });
        Ok(number)
    }

    /// Counts a row: 0 for a load, 1 for a store.
    #[inline]
    pub(crate) fn add(&mut self, symbol: SymbolIndex, direction: usize, bytes: u64) {
        let operation = &mut self.seen[usize::from(symbol)];
        operation.rows += 1;
        let sum = if direction == 0 { &mut operation.read_bytes } else { &mut operation.written_bytes };
        *sum = sum.saturating_add(bytes);
    }

    /// The operations with the most bytes, and the others as one.
    pub(crate) fn into_listed(self) -> Vec<Operation> {
        let mut listed: Vec<Operation> = self.seen.into_iter().filter(|operation| operation.rows > 0).collect();
        let bytes = |operation: &Operation| operation.read_bytes.saturating_add(operation.written_bytes);
        listed.sort_by(|left, right| bytes(right).cmp(&bytes(left)).then_with(|| left.symbol.cmp(&right.symbol)));
        let mut others = Operation::default();
        let is_kept = |place: usize, operation: &Operation| place < MOST_LISTED && !operation.symbol.is_empty();
        let mut place = 0;
        listed.retain(|operation| {
            let keeps = is_kept(place, operation);
            place += 1;
            if !keeps {
                others.rows += operation.rows;
                others.read_bytes = others.read_bytes.saturating_add(operation.read_bytes);
                others.written_bytes = others.written_bytes.saturating_add(operation.written_bytes);
            }
            keeps
        });
        listed.extend((others.rows > 0).then_some(others));
        listed
    }
}
