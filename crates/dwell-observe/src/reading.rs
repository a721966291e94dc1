//! Reading lines back.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::error::ObserveError;
use crate::histogram::{Bucket, SLOT_MAX};
use crate::line::Line;

/// A longer line is not one of dwell's: 32768 threads take a tenth of it.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// More events than any interval has; sums of as many as a file can hold stay numbers of 64 bits.
const COUNT_MAX: u64 = 1 << 50;
/// Neighbouring intervals may overlap by what a clock is set back; those that tell of the same time overlap by half.
const OVERLAP_SHARE: f64 = 0.5;

/// The lines of a file.
#[derive(Debug)]
pub struct LinesRead {
    /// Whole lines, in the order of the file.
    pub lines: Vec<Line>,
    /// Whether the last line was cut, as a writer that is killed may leave it.
    pub has_cut_line: bool,
}

/// Reads several files, which must not tell of the same disks at the same time.
pub fn read_files(paths: &[PathBuf]) -> Result<Vec<LinesRead>, ObserveError> {
    let files: Vec<LinesRead> = paths.iter().map(|path| read_lines(path)).collect::<Result<_, _>>()?;
    check_that_none_is_twice(paths, &files)?;
    Ok(files)
}

fn check_that_none_is_twice(paths: &[PathBuf], files: &[LinesRead]) -> Result<(), ObserveError> {
    let numbered = |(file, read): (usize, &'_ LinesRead)| {
        let lines =
            read.lines.iter().enumerate().filter(|(_, line)| line.latency_histogram.is_some() || line.disks.is_some());
        lines.map(|(at, line)| (line.timestamp - line.interval_s, line.timestamp, file, at + 1)).collect::<Vec<_>>()
    };
    let mut spans: Vec<(f64, f64, usize, usize)> = files.iter().enumerate().flat_map(numbered).collect();
    spans.sort_by(|one, other| one.0.total_cmp(&other.0));
    for pair in spans.windows(2) {
        let [one, other] = [pair[0], pair[1]];
        let shorter_s = (one.1 - one.0).min(other.1 - other.0);
        if one.1.min(other.1) - other.0 > shorter_s * OVERLAP_SHARE {
            let place = |span: (f64, f64, usize, usize)| (paths[span.2].clone(), span.3);
            return Err(ObserveError::Twice { one: place(one), other: place(other) });
        }
    }
    Ok(())
}

/// Reads all lines of a file. Fields that dwell does not know are passed over, so that files of
/// [llm-instrumentation](https://pypi.org/project/llm-instrumentation/)'s scripts can be read too.
pub fn read_lines(path: &Path) -> Result<LinesRead, ObserveError> {
    let io_error = |source| ObserveError::Io { doing: "reading observations", path: path.to_owned(), source };
    let mut reader = BufReader::new(File::open(path).map_err(io_error)?);
    let mut read = LinesRead { lines: Vec::new(), has_cut_line: false };
    let mut text = Vec::new();
    for number in 1.. {
        text.clear();
        let bounded =
            std::io::Read::take(&mut reader, LINE_BYTES_MAX).read_until(b'\n', &mut text).map_err(io_error)?;
        if bounded == 0 {
            break;
        }
        match serde_json::from_slice(&text) {
            Ok(line) => {
                if let Some(what) = impossible(&line) {
                    return Err(ObserveError::Impossible { path: path.to_owned(), number, what });
                }
                read.lines.push(line);
            }
            Err(_) if text.last() != Some(&b'\n') => read.has_cut_line = true,
            Err(_) if text.trim_ascii().is_empty() => {}
            Err(source) => return Err(ObserveError::Damaged { path: path.to_owned(), number, source }),
        }
    }
    if read.lines.is_empty() { Err(ObserveError::Empty { path: path.to_owned() }) } else { Ok(read) }
}

