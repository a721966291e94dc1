//! How the columns of each table are laid out in Parquet.

use arrow_schema::{DataType, Field};
use dwell_events::schema::Table;
use dwell_events::{SCHEMA_VERSION, SCHEMA_VERSION_KEY};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::schema::types::ColumnPath;

/// Most rows of a row group, and so of what the writer holds.
const ROW_GROUP_ROWS: usize = 128 * 1024;

const ZSTD_LEVEL: i32 = 3;

/// Properties of the file of this table.
pub(crate) fn writer_properties(table: Table) -> WriterProperties {
    let level = ZstdLevel::try_new(ZSTD_LEVEL).expect("3 is one of the levels of zstd, 1 to 22");
    let version = KeyValue::new(SCHEMA_VERSION_KEY.to_owned(), SCHEMA_VERSION.to_owned());
    let shared = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(concat!("dwell ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![version]))
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::Chunk);
    table.schema().fields().iter().fold(shared, |builder, field| lay_out(builder, field)).build()
}

fn lay_out(builder: WriterPropertiesBuilder, field: &Field) -> WriterPropertiesBuilder {
    let path = ColumnPath::from(field.name().as_str());
    if is_counted(field) {
        return builder
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    builder.set_column_dictionary_enabled(path, true)
}

fn is_counted(field: &Field) -> bool {
    matches!(field.name().as_str(), "sample_id" | "timestamp_ns" | "address" | "address_page")
        && *field.data_type() == DataType::UInt64
}
