//! From what was recorded while watching to its summary.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use dwell_events::Basis;
use dwell_process::{GpuSupport, gpu_support, own_peak_rss_bytes};
use dwell_report::text::{CommandEnd, WatchCost, WatchSummary, WatchedGrowth, WatchedMemory, WatchedProcess, count};

use crate::watch_record::{COLUMNS, WatchRecord};
use crate::watch_target::Target;

/// What a watch found.
pub(crate) fn summary_of(
    record: &WatchRecord,
    target: &Target,
    command: Option<ExitStatus>,
    output: Option<&Path>,
) -> WatchSummary {
    let figures = COLUMNS.iter().zip(&record.trails).map(|(column, trail)| WatchedMemory {
        column: column.name,
        peak_bytes: trail.peak_bytes,
        peak_basis: Basis::Sampled,
        steady_bytes: trail.steady_bytes(),
        last_bytes: trail.last_bytes,
    });
    let growth = record.trails[0].growth().map(|line| WatchedGrowth {
        bytes_per_s: line.slope,
        low_bytes_per_s: line.low,
        high_bytes_per_s: line.high,
    });
    let processes = record.processes.iter().map(|process| WatchedProcess {
        pid: process.pid,
        name: process.name.clone(),
        peak_rss_bytes: process.peak_rss_bytes,
    });
    WatchSummary {
        label: target.label().to_owned(),
        root_pids: target.roots().iter().map(|root| root.pid).collect(),
        duration_s: record.last_s,
        samples: record.samples,
        missed_samples: record.sampling.missed,
        memory: figures.collect(),
        rss_growth: growth,
        processes: processes.collect(),
        further_processes: record.further_processes,
        command: target.is_command().then(|| CommandEnd {
            exit_code: command.and_then(|status| status.code()),
            signal: command.and_then(|status| status.signal()),
        }),
        own: WatchCost { cpu_pct: record.own_cpu_pct(), peak_rss_bytes: own_peak_rss_bytes() },
        notes: notes(record),
        output: output.map(Path::to_owned),
    }
}

fn notes(record: &WatchRecord) -> Vec<String> {
    let mut notes = Vec::new();
    let pss =
        COLUMNS.iter().zip(&record.trails).find(|(column, _)| column.name == "pss").map(|(_, trail)| trail.values);
    match pss.unwrap_or(0) {
        0 if record.samples > 0 => {
            let reason = "the kernel shows them to the user of the process, and to a root that may trace it";
            notes.push(format!("pss, uss, read and write are missing: {reason}"));
        }
        values if values < record.samples => {
            let (values, samples) = (count(values), count(record.samples));
            notes.push(format!("pss and uss are of {values} of {samples} samples: reading them is slow"));
        }
        _ => {}
    }
    if let GpuSupport::Unusable(reason) = gpu_support() {
        notes.push(format!("gpu is missing: the NVIDIA driver said: {reason}"));
    }
    notes
}
