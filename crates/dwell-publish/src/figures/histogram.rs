//! The retention histogram of one run.

use std::collections::BTreeMap;

use dwell_analysis::HistogramRow;

use super::axis::{Axis, Unit};
use super::canvas::{Anchor, Canvas, DrawingError, Drawn, FAINT, Font, INK, LINE_HEIGHT, colour_of, wrapped};
use crate::{PublishError, numbers};

const WIDTH: i32 = 560;
const LEFT: i32 = 70;
const RIGHT: i32 = 525;
const MARGIN: i32 = 14;
const TITLE_HEIGHT: i32 = 20;
const PANEL_HEIGHT: i32 = 104;
const PANEL_HEADING: i32 = 30;
const AXIS_HEIGHT: i32 = 44;
const CAPTION_CHARS: usize = 84;
const TITLE_CHARS: usize = 66;

/// How long bytes had to be kept: a panel per region type, the time logarithmic, the height the share of its bytes.
///
/// A bin that begins at 0 (bytes that were never read, lives of no length) has no place on a logarithmic axis; each
/// panel states its share.
pub fn retention_histogram_svg(title: &str, rows: &[HistogramRow], caption: &str) -> Result<String, PublishError> {
    let mut panels: BTreeMap<&str, Vec<&HistogramRow>> = BTreeMap::new();
    rows.iter().for_each(|row| panels.entry(&row.region_type).or_default().push(row));
    draw(title, &panels, caption)
        .map_err(|error| PublishError::Drawing { figure: title.to_owned(), reason: error.to_string() })
}

fn draw(title: &str, panels: &BTreeMap<&str, Vec<&HistogramRow>>, caption: &str) -> Result<String, DrawingError> {
    let (title, caption) = (wrapped(title, TITLE_CHARS), wrapped(caption, CAPTION_CHARS));
    let top = MARGIN + TITLE_HEIGHT * title.len() as i32;
    let bottom = top + PANEL_HEIGHT * panels.len() as i32;
    let caption_top = bottom + AXIS_HEIGHT + LINE_HEIGHT;
    let height = caption_top + LINE_HEIGHT * caption.len() as i32 + MARGIN / 2;
    let edges: Vec<f64> = panels
        .values()
        .flatten()
        .filter(|row| row.bytes > 0 && row.from_s > 0.0)
        .flat_map(|row| [row.from_s, row.to_s])
        .collect();
    let axis = Axis::new(Unit::Seconds, &edges, LEFT, RIGHT);
    let mut svg = String::new();
    {
        let canvas = Canvas::new(&mut svg, WIDTH, height)?;
        for (index, line) in title.iter().enumerate() {
            let y = MARGIN + TITLE_HEIGHT * index as i32 + TITLE_HEIGHT / 2;
            canvas.text((MARGIN, y), Font::Title, Anchor::Left, INK, line)?;
        }
        for (x, text) in axis.ticks() {
            canvas.line((x, top), (x, bottom), FAINT, 1)?;
            canvas.text((x, bottom + 10), Font::Small, Anchor::Middle, INK, &text)?;
        }
        canvas.text(
            ((LEFT + RIGHT) / 2, bottom + 28),
            Font::Body,
            Anchor::Middle,
            INK,
            "life in seconds, logarithmic",
        )?;
        for (index, (region_type, rows)) in panels.iter().enumerate() {
            draw_panel(&canvas, &axis, region_type, rows, top + PANEL_HEIGHT * index as i32)?;
        }
        canvas.paragraph((MARGIN, caption_top), &caption)?;
        canvas.finish()?;
    }
    Ok(svg)
}

fn draw_panel(canvas: &Canvas<'_>, axis: &Axis, region_type: &str, rows: &[&HistogramRow], top: i32) -> Drawn {
    let (floor, ceiling) = (top + PANEL_HEIGHT, top + PANEL_HEADING);
    let total: u64 = rows.iter().map(|row| row.bytes).sum();
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
    let instant: u64 = rows.iter().filter(|row| row.from_s <= 0.0).map(|row| row.bytes).sum();
    let mut heading = format!("{region_type}: {} of lives", numbers::bytes(total));
    if instant > 0 {
        heading.push_str(&format!(", {:.1} % never read or of no length", share(instant) * 100.0));
    }
    canvas.text((MARGIN, top + 14), Font::Heading, Anchor::Left, INK, &heading)
}
