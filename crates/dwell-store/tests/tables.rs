//! Tables written and read back.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod common;

use std::fs;
use std::fs::File;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use dwell_events::schema::trace::{TraceBuilder, TraceRow};
use dwell_events::schema::{Table, memory, tokens};
use dwell_events::{Basis, Hint, OpType, Phase, RegionType, SCHEMA_VERSION, SCHEMA_VERSION_KEY};
use dwell_files::FileError;
use dwell_store::{
    Compression, ConstantColumn, StoreError, TableWriter, copy_table_with, open_table, open_table_columns,
    open_table_subset, text_at,
};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::{KeyValue, ParquetMetaDataReader};
use parquet::file::properties::WriterProperties;

fn accesses(builder: &mut TraceBuilder, count: u64) -> RecordBatch {
    for index in 0..count {
        builder.push(&TraceRow {
            timestamp_ns: 1_000 + index,
            phase: Some(Phase::Generation),
            address: 0x7f00_0000_0000 + index * 4096,
            size_bytes: 4096,
            op_type: if index % 3 == 0 { OpType::Store } else { OpType::Load },
            symbol: "MUL_MAT",
            dso: "ggml",
            region_type: RegionType::Weight,
            region_id: 1,
            token_index: Some(index as u32 / 100),
            context_tokens: Some(8),
            step: Some(index as u32 / 100),
            tensor: if index % 2 == 0 { "blk.0.attn_q.weight" } else { "blk.0.ffn_up.weight" },
            layer: Some(0),
            source: "tensor_ops",
            period: 1,
            ..TraceRow::EMPTY
        });
    }
    builder.finish_batch()
}

/// A file with the name of a table, one column, and this schema version.
fn foreign_table(dir: &std::path::Path, table: Table, version: Option<&str>) {
    let schema = Arc::new(Schema::new(vec![Field::new("step", DataType::Int64, false)]));
    let entry = version.map(|version| vec![KeyValue::new(SCHEMA_VERSION_KEY.to_owned(), version.to_owned())]);
    let properties = WriterProperties::builder().set_key_value_metadata(entry).build();
    let file = File::create(dir.join(table.file_name())).unwrap();
    let mut writer = ArrowWriter::try_new(file, schema.clone(), Some(properties)).unwrap();
    writer.write(&RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(vec![1, 2]))]).unwrap()).unwrap();
    writer.close().unwrap();
}

#[test]
fn a_table_gives_back_its_rows_with_the_tables_types() {
    let dir = tempfile::tempdir().unwrap();
    let mut builder = TraceBuilder::new("run");
    let batches: Vec<RecordBatch> = [10, 1, 300].iter().map(|&count| accesses(&mut builder, count)).collect();
    let mut writer = TableWriter::create(dir.path(), Table::Trace).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    assert_eq!(writer.finish().unwrap(), 311);
    let mut reader = open_table(dir.path(), Table::Trace).unwrap();
    assert_eq!(reader.schema_version(), Some(SCHEMA_VERSION));
    assert_eq!(reader.total_rows(), 311);
    assert_eq!(reader.schema().fields(), Table::Trace.schema().fields());
    let found = reader.next().unwrap().unwrap();
    assert_eq!(found.slice(0, 10).column(4), batches[0].column(4));
    assert_eq!(found.num_rows(), 311);
    assert!(reader.next().is_none());
    let text = arrow_array::cast::as_string_array;
    let tensors = |batch: &RecordBatch| -> Vec<String> {
        let column = batch.column_by_name("tensor").unwrap();
        let column = arrow_array::cast::as_dictionary_array::<arrow_array::types::Int32Type>(column.as_ref());
        column.keys().iter().map(|key| text(column.values()).value(key.unwrap() as usize).to_owned()).collect()
    };
    assert_eq!(tensors(&found.slice(11, 300)), tensors(&batches[2]));
}

#[test]
fn every_table_can_be_written_empty() {
    let dir = tempfile::tempdir().unwrap();
    for table in Table::ALL.into_iter().chain(Table::OF_ALLOCATIONS) {
        TableWriter::create(dir.path(), table).unwrap().finish().unwrap();
        let reader = open_table(dir.path(), table).unwrap();
        assert_eq!(reader.schema().fields(), table.schema().fields(), "{table:?}");
        assert_eq!(reader.count(), 0);
    }
}

