//! The retention histogram of one run.

use std::collections::BTreeMap;

use dwell_analysis::HistogramRow;
use dwell_metadata::{RunView, ViewedRun};

use super::axis::{Axis, Unit};
use super::canvas::{AXIS_HEIGHT, Anchor, Canvas, DrawingError, Drawn, Font, INK, MARGIN, colour_of, figure};
use crate::{ReportError, numbers};

const LEFT: i32 = 70;
const RIGHT: i32 = 525;
const PANEL_HEIGHT: i32 = 104;
const PANEL_HEADING: i32 = 30;

/// `figures/retention_histogram.svg` of a run.
pub(super) struct RetentionHistogram;

impl RunView for RetentionHistogram {
    fn path(&self) -> &'static str {
        "figures/retention_histogram.svg"
    }

    fn content(&self, run: &ViewedRun<'_>) -> Result<Option<String>, String> {
        let rows = run.metrics.retention_histogram(run.bins);
        if rows.is_empty() {
            return Ok(None);
        }
        let window_s = run.metrics.window.map_or(0.0, |window| window.duration_s());
        let caption = format!("observed over {window_s:.3} s, definitions of {}", run.metrics.definitions.name());
        retention_histogram_svg(&run.metadata.run_id, &rows, &caption).map(Some).map_err(|error| error.to_string())
    }
}

/// How long bytes had to be kept: a panel per region type, the time logarithmic, the height the share of its bytes.
///
/// A bin that begins at 0 (bytes that were never read, lives of no length) has no place on a logarithmic axis; each
/// panel states its share.
pub fn retention_histogram_svg(title: &str, rows: &[HistogramRow], caption: &str) -> Result<String, ReportError> {
    let mut panels: BTreeMap<&str, Vec<&HistogramRow>> = BTreeMap::new();
    rows.iter().for_each(|row| panels.entry(&row.region_type).or_default().push(row));
    draw(title, &panels, caption)
        .map_err(|error| ReportError::Drawing { figure: title.to_owned(), reason: error.to_string() })
}

fn draw(title: &str, panels: &BTreeMap<&str, Vec<&HistogramRow>>, caption: &str) -> Result<String, DrawingError> {
    let edges: Vec<f64> = panels
        .values()
        .flatten()
        .filter(|row| row.bytes > 0 && row.from_s > 0.0)
        .flat_map(|row| [row.from_s, row.to_s])
        .collect();
    let axis = Axis::new(Unit::Seconds, &edges, LEFT, RIGHT);
    let plot_height = PANEL_HEIGHT * panels.len() as i32;
    figure(title, caption, plot_height + AXIS_HEIGHT, |canvas, top| {
        canvas.axis(&axis, "life in seconds, logarithmic", top, top + plot_height)?;
        for (index, (region_type, rows)) in panels.iter().enumerate() {
            draw_panel(canvas, &axis, region_type, rows, top + PANEL_HEIGHT * index as i32)?;
        }
        Ok(())
    })
}

fn draw_panel(canvas: &Canvas<'_>, axis: &Axis, region_type: &str, rows: &[&HistogramRow], top: i32) -> Drawn {
    let (floor, ceiling) = (top + PANEL_HEIGHT, top + PANEL_HEADING);
    let total = bytes_of(rows, |_| true);
    let share = |bytes: u64| if total == 0 { 0.0 } else { bytes as f64 / total as f64 };
    let highest = rows.iter().filter(|row| row.from_s > 0.0).map(|row| share(row.bytes)).fold(0.0, f64::max);
    for row in rows.iter().filter(|row| row.bytes > 0 && row.from_s > 0.0) {
        let height = (share(row.bytes) / highest * f64::from(floor - ceiling)).round().max(1.0) as i32;
        let (left, right) = (axis.pixel_or_left(row.from_s), axis.pixel_or_left(row.to_s));
        // A bin can be narrower than a pixel and must still be seen.
        canvas.bar((left, floor - height), (right.max(left + 1), floor), colour_of(region_type))?;
    }
    canvas.line((LEFT, floor), (RIGHT, floor), INK, 1)?;
    canvas.text((LEFT - 8, ceiling), Font::Small, Anchor::Right, INK, &format!("{:.1} %", highest * 100.0))?;
    canvas.text((LEFT - 8, floor - 6), Font::Small, Anchor::Right, INK, "0")?;
    let instant = bytes_of(rows, |row| row.from_s <= 0.0);
    let mut heading = format!("{region_type}: {} of lives", numbers::bytes(total));
    if instant > 0 {
        heading.push_str(&format!(", {:.1} % never read or of no length", share(instant) * 100.0));
    }
    let censored = rows.iter().map(|row| row.censored_bytes).fold(0, u64::saturating_add);
    if censored > 0 {
        heading.push_str(&format!(", {:.1} % had not ended", share(censored) * 100.0));
    }
    canvas.text((MARGIN, top + 14), Font::Heading, Anchor::Left, INK, &heading)
}

/// Bytes of the bins that are meant; more than can be counted are the most that can be.
fn bytes_of(rows: &[&HistogramRow], is_meant: impl Fn(&HistogramRow) -> bool) -> u64 {
    rows.iter().filter(|row| is_meant(row)).map(|row| row.bytes).fold(0, u64::saturating_add)
}
