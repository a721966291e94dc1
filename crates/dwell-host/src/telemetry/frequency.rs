//! Frequency of the processors.

use dwell_events::host::{Frequency, Sensor};

use super::range::Range;
use crate::facts::POLICIES;
use crate::kept_file::KeptFile;
use crate::root::Root;

/// With more policies than this, some stand for all: reading one may have to wake a processor.
const MOST_POLICIES: usize = 16;

pub(crate) struct FrequencyWatch {
    state: Result<Watching, String>,
}

struct Watching {
    source: String,
    files: Files,
    readings: Range,
    means: Range,
}

enum Files {
    /// One file for each policy, in kHz.
    Policies(Vec<KeptFile>),
    /// One file with a line `cpu MHz` for each processor.
    Cpuinfo(KeptFile),
}

impl FrequencyWatch {
    pub(crate) fn open(root: &Root) -> Self {
        let watching =
            |(source, files)| Watching { source, files, readings: Range::default(), means: Range::default() };
        Self { state: open_policies(root).map_or_else(|| open_cpuinfo(root), Ok).map(watching) }
    }

    /// Whether the source may tell a nominal value.
    pub(crate) fn is_weak(&self) -> bool {
        matches!(self.state, Ok(Watching { files: Files::Cpuinfo(_), .. }))
    }

    pub(crate) fn look(&mut self, buffer: &mut Vec<u8>) {
        let Ok(watching) = &mut self.state else { return };
        if let Err(reason) = watching.look(buffer) {
            self.state = Err(reason);
        }
    }

    pub(crate) fn end(self) -> Sensor<Frequency> {
        let frequency = self.state.and_then(|watching| {
            let mean_mhz = watching.readings.mean().ok_or("no sample was taken")?;
            Ok(Frequency {
                source: watching.source,
                start_mhz: watching.means.first,
                min_mhz: watching.readings.min,
                mean_mhz,
                max_mhz: watching.readings.max,
                end_mhz: watching.means.last,
            })
        });
        frequency.into()
    }
}

impl Watching {
    fn look(&mut self, buffer: &mut Vec<u8>) -> Result<(), String> {
        let mut sample = Range::default();
        self.files.readings_mhz(buffer, |mhz| {
            sample.add(mhz);
            self.readings.add(mhz);
        })?;
        if let Some(mean) = sample.mean() {
            self.means.add(mean);
        }
        Ok(())
    }
}

impl Files {
    fn readings_mhz(&self, buffer: &mut Vec<u8>, mut add: impl FnMut(f64)) -> Result<(), String> {
        match self {
            Self::Policies(files) => {
                for file in files {
                    add(file.number()? as f64 / 1000.0);
                }
            }
            Self::Cpuinfo(file) => cpuinfo_mhz(file.read(buffer)?).for_each(add),
        }
        Ok(())
    }
}

fn open_policies(root: &Root) -> Option<(String, Files)> {
    let policies = root.numbered(POLICIES, "policy");
    let step = policies.len().div_ceil(MOST_POLICIES).max(1);
    let files: Vec<KeptFile> = policies
        .iter()
        .step_by(step)
        .filter_map(|policy| KeptFile::open(root.path(&format!("{POLICIES}/{policy}/scaling_cur_freq"))).ok())
        .collect();
    let source = match files.len() {
        0 => return None,
        count if count == policies.len() => "scaling_cur_freq".to_owned(),
        count => format!("scaling_cur_freq of {count} of {} policies", policies.len()),
    };
    Some((source, Files::Policies(files)))
}

fn open_cpuinfo(root: &Root) -> Result<(String, Files), String> {
    let file = KeptFile::open(root.path("proc/cpuinfo"))?;
    match cpuinfo_mhz(file.read(&mut Vec::new())?).next() {
        Some(_) => Ok(("cpu MHz of /proc/cpuinfo, which may be a nominal value".to_owned(), Files::Cpuinfo(file))),
        None => Err(format!("/{POLICIES} has no scaling_cur_freq, and /proc/cpuinfo no cpu MHz")),
    }
}

fn cpuinfo_mhz(text: &str) -> impl Iterator<Item = f64> {
    text.lines().filter_map(|line| line.strip_prefix("cpu MHz")?.split_once(':')?.1.trim().parse().ok())
}
