//! A column of whole numbers in a row group.
//!
//! Columns with few distinct numbers get a dictionary, and the places in it have 8 or 16 bits, more than they need: the
//! compression that follows then has a fraction of the bytes to look at, and still finds what repeats, which packing into
//! odd widths would hide from it. A column that turns out to have many numbers is written as they are.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use parquet::basic::{Compression as Codec, Encoding};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;

use crate::hybrid;
use crate::levels::Levels;
use crate::pages::{PageCodec, Pages};

/// Distinct numbers of a dictionary at most: their table stays in a core's own cache.
const DISTINCT_MAX: usize = 1 << 14;
/// While there are fewer rows for each distinct number than this, a dictionary would not make the column smaller.
const ROWS_PER_DISTINCT: usize = 4;
/// Distinct numbers that are not held against a column.
const DISTINCT_AT_FIRST: usize = 1 << 10;

/// A column on its way. Its dictionary lasts for one row group.
pub(crate) struct NumberColumn {
    description: ColumnDescPtr,
    codec: PageCodec,
    data_type: DataType,
    levels: Levels,
    values: Values,
    /// Least and greatest, as [`NumberColumn::rank`] compares them.
    range: Option<(u64, u64)>,
}

/// The numbers of the rows that have one.
enum Values {
    Few(Dictionary),
    /// As they are in the file.
    Many(Vec<u8>),
}

/// Numbers by place, and the place of each row's.
struct Dictionary {
    numbers: Vec<u64>,
    /// Open addressing; 0 for an empty slot, else the place plus 1.
    slots: Vec<u32>,
    rows: Vec<u32>,
}

impl Default for Dictionary {
    fn default() -> Self {
        Self { numbers: Vec::new(), slots: vec![0; 2 * DISTINCT_MAX], rows: Vec::new() }
    }
}

impl Dictionary {
    /// Place of a number; none if the column has too many.
    #[inline]
    fn place_of(&mut self, number: u64) -> Option<u32> {
        // The golden ratio spreads numbers that differ in few bits.
        let mut slot = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 49) as usize % self.slots.len();
        loop {
            match self.slots[slot] {
                0 => return self.add(number, slot),
                place if self.numbers[place as usize - 1] == number => return Some(place - 1),
                _ => slot = (slot + 1) % self.slots.len(),
            }
        }
    }

    #[cold]
    fn add(&mut self, number: u64, slot: usize) -> Option<u32> {
        let distinct = self.numbers.len() + 1;
        if distinct > DISTINCT_MAX || distinct > DISTINCT_AT_FIRST.max(self.rows.len() / ROWS_PER_DISTINCT) {
            return None;
        }
        self.numbers.push(number);
        self.slots[slot] = distinct as u32;
        Some(distinct as u32 - 1)
    }

    /// Bits of a place, in whole bytes.
    fn bits(&self) -> u32 {
        hybrid::bits_of(self.numbers.len()).next_multiple_of(8)
    }

    fn clear(&mut self) {
        self.numbers.clear();
        self.rows.clear();
        self.slots.fill(0);
    }
}

impl NumberColumn {
    /// A column of the file with numbers of this type; none if it is none of whole numbers, or if its pages are compressed
    /// in a way that is not done here.
    pub(crate) fn new(description: ColumnDescPtr, codec: Codec, data_type: &DataType) -> Option<Self> {
        use DataType::{Int32, Int64, UInt8, UInt16, UInt32, UInt64};
        let codec =
            PageCodec::new(codec).filter(|_| matches!(data_type, Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64))?;
        let values = Values::Few(Dictionary::default());
        Some(Self { description, codec, data_type: data_type.clone(), levels: Levels::default(), values, range: None })
    }

    /// Adds the rows of a batch.
    pub(crate) fn write(&mut self, column: &ArrayRef) -> Result<()> {
        match &self.data_type {
            DataType::Int32 => self.write_as::<Int32Type>(column, |number| i64::from(number) as u64),
            DataType::Int64 => self.write_as::<Int64Type>(column, |number| number as u64),
            DataType::UInt8 => self.write_as::<UInt8Type>(column, u64::from),
            DataType::UInt16 => self.write_as::<UInt16Type>(column, u64::from),
            DataType::UInt32 => self.write_as::<UInt32Type>(column, u64::from),
            _ => self.write_as::<UInt64Type>(column, |number| number),
        }
    }

