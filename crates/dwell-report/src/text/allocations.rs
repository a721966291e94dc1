//! What recorded allocations come to, for people.

use dwell_metadata::{MemrayCaptureOrigin, MemrayImport};

use super::{bytes, count, counted, or_dash, seconds};

/// What was allocated, the most at a time, and what is known about times.
pub(super) fn allocation_lines(import: &MemrayImport) -> Vec<(&'static str, String)> {
    let captures = &import.captures;
    let sum = |value: fn(&MemrayCaptureOrigin) -> u64| captures.iter().map(value).fold(0, u64::saturating_add);
    let most = |value: fn(&MemrayCaptureOrigin) -> Option<u64>| captures.iter().filter_map(value).max();
    let processes = counted(captures.len() as u64, "process");
    let allocated = match sum(|capture| capture.sites) {
        0 => format!(
            "{} allocations of {}, {} frees, in {processes}",
            count(sum(|capture| capture.allocations)),
            bytes(sum(|capture| capture.allocated_bytes)),
            count(sum(|capture| capture.frees)),
        ),
        sites => {
            format!("sums of {} that allocate, in {processes}; single calls were not recorded", counted(sites, "place"))
        }
    };
    let peak = format!(
        "{} allocated at a time in one process, {} resident; {} left at the end",
        or_dash(most(|capture| capture.peak_bytes), bytes),
        or_dash(most(|capture| capture.peak_rss_bytes), bytes),
        or_dash(most(|capture| capture.left_bytes), bytes),
    );
    let sampled_s = captures.iter().map(|capture| capture.sampled_ms).max().unwrap_or(0) as f64 / 1000.0;
    let times = format!(
        "{} of the resident memory over {}; a call has none, and lies between two of them",
        counted(sum(|capture| capture.samples), "sample"),
        seconds(sampled_s),
    );
    vec![("allocated", allocated), ("peak", peak), ("times", times)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_not_taken_for_calls() {
        let capture = MemrayCaptureOrigin {
            allocations: 1200,
            allocated_bytes: 3 << 20,
            frees: 7,
            peak_bytes: Some(1 << 20),
            left_bytes: Some(512),
            samples: 3,
            sampled_ms: 60,
            ..MemrayCaptureOrigin::default()
        };
        let import = MemrayImport { captures: vec![capture.clone()], ..MemrayImport::default() };
        let texts =
            |import: &MemrayImport| allocation_lines(import).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        let expected = [
            "1,200 allocations of 3.00 MiB, 7 frees, in 1 process",
            "1.00 MiB allocated at a time in one process, – resident; 512 B left at the end",
            "3 samples of the resident memory over 60.0 ms; a call has none, and lies between two of them",
        ];
        assert_eq!(texts(&import), expected);
        let sums = MemrayCaptureOrigin { sites: 2, allocations: 0, ..capture };
        let import = MemrayImport { captures: vec![sums], ..MemrayImport::default() };
        assert_eq!(texts(&import)[0], "sums of 2 places that allocate, in 1 process; single calls were not recorded");
    }
}