/// A value that no kernel counts.
fn impossible(line: &Line) -> Option<&'static str> {
    let is_time = |seconds: f64| seconds >= 0.0 && seconds < COUNT_MAX as f64;
    let devices = line.latency_histogram.iter().flatten();
    let operations = devices.clone().flat_map(|device| &device.operations);
    let mut buckets = devices.clone().flat_map(|device| &device.buckets);
    let mut sums =
        operations.flat_map(|operation| [operation.requests, operation.bytes >> 10, operation.latency_ns >> 10]);
    if !is_time(line.timestamp) {
        Some("timestamp")
    } else if !is_time(line.interval_s) {
        Some("interval_s")
    } else if line.end_ns < line.begin_ns {
        Some("end_ns")
    } else if buckets.any(|bucket: &Bucket| bucket.slot > SLOT_MAX || bucket.count > COUNT_MAX) {
        Some("bucket")
    } else if sums.any(|sum| sum > COUNT_MAX) {
        Some("operation")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn lines_of_both_scripts_of_llm_instrumentation_are_read() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("o.jsonl");
        let text = r#"{"timestamp":1700000000.5,"iso_timestamp":"2023-11-14T22:13:20.500000+00:00","interval_s":5.0,"latency_histogram":[{"device_id":266338304,"device_name":"vda","total":3,"buckets":[{"slot":7,"count":3,"bucket_low":128,"bucket_high":255}]}],"inflight":[{"device_id":266338304,"device_name":"vda","count":2}]}
{"timestamp":1700000005.5,"iso_timestamp":"2023-11-14T22:13:25.500000+00:00","interval_s":5.0,"off_cpu_ns":{"4711":9},"page_faults":{"4711":7},"pressure":{"cpu":{"some":{"avg10":1.5,"avg60":1.0,"avg300":0.5,"total":99}}}}
"#;
        std::fs::write(&path, text).unwrap();
        let lines = read_lines(&path).unwrap().lines;
        let disk = &lines[0].latency_histogram.as_ref().unwrap()[0];
        assert_eq!((disk.device_name.as_str(), disk.total, disk.buckets[0].bucket_high), ("vda", 3, 255));
        assert_eq!(lines[0].inflight.as_ref().unwrap()[0].count, 2);
        assert_eq!(lines[1].off_cpu_ns.as_ref().unwrap()[&4711], 9);
        assert_eq!(lines[1].pressure.as_ref().unwrap()["cpu"]["some"].total, 99);
    }

    #[test]
    fn a_damaged_line_is_named_and_a_cut_one_is_passed_over() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("o.jsonl");
        std::fs::write(&path, "{\"timestamp\":1.0}\n{\"timesta").unwrap();
        let read = read_lines(&path).unwrap();
        assert_eq!((read.lines.len(), read.has_cut_line), (1, true));
        std::fs::write(&path, "{\"timestamp\":1.0}\n{\"timesta\n{}\n").unwrap();
        assert!(matches!(read_lines(&path).unwrap_err(), ObserveError::Damaged { number: 2, .. }));
        std::fs::write(&path, "").unwrap();
        assert!(matches!(read_lines(&path).unwrap_err(), ObserveError::Empty { .. }));
    }

    #[test]
    fn impossible_values_are_named() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("o.jsonl");
        let disk = |buckets: &str| {
            format!(r#"{{"timestamp":5,"latency_histogram":[{{"device_name":"vda","buckets":[{buckets}]}}]}}"#)
        };
        for (line, expected) in [
            (r#"{"timestamp":-1}"#.to_owned(), "timestamp"),
            (r#"{"timestamp":1e300}"#.to_owned(), "timestamp"),
            (r#"{"timestamp":5,"interval_s":-2}"#.to_owned(), "interval_s"),
            (r#"{"timestamp":5,"begin_ns":2,"end_ns":1}"#.to_owned(), "end_ns"),
            (disk(r#"{"slot":99,"count":1,"bucket_low":0,"bucket_high":0}"#), "bucket"),
            (disk(r#"{"slot":9,"count":18446744073709551615,"bucket_low":0,"bucket_high":0}"#), "bucket"),
        ] {
            std::fs::write(&path, format!("{{\"timestamp\":1.0}}\n{line}\n")).unwrap();
            let found = read_lines(&path).unwrap_err();
            assert!(matches!(found, ObserveError::Impossible { number: 2, what, .. } if what == expected), "{found}");
        }
    }

    #[test]
    fn the_same_time_twice_is_refused_and_neighbours_are_not() {
        let place = tempfile::tempdir().unwrap();
        let line = |timestamp: f64| format!(r#"{{"timestamp":{timestamp},"interval_s":5.0,"disks":[]}}"#);
        let write = |name: &str, text: String| {
            let path = place.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let first = write("o.1.jsonl", format!("{}\n{}\n", line(105.0), line(110.0)));
        let second = write("o.jsonl", format!("{}\n", line(114.9)));
        assert_eq!(read_files(&[second.clone(), first.clone()]).unwrap().len(), 2);
        let twice = read_files(&[second.clone(), first, second.clone()]).unwrap_err();
        let expected = (second.clone(), 1);
        assert!(
            matches!(&twice, ObserveError::Twice { one, other } if *one == expected && *other == expected),
            "{twice}"
        );
    }
}
