//! The `pressure` collector: how long the machine's tasks wait for processors, memory and disks (PSI), and how much memory
//! it has left, over the time of a run.
//!
//! What makes its numbers wrong or missing:
//! - It is the whole machine, dwell and everything else included. The columns `cgroup_…` narrow it down to the control
//!   group of the observer, which the worker shares unless somebody moved it.
//! - The kernel adds up stalls every 2 s for its averages and on every read for its totals, so `…_pct` of one row may be
//!   a little above or below the truth and the next one makes up for it.
//! - `full` of the processors is 0 for the whole machine by definition; kernels before 5.13 do not have the line.
//! - Between two samples nothing is seen of memory; stalls are counted without gaps.

use std::fs;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_schema::DataType;
use dwell_clock::monotonic_ns;
use dwell_events::host::Outcome;
use dwell_events::schema::{ColumnSpec, Table, TableSpec, numbers};
use dwell_events::{Basis, CollectorName, LossKind};
use dwell_host::{KeptFile, PressureLine, PressureReading, Root, meminfo_bytes};
use dwell_metadata::{CollectorEnd, RunRecord, RunRequest};
use dwell_store::{RawCompression, RawWriter, RunDir, StoreError, TableWriter};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::at_intervals::AtIntervals;
use crate::batches::each_batch;
use crate::{BuiltTable, CheckPlace, CollectError, Collected, Collector, Description, Wanted, Watching, read_settings};

const NAME: CollectorName = CollectorName::of("pressure");
/// How long samples may wait in memory, which is what a kill of the observer can lose of them. With this many columns a
/// batch of a few rows is mostly padding, so it is longer than for the process samples.
const HAND_OVER_INTERVAL: Duration = Duration::from_secs(1);
const RESOURCES: [&str; 3] = ["cpu", "memory", "io"];
const MEMINFO_KEYS: [&str; 6] = ["MemFree", "MemAvailable", "Cached", "Dirty", "SwapTotal", "SwapFree"];
/// `some` and `full` of each resource, of the machine and of the control group.
const LINES: usize = 4 * RESOURCES.len();

/// Declares the columns: of each line of a pressure file three, of each line of `/proc/meminfo` one.
macro_rules! columns {
    ([$($stall:literal: $what:literal,)+] [$($memory:literal: $meaning:literal,)+]) => {
        &[
            ColumnSpec {
                name: "timestamp_ns",
                data_type: DataType::UInt64,
                nullable: false,
                unit: "ns",
                meaning: "when it was sampled",
            },
            $(
                ColumnSpec {
                    name: concat!($stall, "_pct"),
                    data_type: DataType::Float64,
                    nullable: true,
                    unit: "%",
                    meaning: concat!("share of the time since the row before in which ", $what),
                },
                ColumnSpec {
                    name: concat!($stall, "_avg10_pct"),
                    data_type: DataType::Float64,
                    nullable: true,
                    unit: "%",
                    meaning: concat!("share of the last 10 s in which ", $what, ", by the kernel's moving average"),
                },
                ColumnSpec {
                    name: concat!($stall, "_total_us"),
                    data_type: DataType::UInt64,
                    nullable: true,
                    unit: "µs",
                    meaning: concat!("time since boot in which ", $what),
                },
            )+
            $(
                ColumnSpec {
                    name: $memory,
                    data_type: DataType::UInt64,
                    nullable: true,
                    unit: "bytes",
                    meaning: $meaning,
                },
            )+
        ]
    };
}

static TABLE: TableSpec = TableSpec {
    name: "pressure",
    columns: columns!(
        // In the order of `Sample::stalls`.
        [
            "cpu_some": "at least one task of the machine waited for a processor",
            "cpu_full": "all tasks of the machine waited for a processor",
            "memory_some": "at least one task of the machine waited for memory",
            "memory_full": "all tasks of the machine waited for memory",
            "io_some": "at least one task of the machine waited for storage",
            "io_full": "all tasks of the machine waited for storage",
            "cgroup_cpu_some": "at least one task of the control group waited for a processor",
            "cgroup_cpu_full": "all tasks of the control group waited for a processor",
            "cgroup_memory_some": "at least one task of the control group waited for memory",
            "cgroup_memory_full": "all tasks of the control group waited for memory",
            "cgroup_io_some": "at least one task of the control group waited for storage",
            "cgroup_io_full": "all tasks of the control group waited for storage",
        ]
        // In the order of `MEMINFO_KEYS`.
        [
            "free_bytes": "memory of the machine that nothing uses",
            "available_bytes": "memory that programs could get without swapping",
            "cached_bytes": "page cache, such as model files that were read or mapped",
            "dirty_bytes": "memory that has yet to be written to storage",
            "swap_total_bytes": "swap space",
            "swap_free_bytes": "swap space that is not used",
        ]
    ),
};

