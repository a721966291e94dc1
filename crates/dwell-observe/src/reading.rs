//! Reading lines back.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::error::ObserveError;
use crate::line::Line;

/// A longer line is not one of dwell's: 32768 threads take a tenth of it.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// The lines of a file.
#[derive(Debug)]
pub struct LinesRead {
    /// Whole lines, in the order of the file.
    pub lines: Vec<Line>,
    /// Whether the last line was cut, as a writer that is killed may leave it.
    pub has_cut_line: bool,
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
            Ok(line) => read.lines.push(line),
            Err(_) if text.last() != Some(&b'\n') => read.has_cut_line = true,
            Err(_) if text.trim_ascii().is_empty() => {}
            Err(source) => return Err(ObserveError::Damaged { path: path.to_owned(), number, source }),
        }
    }
    if read.lines.is_empty() { Err(ObserveError::Empty { path: path.to_owned() }) } else { Ok(read) }
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
}
