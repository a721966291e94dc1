//! How the columns of each table are laid out in Parquet.
//!
//! Measured with `cargo bench -p dwell-store --bench rates` on the trace of a decode, rows per second of CPU and
//! bytes per row:
//!
//! | layout | M rows/s | bytes/row |
//! | --- | --- | --- |
//! | addresses delta-packed, other numbers with dictionaries, statistics everywhere | 3.0 | 4.6 |
//! | no statistics on text | 3.4 | 4.6 |
//! | and addresses plain | 4.0 | 0.8 |
//! | and all numbers but counters plain | 4.9 | 0.8 |
//! | numbers with few values by dictionary, in whole bytes, and text from the dictionaries of batches (this one) | 10.2 | 0.7 |
//! | counters with dictionaries too | 2.2 | 9.2 |
//!
//! Plain and whole bytes win because every step touches the same tensors in the same order: zstd finds the repetition, which
//! packing into odd bit widths hides from it. Sampled accesses repeat no order, so their addresses are stored as differences.
//! Columns are encoded here (`text_column`, `number_column`), those of files with another compression than zstd by the parquet
//! crate.

use arrow_schema::{DataType, Field, Schema};
use dwell_events::SCHEMA_VERSION_KEY;
use parquet::basic::{Compression as Codec, Encoding};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::schema::types::ColumnPath;

/// Most rows of a row group, and so of what the writer holds.
pub(crate) const ROW_GROUP_ROWS: usize = 128 * 1024;

/// Properties of a file with these columns. A file that states no version of the schema is another program's.
pub(crate) fn writer_properties(schema: &Schema, version: Option<&str>, codec: Codec) -> WriterProperties {
    let version = version.map(|version| vec![KeyValue::new(SCHEMA_VERSION_KEY.to_owned(), version.to_owned())]);
    let shared = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(concat!("dwell ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(version)
        .set_compression(codec)
        .set_dictionary_enabled(false)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::Chunk);
    schema.fields().iter().fold(shared, |builder, field| lay_out(builder, field)).build()
}

fn lay_out(builder: WriterPropertiesBuilder, field: &Field) -> WriterPropertiesBuilder {
    let path = ColumnPath::from(field.name().as_str());
    match field.data_type() {
        // Every row group has the same few values, so their least and greatest would let no reader skip one.
        DataType::Dictionary(_, _) => builder
            .set_column_dictionary_enabled(path.clone(), true)
            .set_column_statistics_enabled(path, EnabledStatistics::None),
        _ if is_counter(field) => builder.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
        _ => builder,
    }
}

/// Whether the values of a column only grow from row to row.
pub(crate) fn is_counter(field: &Field) -> bool {
    let is_number = matches!(field.name().as_str(), "sample_id" | "ordinal");
    is_time(field) || is_number && *field.data_type() == DataType::UInt64
}

/// Whether the values of a column are times.
pub(crate) fn is_time(field: &Field) -> bool {
    *field.data_type() == DataType::UInt64 && field.name().ends_with("_ns")
}

/// Whether the values of a column are places in memory.
pub(crate) fn is_address(field: &Field) -> bool {
    *field.data_type() == DataType::UInt64 && matches!(field.name().as_str(), "address" | "address_page")
}
