//! The text of `perf script`, for recordings of other machines and of other versions of perf.

use dwell_decode::error::DecodeError;
use dwell_decode::perf_script::{PerfScript, Reason, ScriptCounts, ScriptSample, SkippedLines};
use dwell_events::LossKind;
use dwell_events::schema::loss::LossRow;
use dwell_metadata::RunMetadata;
use dwell_store::RunDir;

use super::accesses::RowOrder;
use super::perf::{self, PerfAccess, PerfRecording, PerfSink};
use super::{ImportError, ImportOption, ImportRequest, Imported, Importer};

/// The text of `perf script`.
pub(super) struct PerfScriptImport;

impl Importer for PerfScriptImport {
    fn name(&self) -> &'static str {
        "perf-script"
    }

    fn about(&self) -> &'static str {
        "The text that `perf script` prints of a `perf mem record`: sampled loads and stores"
    }

    fn files_help(&self) -> &'static str {
        "The text, with at least the fields time and addr; data_src, weight, event, period, tid, cpu, ip, sym and dso are \
         read too. `-` for the standard input"
    }

    fn options(&self) -> &'static [ImportOption] {
        &perf::OPTIONS
    }

    fn import(&self, request: &ImportRequest, run: &RunDir) -> Result<Imported, ImportError> {
        let path = perf::only_file(request)?;
        let mut sink = PerfSink::create(run, request, RowOrder::NearlyByTime)?;
        let mut script = PerfScript::new(perf::open(path)?);
        let read = script.read(|sample| sink.push(&access(sample)).map_err(Failure::Import));
        read.map_err(|failure| match failure {
            Failure::Decode(error) => perf::undecodable(path, &error, Vec::new()),
            Failure::Import(error) => error,
        })?;
        let counts = script.counts();
        if counts.samples == 0 {
            return Err(no_samples(path, counts));
        }
        let recording = PerfRecording { form: "perf script", clock: "unknown".to_owned(), ..PerfRecording::default() };
        let mut perf_run = sink.finish(request, recording)?;
        perf_run.loss.extend(losses(counts));
        Ok(perf_run.imported(RunMetadata::default()))
    }
}

enum Failure {
    Decode(DecodeError),
    Import(ImportError),
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

fn access<'a>(sample: &ScriptSample<'a>) -> PerfAccess<'a> {
    PerfAccess {
        time_ns: Some(sample.time_ns),
        address: Some(sample.address),
        data_source: sample.data_source,
        event: sample.event,
        cycles: sample.weight,
        symbol: sample.symbol,
        dso: sample.dso,
        cpu: sample.cpu,
        thread: sample.tid,
        period: sample.period.unwrap_or(0),
        alike: sample.alike,
    }
}

fn losses(counts: &ScriptCounts) -> Vec<LossRow> {
    let skipped = |(reason, lines): (&Reason, &SkippedLines)| {
        // Records of other kinds were asked for and are understood.
        let is_loss = *reason != Reason::OtherRecord;
        is_loss.then(|| perf::loss(LossKind::UndecodableRecords, lines.count, described(*reason, lines)))
    };
    let mut rows: Vec<LossRow> = counts.skipped.iter().filter_map(skipped).collect();
    if counts.lost_records > 0 {
        rows.push(perf::loss(LossKind::LostSamples, counts.lost_records, "records, as the text says".to_owned()));
    }
    rows
}

fn described(reason: Reason, lines: &SkippedLines) -> String {
    let first =
        lines.first.first().map_or(String::new(), |(number, text)| format!("; the first, line {number}: {text}"));
    format!("lines with {}{first}", reason.text())
}

fn no_samples(path: &std::path::Path, counts: &ScriptCounts) -> ImportError {
    let most = counts.skipped.iter().max_by_key(|(_, lines)| lines.count);
    let found =
        most.map_or("no line".to_owned(), |(reason, lines)| format!("{} {}", lines.count, described(*reason, lines)));
    ImportError::Refused {
        message: format!("importing {} needs lines with a time and an address, and found {found}", path.display()),
        hints: vec![
            "print them with `perf script --ns -F comm,pid,tid,cpu,time,period,event,addr,ip,sym,dso,weight,data_src`"
                .to_owned(),
        ],
    }
}