/// Stalls and free memory of the machine.
pub(crate) struct Pressure;

#[derive(Serialize, Deserialize)]
struct Settings {
    /// Time between two samples.
    sample_interval_ms: u64,
}

impl Collector for Pressure {
    fn description(&self) -> &'static Description {
        &Description {
            name: NAME,
            observes: "how long tasks wait for processors, memory and storage, and how much memory the machine has left",
            basis: Basis::Sampled,
            cost: "less than 0.1 % of one core at 100 ms",
            needs: "/proc/meminfo; a kernel with pressure stall information for the stalls; no privilege",
            tried: "memory and stalls of the machine are read; `degraded` without stalls",
        }
    }

    fn check(&self, place: &CheckPlace<'_>) -> Outcome {
        let mut sampler = Sampler::open(&place.root);
        let sample = sampler.sample();
        let Some(available_bytes) = sample.memory[1] else {
            return Outcome::fails("/proc/meminfo does not say how much memory is available");
        };
        let found = format!("{} MiB of memory are available", available_bytes >> 20);
        match sampler.absences.join("; ") {
            absences if absences.is_empty() => Outcome::works(format!("{found}, and stalls were read")),
            absences => Outcome::degraded(format!("{found}; {absences}")).remedy("start the kernel with psi=1"),
        }
    }

    fn settings(&self, wanted: &Wanted<'_>) -> Value {
        json!(Settings { sample_interval_ms: wanted.sample_interval_ms })
    }

    fn begin(&self, run: &RunDir, _: &RunRequest, settings: &Value) -> Result<Box<dyn Watching>, CollectError> {
        let Settings { sample_interval_ms } = read_settings(NAME, settings)?;
        let interval = Duration::from_millis(sample_interval_ms.max(1));
        Ok(Box::new(PressureWatch::begin(run, Sampler::open(&Root::default()), interval)?))
    }

    fn build(&self, run: &RunDir, record: &RunRecord, collected: &mut Collected) -> Result<(), StoreError> {
        if !record.request.collectors.has(NAME) {
            return Ok(());
        }
        let mut table = TableWriter::create_with(run.path(), Table::Own(&TABLE), record.request.build.compression)?;
        let damaged = each_batch(&run.raw_stream(NAME.name()), |batch| table.write(&batch))?;
        let rows = table.finish()?;
        collected.tables.push(BuiltTable { table: Table::Own(&TABLE), rows, basis: Basis::Sampled, source: NAME });
        let detail = "batches of samples that are damaged or cut off";
        collected.lost(NAME, LossKind::UndecodableRecords, damaged, detail);
        Ok(())
    }

    fn own_tables(&self) -> &'static [Table] {
        static TABLES: [Table; 1] = [Table::Own(&TABLE)];
        &TABLES
    }
}

/// One line of a pressure file, with the share of the time since the line before.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stall {
    now: PressureLine,
    /// None for the first.
    since_pct: Option<f64>,
}

/// What was read at one moment; what the kernel does not tell is missing, never 0.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    timestamp_ns: u64,
    stalls: [Option<Stall>; LINES],
    memory: [Option<u64>; MEMINFO_KEYS.len()],
}

/// The files of the kernel, kept open.
struct Sampler {
    meminfo: Option<KeptFile>,
    /// Of the machine, then of the control group.
    pressure: [Option<KeptFile>; 2 * RESOURCES.len()],
    /// Why columns are missing.
    absences: Vec<String>,
    before: Option<(u64, [Option<PressureLine>; LINES])>,
    buffer: Vec<u8>,
}

impl Sampler {
    fn open(root: &Root) -> Self {
        let mut absences = Vec::new();
        let mut open = |path: &str| KeptFile::open(root.path(path)).map_err(|reason| absences.push(reason)).ok();
        let meminfo = open("proc/meminfo");
        let [cpu, memory, io] = RESOURCES.map(|resource| open(&format!("proc/pressure/{resource}")));
        // Not every control group has them, which is no loss: the machine's are there.
        let group = own_group(root);
        let of_group =
            |resource: &str| KeptFile::open(root.path(&format!("{}/{resource}.pressure", group.as_ref()?))).ok();
        let [group_cpu, group_memory, group_io] = RESOURCES.map(of_group);
        let pressure = [cpu, memory, io, group_cpu, group_memory, group_io];
        Self { meminfo, pressure, absences, before: None, buffer: Vec::new() }
    }

