//! The `energy` collector: what the machine's meters of energy add up before and during a run.
//!
//! What makes its numbers wrong or missing:
//! - Meters are of the machine. Whatever else runs is in them, dwell too, and nothing divides them among programs.
//! - The power of the idle machine is what it took before the run, with whatever ran then.
//! - RAPL is a model or a measurement by generation of processor, and leaves out disks, fans and the losses of the supply.
//! - Counters move in steps (RAPL 1 ms, NVIDIA 20 to 100 ms), so that the energy of a shorter time is not known.
//! - Where there is power and no counter, peaks between two samples are missed.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_schema::DataType;
use dwell_events::host::Outcome;
use dwell_events::schema::{ColumnSpec, TEXT, Table, TableSpec, numbers, words};
use dwell_events::{Basis, CollectorName, EnergyBasis, EnergyMeterName, EnergyPart, LossKind};
use dwell_host::{EnergyMeters, EnergyReading, Root};
use dwell_metadata::{CollectorEnd, RunRecord, RunRequest};
use dwell_store::{RawCompression, RawWriter, RunDir, StoreError, TableWriter, number_at, text_at};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::at_intervals::AtIntervals;
use crate::batches::each_batch;
use crate::{BuiltTable, CheckPlace, CollectError, Collected, Collector, Description, Wanted, Watching, read_settings};

const NAME: CollectorName = CollectorName::of("energy");
/// How long samples may wait in memory, which is what a kill of the observer can lose of them.
const HAND_OVER_INTERVAL: Duration = Duration::from_secs(1);
/// What the column `during` says of samples before the run.
const IDLE: &str = "idle";
const RUN: &str = "run";
const NO_METER: &str = "this machine has no meter of energy: no RAPL counters, no GPU of NVIDIA, no sensors of energy or power, no \
                        battery";

static TABLE: TableSpec = TableSpec {
    name: "energy",
    columns: &[
        column("timestamp_ns", DataType::UInt64, false, "ns", "when the meter was read"),
        column("during", TEXT, false, "", "`idle`: before the run; `run`: from then on"),
        column(
            "source",
            TEXT,
            false,
            "",
            "the meter: `rapl:<zone>`, `nvml:<GPU>`, `hwmon:<driver>:<sensor>` or `battery:<name>`",
        ),
        column(
            "part",
            TEXT,
            false,
            "",
            "what it covers: `processor`, `memory`, `gpu`, `platform`, `battery`, `inside_processor` or `sensor`",
        ),
        column(
            "basis",
            TEXT,
            false,
            "",
            "`counter`: the hardware adds the energy up; `power`: power times the time between samples",
        ),
        column("joules", DataType::Float64, false, "J", "energy since the first sample of the meter"),
        column(
            "watts",
            DataType::Float64,
            true,
            "W",
            "power since the sample before, or at this moment if the basis is `power`; missing if it is not known",
        ),
    ],
};

const fn column(
    name: &'static str,
    data_type: DataType,
    nullable: bool,
    unit: &'static str,
    meaning: &'static str,
) -> ColumnSpec {
    ColumnSpec { name, data_type, nullable, unit, meaning }
}

/// Meters of energy.
pub(crate) struct Energy;

#[derive(Serialize, Deserialize)]
struct Settings {
    /// Time between two samples.
    sample_interval_ms: u64,
}

