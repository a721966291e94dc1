//! perf.data: recordings of `perf mem record`, read without perf.

use std::io::Read;
use std::path::Path;

use dwell_collectors::{Programs, recording_losses};
use dwell_decode::code::{Code, SampledCode};
use dwell_decode::error::{DecodeError, DecodeReason};
use dwell_decode::perf_data::{PerfData, Record, Recording, RecordingClock, Sample};
use dwell_decode::symbols::ObjectCounts;
use dwell_events::ClockAnchor;
use dwell_files::object_bytes;
use dwell_metadata::RunMetadata;
use dwell_store::{RunDir, utc_text};

use super::accesses::RowOrder;
use super::perf::{self, PerfAccess, PerfRecording, PerfRun, PerfSink};
use super::{ImportError, ImportOption, ImportRequest, Imported, Importer};

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
    let (objects, cut) = take_samples(&mut data, Programs::other_than(None), &mut sink)?;
    // What came before is good, so a recording that was cut is worth importing.
    if let Some(error) = cut.as_ref().filter(|error| !error.is_truncation()) {
        return Err(refused(path, error));
    }
    let recording = data.recording();
    let mut perf_run = sink.finish(request, described(recording, objects))?;
    perf_run.loss.extend(recording_losses(perf::SOURCE, recording, cut.as_ref()));
    Ok(imported(perf_run, recording))
}

/// Takes the samples of these programs until the recording ends or cannot be read further. Returns the counts of object files by
/// outcome, and the error that stopped reading, if any.
pub(crate) fn take_samples(
    data: &mut PerfData<impl Read>,
    mut programs: Programs,
    sink: &mut PerfSink<'_>,
) -> Result<(ObjectCounts, Option<DecodeError>), ImportError> {
    let mut code = SampledCode::new(object_bytes);
    let cut = loop {
        match data.next_record() {
            Ok(None) => break None,
            Err(error) => break Some(error),
            Ok(Some(&Record::Sample(sample))) => {
                if sample.process().is_none_or(|process| programs.has(process.pid)) {
                    push(&sample, data.recording(), &mut code, sink)?;
                }
            }
            Ok(Some(other)) => {
                code.take(other);
                programs.take(other);
            }
        }
    };
    Ok((code.objects(), cut))
}

/// Takes a sample, with the function and the file of its instruction.
fn push<L: FnMut(&str) -> Option<Vec<u8>>>(
    sample: &Sample,
    recording: &Recording,
    code: &mut SampledCode<L>,
    sink: &mut PerfSink<'_>,
) -> Result<(), ImportError> {
    let event = recording.events.get(sample.event());
    let found = code.of(sample, recording);
    let fixed_period = event.and_then(|event| event.fixed_period());
    sink.push(&PerfAccess {
        time_ns: sample.time_ns(),
        address: sample.address(),
        data_source: sample.data_source(),
        event: event.map_or("", |event| &event.name),
        cycles: sample.weight().map(|weight| weight.access_cycles()),
        symbol: code.symbol(found),
        dso: code.dso(found),
        cpu: sample.cpu(),
        thread: sample.process().map(|process| process.tid),
        period: sample.period().or(fixed_period).unwrap_or(0),
        alike: alike(sample, found),
    })
}

/// Event, name and file of a sample in one number, and its data source; none if one of them has more bits than are kept
/// for it.
#[inline]
fn alike(sample: &Sample, Code { name, place }: Code) -> Option<(u64, u64)> {
    let (event, file) = (sample.event() as u64, place.map_or(0, |place| place.file.index() as u64 + 1));
    let source = sample.data_source().map(|source| source.0);
    let fits = event < 1 << 15 && name < 1 << 24 && file < 1 << 24;
    let numbers = event << 1 | u64::from(source.is_some()) | u64::from(name) << 16 | file << 40;
    fits.then_some((numbers, source.unwrap_or(0)))
}

pub(crate) fn described(recording: &Recording, objects: ObjectCounts) -> PerfRecording {
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
