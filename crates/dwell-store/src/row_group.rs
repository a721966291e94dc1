//! One row group of a table while it is filled, column by column.

use std::io::Write;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_schema::{DataType, SchemaRef};
use bytes::Bytes;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::Compression as Codec;
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};

use crate::number_column::{NumberColumn, Sequence};
use crate::table_layout::{is_address, is_counter, is_time};
use crate::text_column::TextColumn;

/// The columns of the row group that is being filled.
pub(crate) struct RowGroup {
    factory: ArrowRowGroupWriterFactory,
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
    /// Row groups before this one.
    written: usize,
}

/// A field of the schema.
enum Column {
    /// Text with a dictionary, kept from row group to row group.
    Text(Box<TextColumn>),
    /// Whole numbers, kept likewise.
    Numbers(Box<NumberColumn>),
    /// Anything else: one writer for each column of the file that it has. They last for one row group.
    Other { first: usize, leaves: usize, writers: Vec<ArrowColumnWriter> },
}

impl RowGroup {
    /// Columns of this schema in that file, whose addresses follow each other so.
    pub(crate) fn new<W: Write + Send>(
        writer: &SerializedFileWriter<W>,
        schema: SchemaRef,
        addresses: Sequence,
    ) -> Self {
        let factory = ArrowRowGroupWriterFactory::new(writer, schema.clone());
        let columns = (0..schema.fields().len()).map(|field| column(writer, &schema, field, addresses)).collect();
        Self { factory, schema, columns, rows: 0, written: 0 }
    }

    /// Rows so far.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes that they take, encoded.
    pub(crate) fn encoded_bytes(&self) -> usize {
        let column_bytes = |column: &Column| match column {
            Column::Text(text) => text.encoded_bytes(),
            Column::Numbers(numbers) => numbers.encoded_bytes(),
            Column::Other { writers, .. } => writers.iter().map(ArrowColumnWriter::get_estimated_total_bytes).sum(),
        };
        self.columns.iter().map(column_bytes).sum()
    }

    /// Adds rows.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.rows == 0 {
            self.begin()?;
        }
        for ((column, field), array) in self.columns.iter_mut().zip(self.schema.fields()).zip(batch.columns()) {
            match column {
                Column::Text(text) => text.write(array.as_dictionary_opt().ok_or_else(another_type)?)?,
                Column::Numbers(numbers) => numbers.write(array)?,
                Column::Other { writers, .. } => {
                    for (writer, leaf) in writers.iter_mut().zip(compute_leaves(field, array)?) {
                        writer.write(&leaf)?;
                    }
                }
            }
        }
        self.rows += batch.num_rows();
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        let mut all: Vec<_> = self.factory.create_column_writers(self.written)?.into_iter().map(Some).collect();
        for column in &mut self.columns {
            if let Column::Other { first, leaves, writers } = column {
                *writers = all[*first..*first + *leaves].iter_mut().filter_map(Option::take).collect();
            }
        }
        Ok(())
    }

    /// Appends the rows to the file. There are none afterwards.
    pub(crate) fn flush<W: Write + Send>(&mut self, writer: &mut SerializedFileWriter<W>) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = writer.next_row_group()?;
        self.columns.iter_mut().try_for_each(|column| append(column, &mut group))?;
        group.close()?;
        (self.rows, self.written) = (0, self.written + 1);
        Ok(())
    }
}

fn column<W: Write + Send>(
    writer: &SerializedFileWriter<W>,
    schema: &SchemaRef,
    field: usize,
    addresses: Sequence,
) -> Column {
    let file = writer.schema_descr();
    let mut places = (0..file.num_columns()).filter(|&leaf| file.get_column_root_idx(leaf) == field);
    let (first, leaves) = (places.clone().next().unwrap_or(0), places.by_ref().count());
    let field = schema.field(field);
    let other = Column::Other { first, leaves, writers: Vec::new() };
    if leaves != 1 {
        return other;
    }
    let description = file.column(first);
    // Of samples they jump about: compressing the differences takes as long as making them, and saves a fortieth.
    let is_incompressible = addresses == Sequence::Differs && (is_address(field) || is_time(field));
    let codec = match is_incompressible {
        true => Codec::UNCOMPRESSED,
        false => writer.properties().compression(description.path()),
    };
    let column = match is_text(field.data_type()) {
        true => TextColumn::new(description, codec).map(|text| Column::Text(Box::new(text))),
        false => {
            let sequence = match () {
                () if is_counter(field) => Sequence::Differs,
                () if is_address(field) => addresses,
                () => Sequence::Repeats,
            };
            let numbers = NumberColumn::new(description, codec, field.data_type(), sequence);
            numbers.map(|numbers| Column::Numbers(Box::new(numbers)))
        }
    };
    column.unwrap_or(other)
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(key, value) if **key == DataType::Int32 && **value == DataType::Utf8)
}

