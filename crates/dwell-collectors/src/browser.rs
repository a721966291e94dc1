//! The `browser` collector: memory as the page knows in which a model runs. The page samples itself, and tells it with the
//! engine's events.
//!
//! What makes its numbers wrong or missing:
//! - Heap, WebAssembly memories and WebGPU buffers are what was allocated. What of it is resident is in the samples of processes,
//!   which hold it already: the two are never added.
//! - A page that computes on its own thread samples late. Every sample has the time at which it was taken.
//! - Textures and pipelines take memory of the driver that no page sees.

use arrow_array::RecordBatch;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_schema::DataType;
use dwell_events::engine::EngineEvent;
use dwell_events::host::Outcome;
use dwell_events::page_sample::{PAGE_INTERVAL_VARIABLE, PageSample};
use dwell_events::schema::{ColumnSpec, Table, TableSpec, numbers};
use dwell_events::server::BROWSER_PROFILE_DIR;
use dwell_events::{Basis, CollectorName, LossKind};
use dwell_metadata::{CollectorEnd, RunRecord, RunRequest};
use dwell_store::{RawCompression, RawWriter, RunDir, StoreError, TableWriter};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::batches::each_batch;
use crate::{
    BuiltTable, CheckPlace, CollectError, Collected, Collector, Description, Target, Wanted, Watching, read_settings,
};

mod csv;
mod rows;

const NAME: CollectorName = CollectorName::BROWSER;

/// Declares the columns that are numbers of bytes.
macro_rules! columns {
    ($($name:literal: $nullable:literal, $meaning:literal;)+) => {
        &[
            ColumnSpec {
                name: "timestamp_ns",
                data_type: DataType::UInt64,
                nullable: false,
                unit: "ns",
                meaning: "when the page sampled itself",
            },
            ColumnSpec {
                name: "pid",
                data_type: DataType::UInt32,
                nullable: true,
                unit: "",
                meaning: "the process of the page, if it could be told from the other renderers",
            },
            $(ColumnSpec {
                name: $name,
                data_type: DataType::UInt64,
                nullable: $nullable,
                unit: "bytes",
                meaning: $meaning,
            },)+
            ColumnSpec {
                name: "tokens",
                data_type: DataType::UInt64,
                nullable: false,
                unit: "",
                meaning: "tokens of the request that the page has received",
            },
        ]
    };
}

static TABLE: TableSpec = TableSpec {
    name: "browser",
    // In the order of `rows::batch`.
    columns: columns! {
        "heap_used_bytes": true, "JavaScript heap in use, array buffers included (`performance.memory`)";
        "heap_total_bytes": true, "JavaScript heap taken";
        "wasm_bytes": false, "WebAssembly memories of the page and its workers";
        "ua_memory_bytes": true, "`measureUserAgentSpecificMemory`, in the first row after each measurement";
        "gpu_bytes": false, "WebGPU buffers and textures that are alive";
        "gpu_weight_bytes": false, "those of them that hold weights";
        "gpu_kv_cache_bytes": false, "those of them that hold keys and values";
        "gpu_other_bytes": false, "those of them that hold anything else";
        "kv_bytes": true, "tensors of keys and values that the runtime holds, where it shows them";
        "storage_bytes": true, "storage that the page takes: caches of models";
    },
};

/// Memory as a page knows it.
pub(crate) struct Browser;

#[derive(Serialize, Deserialize)]
struct Settings {
    /// Time between two samples.
    sample_interval_ms: u64,
}