    fn write_as<T: ArrowPrimitiveType>(&mut self, column: &ArrayRef, bits_of: fn(T::Native) -> u64) -> Result<()> {
        let column = column.as_primitive_opt::<T>().ok_or_else(|| unfit("its numbers are of another type"))?;
        let numbers = column.values();
        self.levels.push(numbers.len(), column.nulls());
        match column.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => self.push_all(numbers, bits_of),
            Some(nulls) => nulls.valid_slices().for_each(|(begin, end)| self.push_all(&numbers[begin..end], bits_of)),
        }
        Ok(())
    }

    fn push_all<N: Copy>(&mut self, numbers: &[N], bits_of: fn(N) -> u64) {
        let Some(&first) = numbers.first() else { return };
        let ranks = numbers.iter().map(|number| self.rank(bits_of(*number)));
        let first = self.rank(bits_of(first));
        let (least, greatest) =
            ranks.fold((first, first), |(least, greatest), rank| (least.min(rank), greatest.max(rank)));
        let (known_least, known_greatest) = self.range.unwrap_or((least, greatest));
        self.range = Some((known_least.min(least), known_greatest.max(greatest)));
        let width = self.width();
        let taken = match &mut self.values {
            Values::Few(dictionary) => push_few(dictionary, numbers, bits_of),
            Values::Many(_) => 0,
        };
        if taken < numbers.len() {
            let plain = self.plain();
            plain.reserve((numbers.len() - taken) * width);
            numbers[taken..].iter().for_each(|number| put_plain(bits_of(*number), width, plain));
        }
    }

    /// The numbers as they are, from now on.
    fn plain(&mut self) -> &mut Vec<u8> {
        let width = self.width();
        if let Values::Few(dictionary) = &self.values {
            let mut plain = Vec::with_capacity(dictionary.rows.len() * width);
            let numbers = dictionary.rows.iter().map(|place| dictionary.numbers[*place as usize]);
            numbers.for_each(|number| put_plain(number, width, &mut plain));
            self.values = Values::Many(plain);
        }
        match &mut self.values {
            Values::Many(plain) => plain,
            Values::Few(_) => unreachable!("it was replaced above"),
        }
    }

    /// Bytes of a number in the file.
    fn width(&self) -> usize {
        if matches!(self.data_type, DataType::Int64 | DataType::UInt64) { 8 } else { 4 }
    }

    /// Numbers in the order of their values, as unsigned ones.
    #[inline]
    fn rank(&self, bits: u64) -> u64 {
        let is_signed = matches!(self.data_type, DataType::Int32 | DataType::Int64);
        if is_signed { bits ^ (1 << 63) } else { bits }
    }

    /// Bytes that the row group would have so far, before compression.
    pub(crate) fn encoded_bytes(&self) -> usize {
        match &self.values {
            Values::Few(dictionary) => {
                8 * dictionary.numbers.len() + dictionary.rows.len() * dictionary.bits() as usize / 8
            }
            Values::Many(plain) => plain.len(),
        }
    }

    /// Pages of the row group and what is to be said about them; the column is empty afterwards.
    pub(crate) fn close(&mut self) -> Result<(Vec<u8>, ColumnCloseResult)> {
        if self.description.max_def_level() == 0 && self.levels.missing() > 0 {
            return Err(unfit("a row has no number, and each needs one"));
        }
        let statistics = self.statistics();
        let (width, has_levels) = (self.width(), self.description.max_def_level() > 0);
        let mut pages = Pages::new(&mut self.codec);
        let encoding = match &self.values {
            Values::Few(dictionary) => {
                let mut plain = Vec::with_capacity(dictionary.numbers.len() * width);
                dictionary.numbers.iter().for_each(|number| put_plain(*number, width, &mut plain));
                pages.put_dictionary(&plain, dictionary.numbers.len())?;
                Encoding::RLE_DICTIONARY
            }
            Values::Many(_) => Encoding::PLAIN,
        };
        let (mut page_bytes, mut begin) = (Vec::new(), 0);
        for page in self.levels.take_pages() {
            page_bytes.clear();
            if has_levels {
                page.encode(&mut page_bytes);
            }
            let end = begin + page.present;
            match &self.values {
                Values::Few(dictionary) => {
                    page_bytes.push(dictionary.bits() as u8);
                    hybrid::encode(&dictionary.rows[begin..end], dictionary.bits(), &mut page_bytes);
                }
                Values::Many(plain) => page_bytes.extend_from_slice(&plain[begin * width..end * width]),
            }
            pages.put_data(&page_bytes, page.rows, encoding)?;
            begin = end;
        }
        let closed = pages.close(&self.description, encoding, Some(statistics))?;
        self.reset();
        Ok(closed)
    }

    fn reset(&mut self) {
        self.range = None;
        match &mut self.values {
            Values::Few(dictionary) => dictionary.clear(),
            Values::Many(_) => self.values = Values::Few(Dictionary::default()),
        }
    }

    fn statistics(&self) -> Statistics {
        let missing = Some(self.levels.missing() as u64);
        let bits = |rank: u64| self.rank(rank);
        let (least, greatest) = (self.range.map(|range| bits(range.0)), self.range.map(|range| bits(range.1)));
        match self.width() {
            8 => {
                Statistics::int64(least.map(|bits| bits as i64), greatest.map(|bits| bits as i64), None, missing, false)
            }
            _ => {
                Statistics::int32(least.map(|bits| bits as i32), greatest.map(|bits| bits as i32), None, missing, false)
            }
        }
    }
}

/// Takes numbers until there are too many distinct ones; how many it took.
fn push_few<N: Copy>(dictionary: &mut Dictionary, numbers: &[N], bits_of: fn(N) -> u64) -> usize {
    dictionary.rows.reserve(numbers.len());
    let mut last: Option<(u64, u32)> = None;
    for (taken, number) in numbers.iter().enumerate() {
        let number = bits_of(*number);
        let place = match last {
            Some((known, place)) if known == number => place,
            _ => match dictionary.place_of(number) {
                Some(place) => place,
                None => return taken,
            },
        };
        dictionary.rows.push(place);
        last = Some((number, place));
    }
    numbers.len()
}

#[inline]
fn put_plain(number: u64, width: usize, out: &mut Vec<u8>) {
    match width {
        8 => out.extend_from_slice(&number.to_le_bytes()),
        _ => out.extend_from_slice(&(number as u32).to_le_bytes()),
    }
}

fn unfit(reason: &str) -> ParquetError {
    ParquetError::General(reason.to_owned())
}