fn append<W: Write + Send>(column: &mut Column, group: &mut SerializedRowGroupWriter<'_, W>) -> Result<()> {
    match column {
        Column::Text(text) => {
            let (bytes, closed) = text.close()?;
            group.append_column(&Bytes::from(bytes), closed)
        }
        Column::Numbers(numbers) => {
            let (bytes, closed) = numbers.close()?;
            group.append_column(&Bytes::from(bytes), closed)
        }
        Column::Other { writers, .. } => {
            writers.drain(..).try_for_each(|writer| writer.close()?.append_to_row_group(group))
        }
    }
}

fn another_type() -> ParquetError {
    ParquetError::General("a column of text has another type".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use std::sync::Arc;

    use arrow_array::types::Int32Type;
    use arrow_array::{
        ArrayRef, DictionaryArray, Int64Array, PrimitiveArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
    };
    use arrow_schema::{Field, Schema};
    use dwell_events::Compression;
    use parquet::arrow::ArrowSchemaConverter;
    use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
    use parquet::file::statistics::Statistics;

    use super::*;
    use crate::compression::codec;
    use crate::table_layout::writer_properties;

    /// More than two pages.
    const ROWS: u64 = 50_000;

    fn random(row: u64) -> u64 {
        (row + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn text(word: impl Fn(u64) -> Option<String>) -> ArrayRef {
        let words: Vec<Option<String>> = (0..ROWS).map(word).collect();
        Arc::new(words.iter().map(Option::as_deref).collect::<DictionaryArray<Int32Type>>())
    }

    fn numbers<T: arrow_array::types::ArrowPrimitiveType>(number: impl Fn(u64) -> Option<T::Native>) -> ArrayRef
    where
        PrimitiveArray<T>: FromIterator<Option<T::Native>>,
    {
        Arc::new((0..ROWS).map(number).collect::<PrimitiveArray<T>>())
    }

    /// Columns of every type that has an encoding here: few and many values, none missing, some, all but one, all.
    fn columns() -> Vec<(&'static str, ArrayRef)> {
        let is_some = |row: u64| !random(row).is_multiple_of(3);
        vec![
            ("few", Arc::new(UInt64Array::from_iter_values((0..ROWS).map(|row| random(row) >> 61)))),
            ("many", Arc::new(UInt64Array::from_iter_values((0..ROWS).map(random)))),
            ("many_later", Arc::new(UInt64Array::from_iter_values((0..ROWS).map(|row| row.saturating_sub(ROWS / 2))))),
            ("constant", Arc::new(UInt32Array::from_iter_values((0..ROWS).map(|_| 7)))),
            ("signed", Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| 5 - (row % 11) as i64)))),
            (
                "hundreds",
                Arc::new(UInt16Array::from_iter_values((0..ROWS).map(|row| (random(row) >> 40) as u16 % 700))),
            ),
            ("some", numbers::<arrow_array::types::UInt32Type>(|row| is_some(row).then_some(random(row) as u32))),
            ("one", numbers::<arrow_array::types::UInt8Type>(|row| (row == 30_000).then_some(3))),
            ("none", Arc::new(UInt8Array::new_null(ROWS as usize))),
            ("row_ns", Arc::new(UInt64Array::from_iter_values((0..ROWS).map(|row| row * 3 + random(row) % 5)))),
            ("random_ns", Arc::new(UInt64Array::from_iter_values((0..ROWS).map(random)))),
            ("some_ns", numbers::<arrow_array::types::UInt64Type>(|row| is_some(row).then_some(u64::MAX - row))),
            ("address", Arc::new(UInt64Array::from_iter_values((0..ROWS).map(|row| random(row) >> 20)))),
            ("later", Arc::new(UInt32Array::from_iter_values((0..ROWS).map(|row| u32::from(row > 9_000))))),
            ("words_later", text(|row| Some(format!("{}", row.saturating_sub(8_000) / 11_000)))),
            ("words", text(|row| Some(format!("word {}", random(row) >> 58)))),
            ("distinct", text(|row| Some(format!("{row}")))),
            ("some_words", text(|row| is_some(row).then(|| format!("{}", row % 5)))),
            ("no_words", text(|_| None)),
        ]
    }

    fn write(batch: &RecordBatch, compression: Compression) -> Bytes {
        write_with(batch, compression, Sequence::Repeats)
    }

    fn write_with(batch: &RecordBatch, compression: Compression, addresses: Sequence) -> Bytes {
        let schema = batch.schema();
        let columns = ArrowSchemaConverter::new().convert(&schema).unwrap().root_schema_ptr();
        let properties = Arc::new(writer_properties(&schema, None, codec(compression)));
        let mut writer = SerializedFileWriter::new(Vec::new(), columns, properties).unwrap();
        let mut group = RowGroup::new(&writer, schema, addresses);
        // Two row groups, each of several batches: what one leaves behind must not be in the next.
        for (begin, rows) in [(0, 10_001), (10_001, 19_999), (30_000, 20_000)] {
            group.write(&batch.slice(begin, rows)).unwrap();
            if begin == 10_001 {
                group.flush(&mut writer).unwrap();
            }
        }
        group.flush(&mut writer).unwrap();
        writer.into_inner().unwrap().into()
    }

    fn batch() -> RecordBatch {
        let columns = columns();
        let is_optional = |name: &str| ["some", "one", "none", "some_ns", "some_words", "no_words"].contains(&name);
        let field = |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), is_optional(name));
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        RecordBatch::try_new(schema, columns.into_iter().map(|(_, array)| array).collect()).unwrap()
    }

    #[test]
    fn the_parquet_crate_reads_back_what_was_written() {
        let batch = batch();
        let (zstd, none, snappy) = (Compression::Zstd, Compression::None, Compression::Snappy);
        let (repeats, differs) = (Sequence::Repeats, Sequence::Differs);
        for (compression, addresses) in [(zstd, repeats), (none, repeats), (snappy, repeats), (zstd, differs)] {
            let file = write_with(&batch, compression, addresses);
            let options = ArrowReaderOptions::new().with_schema(batch.schema());
            let metadata = ArrowReaderMetadata::load(&file, options).unwrap();
            let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
            let reader = reader.with_batch_size(ROWS as usize).build().unwrap();
            let read: Vec<RecordBatch> = reader.collect::<std::result::Result<_, _>>().unwrap();
            let rows = read.iter().scan(0, |begin, part| {
                *begin += part.num_rows();
                Some((*begin - part.num_rows(), part))
            });
            for (begin, part) in rows {
                for (expected, found) in batch.slice(begin, part.num_rows()).columns().iter().zip(part.columns()) {
                    let same = match found.data_type() {
                        DataType::Dictionary(_, _) => words_of(expected) == words_of(found),
                        _ => expected == found,
                    };
                    assert!(same, "{compression:?} {:?}", found.data_type());
                }
            }
            assert_eq!(read.iter().map(RecordBatch::num_rows).sum::<usize>(), ROWS as usize);
        }
    }

    fn words_of(array: &ArrayRef) -> Vec<Option<&str>> {
        let words = array.as_dictionary::<Int32Type>().downcast_dict::<arrow_array::StringArray>().unwrap();
        words.into_iter().collect()
    }

    #[test]
    fn the_least_and_greatest_numbers_are_stated_in_their_order() {
        let file = write(&batch(), Compression::Zstd);
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).unwrap();
        let column = |name: &str| {
            let groups = metadata.metadata().row_groups();
            groups[0].columns().iter().find(|chunk| chunk.column_path().string() == name).unwrap().statistics().cloned()
        };
        let Some(Statistics::Int64(signed)) = column("signed") else { panic!("no statistics") };
        assert_eq!((signed.min_opt(), signed.max_opt()), (Some(&-5), Some(&5)));
        let Some(Statistics::Int64(many)) = column("many") else { panic!("no statistics") };
        let greatest = (0..30_000).map(random).max().unwrap();
        assert_eq!(many.max_opt().map(|bits| *bits as u64), Some(greatest));
        let Some(Statistics::Int32(none)) = column("none") else { panic!("no statistics") };
        assert_eq!((none.min_opt(), none.null_count_opt()), (None, Some(30_000)));
    }
}
