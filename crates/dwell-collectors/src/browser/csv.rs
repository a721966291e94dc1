//! The columns of the page in `memory.csv`.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;

use csv::StringRecord;
use dwell_events::ClockAnchor;
use dwell_events::page_sample::PageSample;
use dwell_files::AtomicFile;
use dwell_store::StoreError;

/// Columns that come after those of processes. The WebGPU memory of the page is in `gpu_mb`, which processes have too.
const PAGE_COLUMNS: [&str; 5] = ["heap_used_mb", "heap_total_mb", "wasm_mb", "ua_memory_mb", "tokens"];
/// Label of the rows of the page. Those of its process have another, so that no sum counts it twice.
const LABEL: &str = "page";
const BYTES_PER_MB: f64 = 1_048_576.0;

/// Where the columns of processes lie that rows of the page fill too.
struct Places {
    timestamp: usize,
    label: usize,
    pid: usize,
    rss: usize,
    vms: usize,
    gpu: usize,
    columns: usize,
}

impl Places {
    fn of(header: &StringRecord) -> Option<Self> {
        let place = |name: &str| header.iter().position(|column| column == name);
        Some(Self {
            timestamp: place("timestamp")?,
            label: place("label")?,
            pid: place("pid")?,
            rss: place("rss_mb")?,
            vms: place("vms_mb")?,
            gpu: place("gpu_mb")?,
            columns: header.len(),
        })
    }
}

/// Adds the samples of a page, in order of time, to the rows of processes.
pub(super) fn add_to_memory_csv(path: &Path, anchor: ClockAnchor, samples: &[PageSample]) -> Result<(), StoreError> {
    let failed = |error: csv::Error| StoreError::from_io("writing memory.csv", path, io::Error::other(error));
    let file = File::open(path).map_err(|error| StoreError::from_io("reading memory.csv", path, error))?;
    let mut reader = csv::Reader::from_reader(file);
    let mut writer = csv::Writer::from_writer(AtomicFile::create(path)?);
    let header = reader.headers().map_err(failed)?.clone();
    let Some(places) = Places::of(&header) else { return Ok(()) };
    writer.write_record(header.iter().chain(PAGE_COLUMNS)).map_err(failed)?;
    let mut waiting = samples.iter().peekable();
    let mut sizes: HashMap<String, (String, String)> = HashMap::new();
    for row in reader.records() {
        let row = row.map_err(failed)?;
        let text = |place: usize| row.get(place).unwrap_or_default();
        while let Some(sample) = waiting.next_if(|sample| *timestamp(anchor, sample) <= *text(places.timestamp)) {
            writer.write_record(page_row(&places, anchor, sample, &sizes)).map_err(failed)?;
        }
        sizes.insert(text(places.pid).to_owned(), (text(places.rss).to_owned(), text(places.vms).to_owned()));
        writer.write_record(row.iter().chain([""; PAGE_COLUMNS.len()])).map_err(failed)?;
    }
    for sample in waiting {
        writer.write_record(page_row(&places, anchor, sample, &sizes)).map_err(failed)?;
    }
    let file =
        writer.into_inner().map_err(|error| StoreError::from_io("writing memory.csv", path, error.into_error()))?;
    Ok(file.commit()?)
}

/// Seconds since 1970, as in the rows of processes: of as many digits, so that texts compare as times.
fn timestamp(anchor: ClockAnchor, sample: &PageSample) -> String {
    let micros = anchor.unix_ns_at(sample.time_ns) / 1_000;
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// A row of the page. Resident and virtual memory are those of its process when it was last sampled.
fn page_row(
    places: &Places,
    anchor: ClockAnchor,
    sample: &PageSample,
    sizes: &HashMap<String, (String, String)>,
) -> Vec<String> {
    let mebibytes =
        |bytes: Option<u64>| bytes.map_or_else(String::new, |bytes| (bytes as f64 / BYTES_PER_MB).to_string());
    let pid = sample.pid.map_or_else(String::new, |pid| pid.to_string());
    let (rss, vms) = sizes.get(&pid).cloned().unwrap_or_default();
    let mut row = vec![String::new(); places.columns];
    row[places.timestamp] = timestamp(anchor, sample);
    row[places.label] = LABEL.to_owned();
    row[places.pid] = pid;
    row[places.rss] = rss;
    row[places.vms] = vms;
    row[places.gpu] = mebibytes(Some(sample.gpu_bytes));
    row.extend([
        mebibytes(sample.heap_used_bytes),
        mebibytes(sample.heap_total_bytes),
        mebibytes(Some(sample.wasm_bytes)),
        mebibytes(sample.ua_memory_bytes),
        sample.tokens.to_string(),
    ]);
    row
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_page_come_between_those_of_processes_with_the_memory_of_its_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory.csv");
        let text = "timestamp,label,pid,rss_mb,vms_mb,gpu_mb\n\
                    1700000000.000000,server:page,7,10.5,99,\n1700000001.000000,server:page,7,11,99,\n";
        std::fs::write(&path, text).unwrap();
        let anchor = ClockAnchor { monotonic_ns: 0, unix_ns: 1_700_000_000_000_000_000 };
        let sample = |time_ns, pid| PageSample {
            time_ns,
            pid,
            wasm_bytes: 3 << 19,
            gpu_bytes: 1 << 20,
            tokens: 2,
            ..PageSample::default()
        };
        let samples = [sample(500_000_000, Some(7)), sample(2_000_000_000, None)];
        add_to_memory_csv(&path, anchor, &samples).unwrap();
        let written = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            written.lines().collect::<Vec<_>>(),
            [
                "timestamp,label,pid,rss_mb,vms_mb,gpu_mb,heap_used_mb,heap_total_mb,wasm_mb,ua_memory_mb,tokens",
                "1700000000.000000,server:page,7,10.5,99,,,,,,",
                "1700000000.500000,page,7,10.5,99,1,,,1.5,,2",
                "1700000001.000000,server:page,7,11,99,,,,,,",
                "1700000002.000000,page,,,,1,,,1.5,,2",
            ]
        );
    }
}
