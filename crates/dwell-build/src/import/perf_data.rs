//! perf.data: recordings of `perf mem record`, read without perf.

use std::fs;
use std::io::Read;
use std::path::Path;

use dwell_decode::error::{DecodeError, DecodeReason};
use dwell_decode::perf_data::{AddressSpaces, CpuMode, Mapping, PerfData, Record, Recording, RecordingClock, Sample};
use dwell_decode::symbols::{ObjectCounts, Symbols};
use dwell_events::schema::loss::LossRow;
use dwell_events::{ClockAnchor, LossKind};
use dwell_metadata::RunMetadata;
use dwell_store::{RunDir, utc_text};

use super::accesses::RowOrder;
use super::perf::{self, PerfAccess, PerfRecording, PerfRun, PerfSink};
use super::{ImportError, ImportOption, ImportRequest, Imported, Importer};

/// The largest file that is read for its symbols. The largest libraries of GPU runtimes have about 2 GiB, nearly all of
/// it code of GPUs; functions of larger ones are not named.
const MAX_OBJECT_BYTES: u64 = 2 << 30;

/// CLOCK_MONOTONIC, dwell's clock.
const MONOTONIC: i32 = 1;

/// perf.data.
pub(super) struct PerfDataImport;

impl Importer for PerfDataImport {
    fn name(&self) -> &'static str {
        "perf-data"
    }

    fn about(&self) -> &'static str {
        "A perf.data file of `perf mem record`: sampled loads and stores"
    }

    fn files_help(&self) -> &'static str {
        "A perf.data file, also compressed (`perf record -z`); `-` for the standard input (`perf record -o -`)"
    }

    fn options(&self) -> &'static [ImportOption] {
        &perf::OPTIONS
    }

    fn import(&self, request: &ImportRequest, run: &RunDir) -> Result<Imported, ImportError> {
        let path = perf::only_file(request)?;
        let refused = |error: DecodeError| refused(path, &error);
        if perf::is_stdin(path) {
            return import(PerfData::stream(perf::open(path)?).map_err(refused)?, path, request, run);
        }
        import(PerfData::open(perf::open_file(path)?).map_err(refused)?, path, request, run)
    }
}

fn refused(path: &Path, error: &DecodeError) -> ImportError {
    let hints = match error.reason {
        DecodeReason::Unsupported(_) => vec!["print it where it was recorded, and import the text: `perf script --ns -F \
                                              comm,pid,tid,cpu,time,period,event,addr,ip,sym,dso,weight,data_src >FILE`, \
                                              `dwell import perf-script FILE`".to_owned()],
        DecodeReason::Read(_) => Vec::new(),
        _ => vec![format!(
            "if perf reads the file (`perf script --header-only -i {}`), import its text: `perf script --ns -F \
             comm,pid,tid,cpu,time,period,event,addr,ip,sym,dso,weight,data_src >FILE`, `dwell import perf-script FILE`; if not, \
             copy the recording again",
            path.display()
        )],
    };
    perf::undecodable(path, error, hints)
}

fn import(
    mut data: PerfData<impl Read>,
    path: &Path,
    request: &ImportRequest,
    run: &RunDir,
) -> Result<Imported, ImportError> {
    // The decoder puts records in order as far as the rounds of the recording allow.
    let mut sink = PerfSink::create(run, request, RowOrder::ByTime)?;
    let mut functions = Functions::new();
    let cut = loop {
        match data.next_record() {
            Ok(None) => break None,
            // What came before is good, so a recording that was cut is worth importing.
            Err(error) if error.is_truncation() => break Some(error),
            Err(error) => return Err(refused(path, &error)),
            Ok(Some(&Record::Sample(sample))) => functions.push(&sample, data.recording(), &mut sink)?,
            Ok(Some(other)) => functions.spaces.take(other),
        }
    };
    let recording = data.recording();
    let mut perf_run = sink.finish(request, described(recording, functions.symbols.counts))?;
    perf_run.loss.extend(losses(recording, cut.as_ref()));
    Ok(imported(perf_run, recording))
}

/// Finds the function and the file of each sampled instruction.
struct Functions<L> {
    spaces: AddressSpaces,
    symbols: Symbols<L>,
}

/// The bytes of a program or library, if it is here.
pub(super) fn object_bytes(path: &str) -> Option<Vec<u8>> {
    let is_readable = fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MAX_OBJECT_BYTES);
    is_readable.then(|| fs::read(path).ok()).flatten()
}

impl Functions<fn(&str) -> Option<Vec<u8>>> {
    fn new() -> Self {
        Self { spaces: AddressSpaces::default(), symbols: Symbols::new(object_bytes) }
    }