    fn sample(&mut self) -> Sample {
        let (timestamp_ns, buffer) = (monotonic_ns(), &mut self.buffer);
        let mut lines = [None; LINES];
        for (file, pair) in self.pressure.iter().zip(lines.chunks_exact_mut(2)) {
            let text = file.as_ref().and_then(|file| file.read(buffer).ok());
            if let Some(PressureReading { some, full }) = text.and_then(PressureReading::parse) {
                pair.copy_from_slice(&[Some(some), full]);
            }
        }
        let meminfo = self.meminfo.as_ref().and_then(|file| file.read(buffer).ok()).unwrap_or_default();
        let memory = MEMINFO_KEYS.map(|key| meminfo_bytes(meminfo, key));
        let stalls = std::array::from_fn(|index| {
            let now = lines[index]?;
            let before = self.before.and_then(|(before_ns, before)| Some((before_ns, before[index]?)));
            let since_pct =
                before.map(|(before_ns, before)| now.share_since(&before, seconds(timestamp_ns - before_ns)));
            Some(Stall { now, since_pct })
        });
        self.before = Some((timestamp_ns, lines));
        Sample { timestamp_ns, stalls, memory }
    }
}

/// The folder of this process's control group in the unified hierarchy (cgroup v2), without its leading slash.
fn own_group(root: &Root) -> Option<String> {
    let text = fs::read_to_string(root.path("proc/self/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(format!("sys/fs/cgroup/{path}"))
}

fn seconds(span_ns: u64) -> f64 {
    span_ns.max(1) as f64 / 1e9
}

fn batch(samples: &[Sample]) -> RecordBatch {
    let mut columns = vec![numbers::<UInt64Type, _>(samples, |sample| Some(sample.timestamp_ns))];
    for line in 0..LINES {
        columns.push(numbers::<Float64Type, _>(samples, |sample| sample.stalls[line]?.since_pct));
        columns.push(numbers::<Float64Type, _>(samples, |sample| Some(sample.stalls[line]?.now.avg10_pct)));
        columns.push(numbers::<UInt64Type, _>(samples, |sample| Some(sample.stalls[line]?.now.total_us)));
    }
    for key in 0..MEMINFO_KEYS.len() {
        columns.push(numbers::<UInt64Type, _>(samples, |sample| sample.memory[key]));
    }
    RecordBatch::try_new(Table::Own(&TABLE).schema(), columns).expect("the columns are the schema's, in order")
}

/// Samples of a run on their way into `raw/`.
struct PressureWatch {
    /// None if there is no thread to sample on.
    sampling: Option<AtIntervals<Sample>>,
    waiting: Vec<Sample>,
    written_at: Instant,
    stream: RawWriter,
    absences: Vec<String>,
}

impl PressureWatch {
    fn begin(run: &RunDir, mut sampler: Sampler, interval: Duration) -> Result<Self, StoreError> {
        let stream = run.raw_stream(NAME.name());
        let stream = RawWriter::create(&stream, Table::Own(&TABLE).schema(), RawCompression::None)?;
        let mut absences = std::mem::take(&mut sampler.absences);
        // Without the thread the run has no samples, and says so.
        let sampling = AtIntervals::start("dwell-pressure", interval, move || sampler.sample())
            .map_err(|error| absences.push(format!("starting the sampling thread failed with {error}")))
            .ok();
        Ok(Self { sampling, waiting: Vec::new(), written_at: Instant::now(), stream, absences })
    }

    fn write(&mut self) -> Result<(), StoreError> {
        self.written_at = Instant::now();
        self.waiting.extend(self.sampling.iter().flat_map(AtIntervals::take));
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.stream.write(&batch(&self.waiting))?;
        self.waiting.clear();
        self.stream.flush()
    }
}

impl Watching for PressureWatch {
    fn poll(&mut self) -> Result<bool, CollectError> {
        if self.written_at.elapsed() >= HAND_OVER_INTERVAL {
            self.write()?;
        }
        Ok(false)
    }

    fn end(mut self: Box<Self>) -> Result<CollectorEnd, StoreError> {
        let mut end = CollectorEnd::default();
        let missed = self.sampling.as_mut().map_or(0, AtIntervals::stop);
        end.lost(LossKind::MissedSamples, missed, "samples that were due");
        for reason in &self.absences {
            end.lost(LossKind::MissedSamples, 1, format!("columns are missing: {reason}"));
        }
        self.write()?;
        self.stream.finish()?;
        Ok(end)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use arrow_array::cast::AsArray;

    use super::*;

    /// A made machine, whose files can be written anew while they are kept open.
    struct Machine {
        dir: tempfile::TempDir,
    }

    impl Machine {
        fn new() -> Self {
            let machine = Self { dir: tempfile::tempdir().unwrap() };
            machine.write(
                "proc/meminfo",
                "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 300 kB\nCached: 200 kB\nSwapTotal: 50 kB\n\
                 SwapFree: 40 kB\nDirty: 7 kB\n",
            );
            machine
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn stalls(&self, path: &str, avg10: f64, some_us: u64, full_us: u64) {
            let line =
                |kind: &str, total: u64| format!("{kind} avg10={avg10:.2} avg60=0.00 avg300=0.00 total={total}\n");
            self.write(path, &format!("{}{}", line("some", some_us), line("full", full_us)));
        }

        fn sampler(&self) -> Sampler {
            Sampler::open(&Root::at(self.dir.path()))
        }
    }

    fn number<T: arrow_array::types::ArrowPrimitiveType>(batch: &RecordBatch, name: &str) -> Vec<Option<T::Native>> {
        batch.column_by_name(name).unwrap().as_primitive::<T>().iter().collect()
    }

    #[test]
    fn stalls_and_memory_are_those_of_the_files() {
        let machine = Machine::new();
        machine.write("proc/self/cgroup", "3:cpuset:/\n0::/runs/one\n");
        for resource in RESOURCES {
            machine.stalls(&format!("proc/pressure/{resource}"), 12.5, 1_000_000, 500);
        }
        machine.stalls("sys/fs/cgroup/runs/one/memory.pressure", 1.0, 70, 60);
        let mut sampler = machine.sampler();
        assert!(sampler.absences.is_empty(), "{:?}", sampler.absences);
        let first = sampler.sample();
        machine.stalls("proc/pressure/memory", 25.0, 1_400_000, 500);
        machine.write("proc/meminfo", "MemFree: 60 kB\nMemAvailable: 260 kB\n");
        let second = sampler.sample();
        let rows = batch(&[first, second]);
        let us = |name: &str| number::<UInt64Type>(&rows, name);
        assert_eq!(us("memory_some_total_us"), [Some(1_000_000), Some(1_400_000)]);
        assert_eq!(us("memory_full_total_us"), [Some(500), Some(500)]);
        assert_eq!(us("cgroup_memory_some_total_us"), [Some(70), Some(70)]);
        assert_eq!(us("cgroup_cpu_some_total_us"), [None, None]);
        assert_eq!(us("free_bytes"), [Some(100 << 10), Some(60 << 10)]);
        assert_eq!(us("available_bytes"), [Some(300 << 10), Some(260 << 10)]);
        assert_eq!(us("dirty_bytes"), [Some(7 << 10), None]);
        assert_eq!(us("swap_total_bytes"), [Some(50 << 10), None]);
        assert_eq!(us("swap_free_bytes"), [Some(40 << 10), None]);
        assert_eq!(number::<Float64Type>(&rows, "memory_some_avg10_pct"), [Some(12.5), Some(25.0)]);
        let times = us("timestamp_ns");
        assert!(times[0] < times[1]);
    }

    #[test]
    fn a_stall_of_a_tenth_of_the_time_is_ten_percent() {
        let line = |total_us| PressureLine { avg10_pct: 0.0, total_us };
        assert_eq!(line(15_000).share_since(&line(5_000), seconds(100_000_000)), 10.0);
        assert_eq!(line(5_000).share_since(&line(5_000), seconds(100_000_000)), 0.0);
    }

    #[test]
    fn without_pressure_information_stalls_are_missing_and_named_and_memory_is_there() {
        let machine = Machine::new();
        let mut sampler = machine.sampler();
        assert_eq!(sampler.absences.len(), 3, "{:?}", sampler.absences);
        assert!(sampler.absences[0].contains("proc/pressure/cpu"), "{:?}", sampler.absences);
        let rows = batch(&[sampler.sample(), sampler.sample()]);
        assert_eq!(number::<Float64Type>(&rows, "cpu_some_pct"), [None, None]);
        assert_eq!(number::<UInt64Type>(&rows, "io_full_total_us"), [None, None]);
        assert_eq!(number::<UInt64Type>(&rows, "free_bytes"), [Some(100 << 10); 2]);
    }

    #[test]
    fn a_kernel_without_full_stalls_of_processors_leaves_them_out() {
        let machine = Machine::new();
        machine.write("proc/pressure/cpu", "some avg10=1.00 avg60=0.00 avg300=0.00 total=7\n");
        let rows = batch(&[machine.sampler().sample()]);
        assert_eq!(number::<UInt64Type>(&rows, "cpu_some_total_us"), [Some(7)]);
        assert_eq!(number::<UInt64Type>(&rows, "cpu_full_total_us"), [None]);
    }
}
