//! The retention histogram of bytes that are known.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use dwell_analysis::HistogramRow;
use dwell_report::retention_histogram_svg;

fn row(region_type: &str, from_s: f64, to_s: f64, bytes: u64) -> HistogramRow {
    HistogramRow { region_type: region_type.into(), from_s, to_s, bytes, censored_bytes: 0 }
}

/// Heights of the bars, in the order of the file; the first rectangle is the sheet.
fn bar_heights(svg: &str) -> Vec<i32> {
    let height = |text: &str| text.split("height=\"").nth(1)?.split('"').next()?.parse().ok();
    svg.split("<rect").skip(2).filter_map(height).collect()
}

#[test]
fn bars_are_as_high_as_their_share_and_each_panel_states_its_bytes() {
    let rows = [
        row("weight", 0.1, 1.0, 3 << 20),
        row("weight", 1.0, 10.0, 1 << 20),
        row("kv_cache", 0.0, 0.1, 1024),
        HistogramRow { censored_bytes: 512, ..row("kv_cache", 0.1, 1.0, 1024) },
    ];
    let svg = retention_histogram_svg("a run", &rows, "what it is of").unwrap();
    for text in [
        "a run",
        "what it is of",
        "weight: 4.00 MiB",
        "75.0 %",
        "kv_cache: 2.00 KiB",
        "50.0 % never read or of no length, 25.0 % had not ended",
    ] {
        assert!(svg.contains(text), "no {text:?} in {svg}");
    }
    let heights = bar_heights(&svg);
    assert_eq!(heights.len(), 3, "{svg}");
    assert!((heights[1] - heights[2] * 3).abs() <= 3, "three times the bytes: {heights:?}");
    assert_eq!(svg, retention_histogram_svg("a run", &rows, "what it is of").unwrap());
}

#[test]
fn a_run_without_lives_has_an_empty_figure_and_no_panic() {
    assert!(retention_histogram_svg("a run", &[], "").unwrap().starts_with("<svg"));
    assert!(retention_histogram_svg("a run", &[row("weight", 0.0, 0.0, 0)], "").unwrap().starts_with("<svg"));
}
