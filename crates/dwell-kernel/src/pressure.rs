//! Pressure stall information, all of its numbers.

use std::collections::BTreeMap;

use dwell_host::Root;
use dwell_observe::{PressureLines, PressureValues};

const RESOURCES: [&str; 3] = ["cpu", "io", "memory"];

/// All pressure files, or why there are none.
pub(crate) fn read_pressure(root: &Root) -> Result<PressureLines, String> {
    let mut resources = PressureLines::new();
    for resource in RESOURCES {
        let path = root.path(&format!("proc/pressure/{resource}"));
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|error| format!("reading {} failed: {error}", path.display()))?;
        resources.insert(resource.to_owned(), parse(&text));
    }
    Ok(resources)
}

/// The same with the time stalled since an earlier reading.
pub(crate) fn pressure_since(mut now: PressureLines, earlier: Option<&PressureLines>) -> PressureLines {
    for (resource, lines) in &mut now {
        for (kind, values) in lines {
            let before = earlier.and_then(|earlier| earlier.get(resource)?.get(kind));
            values.stalled_us = before.map(|before| values.total.saturating_sub(before.total));
        }
    }
    now
}

fn parse(text: &str) -> BTreeMap<String, PressureValues> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<(String, PressureValues)> {
    let (kind, rest) = line.split_once(' ')?;
    let value = |key: &str| rest.split_ascii_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    let values = PressureValues {
        avg10: value("avg10")?.parse().ok()?,
        avg60: value("avg60")?.parse().ok()?,
        avg300: value("avg300")?.parse().ok()?,
        total: value("total")?.parse().ok()?,
        stalled_us: None,
    };
    Some((kind.to_owned(), values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lines_are_kept_and_the_stall_of_an_interval_is_a_difference() {
        let text =
            "some avg10=98.26 avg60=3.00 avg300=1.00 total=1500\nfull avg10=0.00 avg60=1.00 avg300=0.50 total=7\n";
        let lines: PressureLines = [("cpu".to_owned(), parse(text))].into();
        let earlier = text.replace("total=1500", "total=500");
        let earlier: PressureLines = [("cpu".to_owned(), parse(&earlier))].into();
        let since = pressure_since(lines, Some(&earlier));
        assert_eq!((since["cpu"]["some"].avg10, since["cpu"]["full"].avg10), (98.26, 0.0));
        assert_eq!((since["cpu"]["some"].stalled_us, since["cpu"]["full"].stalled_us), (Some(1000), Some(0)));
        assert!(parse("nonsense").is_empty());
    }
}