    fn push(&mut self, sample: &Sample, recording: &Recording, sink: &mut PerfSink<'_>) -> Result<(), ImportError> {
        let process = sample.process();
        let pid = if sample.mode() == CpuMode::Kernel { Some(Mapping::KERNEL_PID) } else { process.map(|it| it.pid) };
        let place = pid.zip(sample.ip()).and_then(|(pid, ip)| self.spaces.find(pid, ip));
        let event = recording.events.get(sample.event());
        let name = place.map_or(0, |place| self.symbols.number_of(place, &self.spaces, recording));
        let fixed_period = event.and_then(|event| event.fixed_period());
        sink.push(&PerfAccess {
            time_ns: sample.time_ns(),
            address: sample.address(),
            data_source: sample.data_source(),
            event: event.map_or("", |event| &event.name),
            cycles: sample.weight().map(|weight| weight.access_cycles()),
            symbol: self.symbols.name(name),
            dso: place.map_or("", |place| self.spaces.name(place.file)),
            cpu: sample.cpu(),
            thread: process.map(|process| process.tid),
            period: sample.period().or(fixed_period).unwrap_or(0),
            alike: alike(sample, name, place.map(|place| place.file.index())),
        })
    }
}

/// Event, name and file of a sample in one number, and its data source; none if one of them has more bits than are kept
/// for it.
#[inline]
fn alike(sample: &Sample, name: u32, file: Option<usize>) -> Option<(u64, u64)> {
    let (event, file) = (sample.event() as u64, file.map_or(0, |file| file as u64 + 1));
    let source = sample.data_source().map(|source| source.0);
    let fits = event < 1 << 15 && name < 1 << 24 && file < 1 << 24;
    let numbers = event << 1 | u64::from(source.is_some()) | u64::from(name) << 16 | file << 40;
    fits.then_some((numbers, source.unwrap_or(0)))
}

fn described(recording: &Recording, objects: ObjectCounts) -> PerfRecording {
    let objects = [
        ("named", objects.used),
        ("missing", objects.missing),
        ("changed", objects.changed),
        ("unverified", objects.unverified),
    ];
    PerfRecording {
        form: "perf.data",
        clock: clock_name(recording.clock()),
        hostname: recording.hostname.clone(),
        os_release: recording.os_release.clone(),
        cpu: recording.cpu_description.clone(),
        perf_version: recording.perf_version.clone(),
        recorded_with: recording.command_line.clone(),
        objects: Some(objects.into()),
    }
}

/// Names of `clock_gettime`'s clocks that the kernel offers for perf.
fn clock_name(clock: RecordingClock) -> String {
    match clock {
        RecordingClock::Scheduler => "scheduler".to_owned(),
        RecordingClock::Posix(0) => "CLOCK_REALTIME".to_owned(),
        RecordingClock::Posix(MONOTONIC) => "CLOCK_MONOTONIC".to_owned(),
        RecordingClock::Posix(4) => "CLOCK_MONOTONIC_RAW".to_owned(),
        RecordingClock::Posix(7) => "CLOCK_BOOTTIME".to_owned(),
        RecordingClock::Posix(11) => "CLOCK_TAI".to_owned(),
        RecordingClock::Posix(other) => format!("clock {other}"),
    }
}

fn losses(recording: &Recording, cut: Option<&DecodeError>) -> Vec<LossRow> {
    let counts = &recording.counts;
    // The kernel counts samples that did not fit into a buffer in both ways, so the larger number has them all.
    let lost = counts.lost_records.max(counts.lost_samples);
    let lost_detail = format!("{} records, {} samples, by the two counts", counts.lost_records, counts.lost_samples);
    let unfinished = recording.is_unfinished.then(|| "perf record did not finish the file".to_owned());
    let rows = [
        perf::loss(LossKind::LostSamples, lost, lost_detail),
        perf::loss(
            LossKind::UndecodableRecords,
            counts.short_records,
            "records that end before their last field".into(),
        ),
        perf::loss(
            LossKind::UndecodableRecords,
            counts.samples_of_unknown_events,
            "samples of events that the recording does not describe".into(),
        ),
        perf::loss(LossKind::MissedSamples, counts.throttled, "the kernel stopped sampling for a while".into()),
        perf::loss(
            LossKind::UndecodableRecords,
            u64::from(counts.auxtrace_bytes > 0),
            format!("{} bytes of traces by other units, such as Arm SPE", counts.auxtrace_bytes),
        ),
        perf::loss(
            LossKind::UndecodableRecords,
            cut.iter().len() as u64,
            cut.map_or(String::new(), ToString::to_string),
        ),
        perf::loss(LossKind::ObserverDied, unfinished.iter().len() as u64, unfinished.unwrap_or_default()),
    ];
    rows.into_iter().filter(|row| row.count > 0).collect()
}

fn imported(run: PerfRun, recording: &Recording) -> Imported {
    let anchor = recording.clock_data.filter(|data| data.clock_id == MONOTONIC);
    let clock = anchor.map(|data| ClockAnchor { monotonic_ns: data.clock_ns, unix_ns: data.wall_ns });
    let first_ns = recording.sample_time_ns.map(|(first, _)| first);
    let started = clock.zip(first_ns).map(|(clock, first_ns)| clock.unix_ns_at(first_ns));
    run.imported(RunMetadata {
        started_at_utc: started.map_or(String::new(), |unix_ns| utc_text(unix_ns / 1_000_000_000)),
        clock,
        ..RunMetadata::default()
    })
}