#[test]
fn the_file_has_plain_strings_zstd_and_bounded_row_groups() {
    let dir = tempfile::tempdir().unwrap();
    let mut builder = TraceBuilder::new("run");
    let mut writer = TableWriter::create(dir.path(), Table::Trace).unwrap();
    writer.write(&accesses(&mut builder, 200_000)).unwrap();
    writer.finish().unwrap();
    let file = File::open(dir.path().join("trace.parquet")).unwrap();
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
    let keys: Vec<&str> =
        metadata.file_metadata().key_value_metadata().unwrap().iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, [SCHEMA_VERSION_KEY]);
    assert!(metadata.row_groups().len() == 2 && metadata.row_groups().iter().all(|group| group.num_rows() <= 131_072));
    let column = metadata.row_group(0).column(6);
    assert_eq!(column.column_path().string(), "op_type");
    assert!(column.dictionary_page_offset().is_some());
    assert!(metadata.row_group(0).column(4).statistics().is_some());
    assert!(matches!(column.compression(), parquet::basic::Compression::ZSTD(_)));
}

#[test]
fn only_the_numbers_of_samples_that_jump_about_are_not_compressed() {
    for (basis, expected) in [(Basis::Sampled, vec!["timestamp_ns", "address", "address_page"]), (Basis::Exact, vec![])]
    {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = TableWriter::create_of(dir.path(), Table::Trace, basis).unwrap();
        // Several row groups: what one leaves behind must not be in the next.
        let mut builder = TraceBuilder::new("run");
        (0..3).for_each(|_| writer.write(&accesses(&mut builder, 100_000)).unwrap());
        writer.finish().unwrap();
        let file = File::open(dir.path().join("trace.parquet")).unwrap();
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
        for group in metadata.row_groups() {
            let is_plain = |column: &&parquet::file::metadata::ColumnChunkMetaData| {
                column.compression() == parquet::basic::Compression::UNCOMPRESSED
            };
            let plain = group.columns().iter().filter(is_plain).map(|column| column.column_path().string());
            assert_eq!(plain.collect::<Vec<_>>(), expected, "{basis:?}");
        }
        let mut again = TraceBuilder::new("run");
        let written: Vec<RecordBatch> = (0..3).map(|_| accesses(&mut again, 100_000)).collect();
        let timestamps = |batch: &RecordBatch| number_column(batch, "timestamp_ns");
        let read = open_table(dir.path(), Table::Trace).unwrap().flat_map(|batch| timestamps(&batch.unwrap()));
        assert!(read.eq(written.iter().flat_map(timestamps)), "{basis:?}");
    }
}

fn number_column(batch: &RecordBatch, name: &str) -> Vec<u64> {
    let column = batch.column_by_name(name).unwrap();
    column.as_any().downcast_ref::<arrow_array::UInt64Array>().unwrap().values().to_vec()
}

#[test]
fn a_table_has_its_name_only_once_it_is_finished() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = TableWriter::create(dir.path(), Table::Trace).unwrap();
    writer.write(&accesses(&mut TraceBuilder::new("run"), 10)).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "a kill here leaves nothing");
    assert!(matches!(open_table(dir.path(), Table::Trace), Err(StoreError::File(FileError::NotFound { .. }))));
    writer.finish().unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    open_table(dir.path(), Table::Trace).unwrap();
}

#[test]
fn a_link_in_the_place_of_an_unfinished_table_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let victim = dir.path().join("victim");
    std::fs::write(&victim, "mine").unwrap();
    for name in ["trace.parquet.partial", "trace.parquet"] {
        std::os::unix::fs::symlink(&victim, dir.path().join(name)).unwrap();
    }
    let mut writer = TableWriter::create(dir.path(), Table::Trace).unwrap();
    writer.write(&accesses(&mut TraceBuilder::new("run"), 10)).unwrap();
    writer.finish().unwrap();
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
    assert!(open_table(dir.path(), Table::Trace).unwrap().all(|batch| batch.is_ok()));
}