impl Collector for Energy {
    fn description(&self) -> &'static Description {
        &Description {
            name: NAME,
            observes: "energy that the machine takes, by processor package, memory, GPU and other meters, while idle and during the run",
            basis: Basis::Sampled,
            cost: "one read of a file for each meter and sample, about 5 µs each; a GPU's is the driver's",
            needs: "RAPL counters that this user may read, a GPU of NVIDIA, sensors of energy or power in hwmon, or a battery",
            tried: "all meters are read; `degraded` if one that is there cannot be",
        }
    }

    fn check(&self, place: &CheckPlace<'_>) -> Outcome {
        let mut meters = EnergyMeters::open(&place.root);
        let (readings, failures) = meters.read();
        let names: Vec<&str> = meters.names().map(|name| name.source.as_str()).collect();
        let refusal = meters.refusals().first();
        let reason = refusal.map(|refusal| refusal.reason.clone()).or_else(|| failures.first().cloned());
        let outcome = match (readings.is_empty(), reason) {
            (true, None) => return Outcome::absent(NO_METER),
            (true, Some(reason)) => Outcome::fails(reason),
            (false, None) => return Outcome::works(format!("read {}", names.join(", "))),
            (false, Some(reason)) => Outcome::degraded(format!("read {}; {reason}", names.join(", "))),
        };
        match refusal.and_then(|refusal| refusal.remedy) {
            Some(remedy) => outcome.remedy(remedy),
            None => outcome,
        }
    }

    fn settings(&self, wanted: &Wanted<'_>) -> Value {
        json!(Settings { sample_interval_ms: wanted.sample_interval_ms })
    }

    fn begin(&self, run: &RunDir, request: &RunRequest, settings: &Value) -> Result<Box<dyn Watching>, CollectError> {
        let Settings { sample_interval_ms } = read_settings(NAME, settings)?;
        let interval = Duration::from_millis(sample_interval_ms.max(1));
        let idle = Duration::from_millis(request.baseline_ms);
        Ok(Box::new(EnergyWatch::begin(run, EnergyMeters::open(&Root::default()), interval, idle)?))
    }

    fn build(&self, run: &RunDir, record: &RunRecord, collected: &mut Collected) -> Result<(), StoreError> {
        if !record.request.collectors.has(NAME) {
            return Ok(());
        }
        let mut table = TableWriter::create_with(run.path(), Table::Own(&TABLE), record.request.build.compression)?;
        let damaged = each_batch(&run.raw_stream(NAME.name()), |batch| {
            note(&batch, collected);
            table.write(&batch)
        })?;
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

/// Adds rows of the table to what the report is made from.
fn note(batch: &RecordBatch, collected: &mut Collected) {
    for row in 0..batch.num_rows() {
        let text = |column| text_at(batch, column, row).unwrap_or_default();
        let part = EnergyPart::from_name(text("part")).unwrap_or(EnergyPart::Sensor);
        let basis = EnergyBasis::from_name(text("basis")).unwrap_or(EnergyBasis::Power);
        let name = EnergyMeterName { source: text("source").to_owned(), part, basis };
        let timestamp_ns = number_at::<UInt64Type>(batch, "timestamp_ns", row);
        if let Some((timestamp_ns, joules)) = timestamp_ns.zip(number_at::<Float64Type>(batch, "joules", row)) {
            collected.energy.push(&name, timestamp_ns, joules, text("during") == IDLE);
        }
    }
}

/// One sample of all meters: what they said, and why others said nothing.
type Look = (Vec<EnergyReading>, Vec<String>);

struct EnergyRow<'a> {
    reading: EnergyReading,
    name: &'a EnergyMeterName,
    during: &'static str,
}

