//! A column of whole numbers in a row group.
//!
//! - A number that is the same in all rows is only counted.
//! - Columns with few distinct numbers get a dictionary ([`Dictionary`]). A column that turns out to have many is written as
//!   they are.
//! - Counters, and addresses in no order, are differences ([`delta`](crate::delta)).

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use parquet::basic::{Compression as Codec, Encoding};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;

use crate::levels::{Levels, PageLevels};
use crate::number_dictionary::Dictionary;
use crate::pages::{PageCodec, Pages};
use crate::places::all_same;
use crate::{delta, hybrid};

/// How numbers of a column follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// Some come again, alone or in the same order.
    Repeats,
    /// They grow, or jump about: differences are smaller than the numbers, and nothing repeats.
    Differs,
}

/// A column on its way. Its dictionary lasts for one row group.
pub(crate) struct NumberColumn {
    description: ColumnDescPtr,
    codec: PageCodec,
    data_type: DataType,
    sequence: Sequence,
    levels: Levels,
    values: Values,
    /// What the row groups before needed for many rows, empty: every other one would ask for as much memory again.
    spare: Spare,
    /// Least and greatest, as [`NumberColumn::rank`] compares them.
    range: Option<(u64, u64)>,
}

/// Memory for the values of a row group.
#[derive(Default)]
struct Spare {
    dictionary: Option<Dictionary>,
    plain: Vec<u8>,
    differences: Vec<u64>,
}

/// The numbers of the rows that have one.
enum Values {
    /// The same in all rows so far.
    Same {
        number: u64,
        rows: usize,
    },
    Few(Dictionary),
    /// As they are in the file.
    Many(Vec<u8>),
    Differences(Vec<u64>),
}

impl NumberColumn {
    /// A column of the file with numbers of this type; none if it is none of whole numbers, or if its pages are compressed
    /// in a way that is not done here. Only numbers of 64 bits can be differences.
    pub(crate) fn new(
        description: ColumnDescPtr,
        codec: Codec,
        data_type: &DataType,
        sequence: Sequence,
    ) -> Option<Self> {
        use DataType::{Int32, Int64, UInt8, UInt16, UInt32, UInt64};
        let codec =
            PageCodec::new(codec).filter(|_| matches!(data_type, Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64))?;
        Some(Self {
            description,
            codec,
            data_type: data_type.clone(),
            sequence,
            levels: Levels::default(),
            values: no_values(sequence, &mut Spare::default()),
            spare: Spare::default(),
            range: None,
        })
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

    fn write_as<T: ArrowPrimitiveType>(
        &mut self,
        column: &ArrayRef,
        bits_of: impl Fn(T::Native) -> u64 + Copy,
    ) -> Result<()> {
        let column = column.as_primitive_opt::<T>().ok_or_else(|| unfit("its numbers are of another type"))?;
        let numbers = column.values();
        self.levels.push(numbers.len(), column.nulls());
        match column.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => self.push_all(numbers, bits_of),
            Some(nulls) => nulls.valid_slices().for_each(|(begin, end)| self.push_all(&numbers[begin..end], bits_of)),
        }
        Ok(())
    }

    fn push_all<N: Copy + PartialEq>(&mut self, numbers: &[N], bits_of: impl Fn(N) -> u64 + Copy) {
        let Some(&first) = numbers.first() else { return };
        let known = match self.values {
            Values::Same { number, rows } if rows > 0 => number,
            _ => bits_of(first),
        };
        let is_same = matches!(self.values, Values::Same { .. }) && known == bits_of(first) && all_same(numbers);
        self.widen_range(if is_same { &numbers[..1] } else { numbers }, bits_of);
        match &mut self.values {
            Values::Same { number, rows } if is_same => (*number, *rows) = (known, *rows + numbers.len()),
            Values::Differences(all) => all.extend(numbers.iter().map(|number| bits_of(*number))),
            _ => self.push_each(numbers, bits_of),
        }
    }

    fn widen_range<N: Copy>(&mut self, numbers: &[N], bits_of: impl Fn(N) -> u64) {
        let flip = self.rank(0);
        let ranks = numbers.iter().map(|number| bits_of(*number) ^ flip);
        let found = ranks.fold((u64::MAX, 0), |(least, greatest), rank| (least.min(rank), greatest.max(rank)));
        let known = self.range.unwrap_or(found);
        self.range = Some((known.0.min(found.0), known.1.max(found.1)));
    }

    fn push_each<N: Copy>(&mut self, numbers: &[N], bits_of: impl Fn(N) -> u64) {
        let taken = self.dictionary().map_or(0, |dictionary| dictionary.push_all(numbers, &bits_of));
        if taken < numbers.len() {
            let width = self.width();
            let plain = self.plain();
            plain.reserve((numbers.len() - taken) * width);
            numbers[taken..].iter().for_each(|number| put_plain(bits_of(*number), width, plain));
        }
    }