#[test]
fn only_the_columns_asked_for_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = TableWriter::create(dir.path(), Table::Trace).unwrap();
    writer.write(&accesses(&mut TraceBuilder::new("run"), 10)).unwrap();
    writer.finish().unwrap();
    let mut reader = open_table_columns(dir.path(), Table::Trace, &["size_bytes", "address"]).unwrap();
    let batch = reader.next().unwrap().unwrap();
    let names: Vec<&str> = batch.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["address", "size_bytes"]);
    let error = open_table_columns(dir.path(), Table::Trace, &["colour"]).err().unwrap();
    assert!(error.to_string().starts_with("opening a table found no column colour"), "{error}");
}

#[test]
fn another_major_version_is_refused_and_a_later_minor_one_is_read() {
    let dir = tempfile::tempdir().unwrap();
    foreign_table(dir.path(), Table::Trace, Some("2.0"));
    let error = open_table(dir.path(), Table::Trace).err().unwrap();
    assert!(error.to_string().starts_with("a file has version 2.0, and 1."), "{error}");
    assert!(error.hints()[0].contains("supports schema 2;"), "{:?}", error.hints());
    foreign_table(dir.path(), Table::Tokens, Some("1.99"));
    assert_eq!(open_table(dir.path(), Table::Tokens).unwrap().total_rows(), 2);
}

#[test]
fn a_table_without_a_version_and_with_unknown_columns_is_read() {
    let dir = tempfile::tempdir().unwrap();
    foreign_table(dir.path(), Table::Loss, None);
    let reader = open_table(dir.path(), Table::Loss).unwrap();
    assert_eq!(reader.schema_version(), None);
    assert_eq!(reader.schema().field(0).data_type(), &DataType::Int64);
}

#[test]
fn a_file_that_is_not_parquet_or_is_cut_short_is_named_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.parquet");
    let mut writer = TableWriter::create(dir.path(), Table::Trace).unwrap();
    writer.write(&accesses(&mut TraceBuilder::new("run"), 100)).unwrap();
    writer.finish().unwrap();
    let bytes = fs::read(&path).unwrap();
    for content in [b"".as_slice(), b"timestamp,label,pid,rss_mb,vms_mb", &bytes[..bytes.len() - 1], &bytes[..500]] {
        fs::write(&path, content).unwrap();
        let error = open_table(dir.path(), Table::Trace).err().unwrap();
        assert!(matches!(error, StoreError::NotParquet { .. }), "{error}");
    }
}

#[test]
fn a_batch_of_another_table_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = TableWriter::create(dir.path(), Table::Memory).unwrap();
    assert!(matches!(writer.write(&tokens::batch(&[])), Err(StoreError::UnfitBatch { .. })));
    writer.write(&memory::batch(&[])).unwrap();
}

#[test]
fn a_changed_byte_in_a_table_never_panics() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.parquet");
    let mut writer = TableWriter::create(dir.path(), Table::Trace).unwrap();
    writer.write(&accesses(&mut TraceBuilder::new("run"), 50)).unwrap();
    writer.finish().unwrap();
    let original = fs::read(&path).unwrap();
    for at in (0..original.len()).step_by(3) {
        for value in [[0x00, 0x7f, 0xff][at / 3 % 3], original[at] ^ 1] {
            let mut bytes = original.clone();
            bytes[at] = value;
            fs::write(&path, &bytes).unwrap();
            if let Ok(reader) = open_table(dir.path(), Table::Trace) {
                reader.for_each(drop);
            }
        }
    }
}

#[test]
fn a_table_has_the_compression_that_was_asked_for() {
    for compression in Compression::ALL {
        let dir = tempfile::tempdir().unwrap();
        write_compressed(dir.path(), compression);
        let file = File::open(dir.path().join(Table::Trace.file_name())).unwrap();
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
        let codecs = metadata.row_groups().iter().flat_map(|group| group.columns()).map(|column| column.compression());
        let name = if compression == Compression::None { "uncompressed" } else { compression.name() };
        assert!(codecs.clone().count() > 20);
        for codec in codecs {
            let codec = codec.to_string().to_lowercase();
            assert!(codec.starts_with(name), "{codec} instead of {name}");
        }
        assert_eq!(
            open_table(dir.path(), Table::Trace).unwrap().map(|batch| batch.unwrap().num_rows()).sum::<usize>(),
            1000
        );
    }
}