fn batch(rows: &[EnergyRow<'_>]) -> RecordBatch {
    let columns = vec![
        numbers::<UInt64Type, _>(rows, |row| Some(row.reading.timestamp_ns)),
        words(rows, |row| row.during),
        words(rows, |row| &row.name.source),
        words(rows, |row| row.name.part.name()),
        words(rows, |row| row.name.basis.name()),
        numbers::<Float64Type, _>(rows, |row| Some(row.reading.joules)),
        numbers::<Float64Type, _>(rows, |row| row.reading.watts),
    ];
    RecordBatch::try_new(Table::Own(&TABLE).schema(), columns).expect("the columns are the schema's, in order")
}

/// Samples of the idle machine for this long, the first and the last at its ends.
fn idle_looks(meters: &mut EnergyMeters, interval: Duration, idle: Duration) -> Vec<Look> {
    if idle.is_zero() || meters.names().next().is_none() {
        return Vec::new();
    }
    let begin = Instant::now();
    let mut looks = vec![meters.read()];
    while let Some(left) = idle.checked_sub(begin.elapsed()).filter(|left| !left.is_zero()) {
        thread::sleep(left.min(interval));
        looks.push(meters.read());
    }
    looks
}

/// Samples of a run on their way into `raw/`.
struct EnergyWatch {
    names: Vec<EnergyMeterName>,
    /// None if there is no thread to sample on.
    sampling: Option<AtIntervals<Look>>,
    written_at: Instant,
    stream: RawWriter,
    absences: Vec<String>,
    /// How often a meter could not be read, by the reason.
    failures: BTreeMap<String, u64>,
}

impl EnergyWatch {
    /// Returns when the power of the idle machine was measured for this time.
    fn begin(run: &RunDir, mut meters: EnergyMeters, interval: Duration, idle: Duration) -> Result<Self, StoreError> {
        let stream = run.raw_stream(NAME.name());
        let stream = RawWriter::create(&stream, Table::Own(&TABLE).schema(), RawCompression::None)?;
        let names: Vec<EnergyMeterName> = meters.names().cloned().collect();
        let mut absences: Vec<String> = meters.refusals().iter().map(|refusal| refusal.reason.clone()).collect();
        if names.is_empty() && absences.is_empty() {
            absences.push(NO_METER.to_owned());
        }
        let of_idle = idle_looks(&mut meters, interval, idle);
        let sampling = AtIntervals::start("dwell-energy", interval, move || meters.read())
            .map_err(|error| absences.push(format!("starting the sampling thread failed with {error}")))
            .ok();
        let failures = BTreeMap::new();
        let mut watch = Self { names, sampling, written_at: Instant::now(), stream, absences, failures };
        watch.write(of_idle, IDLE)?;
        Ok(watch)
    }

    fn write_taken(&mut self) -> Result<(), StoreError> {
        self.written_at = Instant::now();
        let taken: Vec<Look> = self.sampling.iter().flat_map(AtIntervals::take).collect();
        self.write(taken, RUN)
    }

    fn write(&mut self, looks: Vec<Look>, during: &'static str) -> Result<(), StoreError> {
        let mut rows = Vec::new();
        for (readings, failures) in looks {
            rows.extend(readings.into_iter().map(|reading| EnergyRow {
                name: &self.names[reading.meter],
                reading,
                during,
            }));
            failures.into_iter().for_each(|reason| *self.failures.entry(reason).or_default() += 1);
        }
        if rows.is_empty() {
            return Ok(());
        }
        self.stream.write(&batch(&rows))?;
        self.stream.flush()
    }
}

impl Watching for EnergyWatch {
    fn poll(&mut self) -> Result<bool, CollectError> {
        if self.written_at.elapsed() >= HAND_OVER_INTERVAL {
            self.write_taken()?;
        }
        Ok(false)
    }

    fn end(mut self: Box<Self>) -> Result<CollectorEnd, StoreError> {
        let mut end = CollectorEnd::default();
        let missed = self.sampling.as_mut().map_or(0, AtIntervals::stop);
        end.lost(LossKind::MissedSamples, missed, "samples that were due");
        self.write_taken()?;
        for reason in &self.absences {
            end.lost(LossKind::MissedSamples, 1, format!("all samples of a meter: {reason}"));
        }
        for (reason, count) in &self.failures {
            end.lost(LossKind::MissedSamples, *count, format!("samples of {reason}"));
        }
        self.stream.finish()?;
        Ok(end)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use std::fs;
    use std::path::Path;

    use dwell_store::RawReader;

    use super::*;

    const ZONE: &str = "sys/class/powercap/intel-rapl:0";

    fn write(dir: &Path, path: &str, text: &str) {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn machine() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &format!("{ZONE}/name"), "package-0\n");
        write(dir.path(), &format!("{ZONE}/max_energy_range_uj"), "9000000\n");
        write(dir.path(), &format!("{ZONE}/energy_uj"), "7000000\n");
        dir
    }

    fn rows(run: &RunDir) -> Vec<(String, f64)> {
        let batches = RawReader::open(&run.raw_stream("energy")).unwrap();
        let of_batch = |batch: RecordBatch| -> Vec<(String, f64)> {
            let row = |row| {
                let joules = number_at::<Float64Type>(&batch, "joules", row).unwrap();
                (text_at(&batch, "during", row).unwrap().to_owned(), joules)
            };
            (0..batch.num_rows()).map(row).collect()
        };
        batches.flat_map(|batch| of_batch(batch.unwrap())).collect()
    }

    /// What happens to the machine comes after it was idle and before the last sample.
    fn watched(machine: &Path, idle: Duration, change: impl FnOnce(&Path)) -> (Vec<(String, f64)>, CollectorEnd) {
        let place = tempfile::tempdir().unwrap();
        let run = RunDir::create(place.path(), "model", "run").unwrap();
        let meters = EnergyMeters::open(&Root::at(machine));
        let watch = EnergyWatch::begin(&run, meters, Duration::from_secs(3600), idle).unwrap();
        change(machine);
        let end = Box::new(watch).end().unwrap();
        (rows(&run), end)
    }

    #[test]
    fn samples_before_the_run_are_of_the_idle_machine_and_a_counter_that_begins_anew_goes_on() {
        let machine = machine();
        let change = |dir: &Path| write(dir, &format!("{ZONE}/energy_uj"), "500000\n");
        let (found, end) = watched(machine.path(), Duration::from_millis(20), change);
        // 2 J to the end of the range, 0.5 J after it.
        assert_eq!(found[..2], [("idle".to_owned(), 0.0), ("idle".to_owned(), 0.0)]);
        assert_eq!(found.last(), Some(&("run".to_owned(), 2.5)));
        assert!(end.losses.is_empty(), "{end:?}");
        let (found, _) = watched(machine.path(), Duration::ZERO, |_| {});
        assert!(found.iter().all(|row| row.0 == "run"), "nobody wanted to know the idle machine: {found:?}");
    }

    #[test]
    fn a_meter_that_vanishes_is_a_loss_with_its_name_and_keeps_its_samples() {
        let machine = machine();
        let vanish = |dir: &Path| write(dir, &format!("{ZONE}/energy_uj"), "gone\n");
        let (found, end) = watched(machine.path(), Duration::from_millis(20), vanish);
        assert_eq!(found[..2], [("idle".to_owned(), 0.0), ("idle".to_owned(), 0.0)]);
        let detail = &end.losses[0].detail;
        assert!(detail.starts_with("samples of rapl:package-0: ") && detail.contains("no number"), "{end:?}");
    }

    #[test]
    fn a_machine_without_meters_is_a_loss_and_the_run_goes_on() {
        let machine = tempfile::tempdir().unwrap();
        let (found, end) = watched(machine.path(), Duration::from_secs(3600), |_| {});
        assert!(found.is_empty());
        assert!(end.losses[0].detail.contains("no meter of energy"), "{end:?}");
    }

    #[test]
    fn what_doctor_says_names_meters_and_what_would_allow_them() {
        let check = |root: &Path| {
            let run_small_model = |_: &Path| Ok(0);
            let place = CheckPlace { root: Root::at(root), results: root, run_small_model: &run_small_model };
            crate::check(&Energy, &place)
        };
        let machine = machine();
        let works = check(machine.path());
        assert_eq!(works.failure(), None);
        assert!(works.found.contains("rapl:package-0"), "{works:?}");
        fs::remove_file(machine.path().join(format!("{ZONE}/energy_uj"))).unwrap();
        let refused = check(machine.path());
        assert!(refused.remedy.as_deref().is_some_and(|remedy| remedy.contains("chmod a+r")), "{refused:?}");
        fs::remove_dir_all(machine.path().join("sys")).unwrap();
        assert!(check(machine.path()).found.contains("no meter of energy"));
    }
}