    /// The dictionary, from now on if all numbers were the same; none if there are too many.
    fn dictionary(&mut self) -> Option<&mut Dictionary> {
        if let Values::Same { number, rows } = self.values {
            let mut dictionary = self.spare.dictionary.take().unwrap_or_default();
            dictionary.repeat(number, rows);
            self.values = Values::Few(dictionary);
        }
        match &mut self.values {
            Values::Few(dictionary) => Some(dictionary),
            _ => None,
        }
    }

    /// The numbers as they are, from now on.
    fn plain(&mut self) -> &mut Vec<u8> {
        let width = self.width();
        if let Values::Few(dictionary) = &self.values {
            let mut plain = std::mem::take(&mut self.spare.plain);
            plain.reserve(dictionary.rows().len() * width);
            dictionary.each().for_each(|number| put_plain(number, width, &mut plain));
            let few = std::mem::replace(&mut self.values, Values::Many(plain));
            self.spare.keep(few);
        }
        match &mut self.values {
            Values::Many(plain) => plain,
            _ => unreachable!("numbers that are not few are many, and others were replaced above"),
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
            Values::Same { .. } => self.width(),
            Values::Few(dictionary) => dictionary.encoded_bytes(),
            Values::Many(plain) => plain.len(),
            Values::Differences(all) => all.len() * self.width(),
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
        if let Some(numbers) = self.values.distinct() {
            let mut plain = Vec::with_capacity(numbers.len() * width);
            numbers.iter().for_each(|number| put_plain(*number, width, &mut plain));
            pages.put_dictionary(&plain, numbers.len())?;
        }
        let encoding = self.values.encoding();
        let (mut page_bytes, mut begin) = (Vec::new(), 0);
        for page in self.levels.take_pages() {
            page_bytes.clear();
            if has_levels {
                page.encode(&mut page_bytes);
            }
            self.values.encode(begin, &page, width, &mut page_bytes);
            pages.put_data(&page_bytes, page.rows, encoding)?;
            begin += page.present;
        }
        let closed = pages.close(&self.description, encoding, Some(statistics))?;
        let written = std::mem::replace(&mut self.values, Values::Same { number: 0, rows: 0 });
        self.spare.keep(written);
        (self.range, self.values) = (None, no_values(self.sequence, &mut self.spare));
        Ok(closed)
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

fn no_values(sequence: Sequence, spare: &mut Spare) -> Values {
    match sequence {
        Sequence::Repeats => Values::Same { number: 0, rows: 0 },
        Sequence::Differs => Values::Differences(std::mem::take(&mut spare.differences)),
    }
}

impl Spare {
    /// Keeps the memory of values, and forgets the values.
    fn keep(&mut self, values: Values) {
        match values {
            Values::Same { .. } => {}
            Values::Few(mut dictionary) => {
                dictionary.clear();
                self.dictionary = Some(dictionary);
            }
            Values::Many(mut plain) => {
                plain.clear();
                self.plain = plain;
            }
            Values::Differences(mut all) => {
                all.clear();
                self.differences = all;
            }
        }
    }
}

impl Values {
    fn encoding(&self) -> Encoding {
        match self {
            Self::Same { .. } | Self::Few(_) => Encoding::RLE_DICTIONARY,
            Self::Many(_) => Encoding::PLAIN,
            Self::Differences(_) => Encoding::DELTA_BINARY_PACKED,
        }
    }

    /// The numbers of the dictionary, if there is one.
    fn distinct(&self) -> Option<&[u64]> {
        match self {
            Self::Same { rows: 0, .. } => Some(&[]),
            Self::Same { number, .. } => Some(std::slice::from_ref(number)),
            Self::Few(dictionary) => Some(dictionary.numbers()),
            Self::Many(_) | Self::Differences(_) => None,
        }
    }

    /// Appends the numbers of a page, which begin at one of those that are there.
    fn encode(&self, begin: usize, page: &PageLevels, width: usize, out: &mut Vec<u8>) {
        let end = begin + page.present;
        match self {
            Self::Same { .. } => {
                out.push(0);
                if page.present > 0 {
                    hybrid::repeat(0, page.present, 0, out);
                }
            }
            Self::Few(dictionary) => {
                out.push(dictionary.bits() as u8);
                hybrid::encode(&dictionary.rows()[begin..end], dictionary.bits(), out);
            }
            Self::Many(plain) => out.extend_from_slice(&plain[begin * width..end * width]),
            Self::Differences(all) => delta::encode(&all[begin..end], out),
        }
    }
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