#[test]
fn pyarrow_reads_every_compression() {
    let Some(python) = common::peer_python("pyarrow_reads_every_compression") else { return };
    let script = "import sys, pyarrow.parquet as parquet\n\
                  file = parquet.ParquetFile(sys.argv[1])\n\
                  table = file.read()\n\
                  print(file.metadata.row_group(0).column(0).compression, table.num_rows, table['size_bytes'][999])";
    for compression in Compression::ALL {
        let dir = tempfile::tempdir().unwrap();
        write_compressed(dir.path(), compression);
        let path = dir.path().join(Table::Trace.file_name());
        let printed = common::printed_by(std::process::Command::new(&python).args(["-c", script]).arg(path));
        let name = if compression == Compression::None { "UNCOMPRESSED" } else { &compression.name().to_uppercase() };
        assert_eq!(printed, format!("{name} 1000 4096\n"));
    }
}

fn write_compressed(dir: &std::path::Path, compression: Compression) {
    let mut writer = TableWriter::create_with(dir, Table::Trace, compression).unwrap();
    writer.write(&accesses(&mut TraceBuilder::new("run"), 1000)).unwrap();
    writer.finish().unwrap();
}

#[test]
fn columns_that_a_file_lacks_are_left_out_of_a_subset() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = TableWriter::create(dir.path(), Table::Trace).unwrap();
    writer.write(&accesses(&mut TraceBuilder::new("run"), 10)).unwrap();
    writer.finish().unwrap();
    let mut reader = open_table_subset(dir.path(), Table::Trace, &["colour", "size_bytes", "address"]).unwrap();
    let batch = reader.next().unwrap().unwrap();
    let names: Vec<&str> = batch.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!((names, batch.num_rows()), (vec!["address", "size_bytes"], 10));
}

#[test]
fn a_copy_has_the_rows_version_and_notes_of_the_original_and_the_columns_it_lacked() {
    let dir = tempfile::tempdir().unwrap();
    let mut table = TableWriter::create_with(dir.path(), Table::Trace, Compression::Snappy).unwrap();
    table.note("kept", "yes");
    table.write(&accesses(&mut TraceBuilder::new("own"), 20_000)).unwrap();
    table.finish().unwrap();
    let columns =
        [ConstantColumn { name: "run_id", value: "other" }, ConstantColumn { name: "configuration", value: "c0ffee" }];
    let copy = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("trace.parquet"), copy.path().join("trace.parquet"));
    assert_eq!(copy_table_with(&from, &to, Table::Trace, &columns).unwrap(), 20_000);
    let (original, copied) =
        (open_table(dir.path(), Table::Trace).unwrap(), open_table(copy.path(), Table::Trace).unwrap());
    assert_eq!(copied.schema_version(), Some(SCHEMA_VERSION));
    for (original, copied) in original.zip(copied) {
        let (original, copied) = (original.unwrap(), copied.unwrap());
        let own: Vec<usize> = (0..original.num_columns()).collect();
        assert_eq!(copied.project(&own).unwrap().columns(), original.columns(), "the run's own name stays");
        assert_eq!(copied.num_columns(), original.num_columns() + 1);
        assert!((0..copied.num_rows()).all(|row| text_at(&copied, "configuration", row) == Some("c0ffee")));
    }
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&File::open(&to).unwrap()).unwrap();
    let entries = metadata.file_metadata().key_value_metadata().unwrap();
    assert!(entries.iter().any(|entry| entry.key == "kept" && entry.value.as_deref() == Some("yes")));
    assert_eq!(metadata.row_group(0).column(0).compression(), parquet::basic::Compression::SNAPPY);
}

#[test]
fn the_copy_of_a_foreign_table_states_no_version_either() {
    let dir = tempfile::tempdir().unwrap();
    foreign_table(dir.path(), Table::Tokens, None);
    let to = dir.path().join("copy.parquet");
    let columns = [ConstantColumn { name: "run_id", value: "r" }];
    assert_eq!(copy_table_with(&dir.path().join("tokens.parquet"), &to, Table::Tokens, &columns).unwrap(), 2);
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&File::open(&to).unwrap()).unwrap();
    assert!(metadata.file_metadata().key_value_metadata().is_none_or(|entries| entries.is_empty()));
}
