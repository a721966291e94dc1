//! The pages of one column in a row group, and what the file says about them.

use parquet::basic::{Compression as Codec, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, OffsetIndexBuilder};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

/// Rows of a page, as in the columns that the parquet crate writes.
pub(crate) const PAGE_ROWS: usize = 20 * 1024;

/// How pages are compressed.
pub(crate) struct PageCodec {
    codec: Codec,
    /// Kept from page to page; none if pages stay as they are.
    compressor: Option<Compressor<'static>>,
}

impl PageCodec {
    /// None for a compression that is not done here.
    pub(crate) fn new(codec: Codec) -> Option<Self> {
        let compressor = match codec {
            Codec::ZSTD(level) => Some(Compressor::new(level.compression_level()).ok()?),
            Codec::UNCOMPRESSED => None,
            _ => return None,
        };
        Some(Self { codec, compressor })
    }

    fn compress(&mut self, plain: &[u8]) -> Result<Vec<u8>> {
        match &mut self.compressor {
            Some(compressor) => compressor.compress(plain).map_err(|error| ParquetError::External(Box::new(error))),
            None => Ok(plain.to_vec()),
        }
    }
}

/// Pages one after the other.
pub(crate) struct Pages<'a> {
    codec: &'a mut PageCodec,
    bytes: TrackedWrite<Vec<u8>>,
    index: OffsetIndexBuilder,
    plain_bytes: usize,
    rows: usize,
    dictionary_at: Option<i64>,
    first_data_at: Option<i64>,
}

impl<'a> Pages<'a> {
    pub(crate) fn new(codec: &'a mut PageCodec) -> Self {
        Self {
            codec,
            bytes: TrackedWrite::new(Vec::new()),
            index: OffsetIndexBuilder::new(),
            plain_bytes: 0,
            rows: 0,
            dictionary_at: None,
            first_data_at: None,
        }
    }

    /// Adds the dictionary, before all other pages.
    pub(crate) fn put_dictionary(&mut self, plain: &[u8], values: usize) -> Result<()> {
        let page = Page::DictionaryPage {
            buf: self.codec.compress(plain)?.into(),
            num_values: values as u32,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        let (at, _) = self.put(page, plain.len())?;
        self.dictionary_at = Some(at);
        Ok(())
    }

    /// Adds levels and values of so many rows.
    pub(crate) fn put_data(&mut self, plain: &[u8], rows: usize, encoding: Encoding) -> Result<()> {
        let page = Page::DataPage {
            buf: self.codec.compress(plain)?.into(),
            num_values: rows as u32,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let (at, bytes) = self.put(page, plain.len())?;
        self.first_data_at.get_or_insert(at);
        self.index.append_offset_and_size(at, bytes);
        self.index.append_row_count(rows as i64);
        self.rows += rows;
        Ok(())
    }

    /// Where a page is, and how many bytes it takes.
    fn put(&mut self, page: Page, plain_bytes: usize) -> Result<(i64, i32)> {
        let written = SerializedPageWriter::new(&mut self.bytes).write_page(CompressedPage::new(page, plain_bytes))?;
        self.plain_bytes += written.uncompressed_size;
        Ok((written.offset as i64, written.compressed_size as i32))
    }

    /// The bytes of all pages, and what the file says about them.
    pub(crate) fn close(
        self,
        description: &ColumnDescPtr,
        encoding: Encoding,
        statistics: Option<Statistics>,
    ) -> Result<(Vec<u8>, ColumnCloseResult)> {
        let bytes = self.bytes.into_inner()?;
        let mut encodings = vec![encoding, Encoding::RLE];
        encodings.extend(self.dictionary_at.map(|_| Encoding::PLAIN));
        let mut metadata = ColumnChunkMetaData::builder(description.clone())
            .set_compression(self.codec.codec)
            .set_encodings(encodings)
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size(self.plain_bytes as i64)
            .set_num_values(self.rows as i64)
            .set_dictionary_page_offset(self.dictionary_at)
            .set_data_page_offset(self.first_data_at.unwrap_or(0));
        if let Some(statistics) = statistics {
            metadata = metadata.set_statistics(statistics);
        }
        let result = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: self.rows as u64,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: None,
            offset_index: Some(self.index.build()),
        };
        Ok((bytes, result))
    }
}