impl Collector for Browser {
    fn description(&self) -> &'static Description {
        &Description {
            name: NAME,
            observes: "heap, WebAssembly memory and WebGPU buffers, as the page knows them in which a model runs",
            basis: Basis::Reported,
            cost: "12 to 20 µs of the page's time for each sample",
            needs: "an engine in a browser: wllama, transformers_js or webllm",
            tried: "nothing: the page of the engine samples itself",
        }
    }

    fn check(&self, _: &CheckPlace<'_>) -> Outcome {
        Outcome::works("the page of the engine samples itself; it takes an engine in a browser")
    }

    fn cannot_watch(&self, target: &Target<'_>) -> Option<String> {
        (!target.engine.profile().is_in_browser).then(|| format!("{} runs in no browser", target.engine.name()))
    }

    fn settings(&self, wanted: &Wanted<'_>) -> Value {
        json!(Settings { sample_interval_ms: wanted.sample_interval_ms })
    }

    fn begin(&self, run: &RunDir, _: &RunRequest, settings: &Value) -> Result<Box<dyn Watching>, CollectError> {
        let Settings { sample_interval_ms } = read_settings(NAME, settings)?;
        let stream = run.raw_stream(NAME.name());
        let stream = RawWriter::create(&stream, Table::Own(&TABLE).schema(), RawCompression::None)?;
        Ok(Box::new(BrowserWatch { sample_interval_ms, waiting: Vec::new(), stream }))
    }

    /// After the samples of the processes, whose CSV gets the columns of the page.
    fn build(&self, run: &RunDir, record: &RunRecord, collected: &mut Collected) -> Result<(), StoreError> {
        // A worker that was killed could not remove it; there is nothing to be read in it.
        let _ = std::fs::remove_dir_all(run.raw().join(BROWSER_PROFILE_DIR));
        if !record.request.collectors.has(NAME) {
            return Ok(());
        }
        let mut table = TableWriter::create_with(run.path(), Table::Own(&TABLE), record.request.build.compression)?;
        let mut samples: Vec<PageSample> = Vec::new();
        let damaged = each_batch(&run.raw_stream(NAME.name()), |batch| {
            samples.extend(rows::samples(&batch));
            table.write(&batch)
        })?;
        let rows = table.finish()?;
        samples.sort_by_key(|sample| sample.time_ns);
        for (time_ns, bytes) in samples.iter().filter_map(|sample| Some((sample.time_ns, sample.kv_bytes?))) {
            collected.samples.engine.push_told_kv(time_ns, bytes);
        }
        csv::add_to_memory_csv(&run.memory_csv(), record.clock, &samples)?;
        collected.tables.push(BuiltTable { table: Table::Own(&TABLE), rows, basis: Basis::Reported, source: NAME });
        let detail = "batches of samples that are damaged or cut off";
        collected.lost(NAME, LossKind::UndecodableRecords, damaged, detail);
        Ok(())
    }

    fn own_tables(&self) -> &'static [Table] {
        static TABLES: [Table; 1] = [Table::Own(&TABLE)];
        &TABLES
    }
}

/// Samples of a run on their way into `raw/`.
struct BrowserWatch {
    sample_interval_ms: u64,
    waiting: Vec<PageSample>,
    stream: RawWriter,
}

impl BrowserWatch {
    fn write(&mut self) -> Result<(), StoreError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.stream.write(&rows::batch(&self.waiting))?;
        self.waiting.clear();
        self.stream.flush()
    }
}

impl Watching for BrowserWatch {
    fn worker_environment(&self) -> Vec<(&'static str, String)> {
        vec![(PAGE_INTERVAL_VARIABLE, self.sample_interval_ms.to_string())]
    }

    fn engine_event(&mut self, event: &EngineEvent) {
        if let EngineEvent::PageSampled { sample } = event {
            self.waiting.push(*sample);
        }
    }

    fn poll(&mut self) -> Result<bool, CollectError> {
        self.write()?;
        Ok(false)
    }

    fn end(mut self: Box<Self>) -> Result<CollectorEnd, StoreError> {
        self.write()?;
        self.stream.finish()?;
        Ok(CollectorEnd::default())
    }
}

/// The raw stream and the table have the same columns.
fn schema_batch(columns: Vec<arrow_array::ArrayRef>) -> RecordBatch {
    RecordBatch::try_new(Table::Own(&TABLE).schema(), columns).expect("the columns are the schema's, in order")
}

/// A column of whole numbers, some of which are not known.
fn column(samples: &[PageSample], value: impl Fn(&PageSample) -> Option<u64>) -> arrow_array::ArrayRef {
    numbers::<UInt64Type, _>(samples, value)
}

fn pids(samples: &[PageSample]) -> arrow_array::ArrayRef {
    numbers::<UInt32Type, _>(samples, |sample| sample.pid)
}
