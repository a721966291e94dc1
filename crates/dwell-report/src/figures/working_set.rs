//! `working-set`: bytes that each step touches.

use dwell_analysis::overview::WorkingSetSeries;

use super::chart::axis::{Axis, Quantity};
use super::chart::legend::{Entry, Sample, legend};
use super::chart::palette::{region_rank, region_stroke};
use super::chart::plot::{drawable, opened};
use super::drawn::Drawing;
use super::kind::{Draw, FigureKind};
use super::size::FigureSize;
use super::table::Table;
use crate::page::{RunPage, region_title};

pub(super) const WORKING_SET: FigureKind = FigureKind {
    name: "working-set",
    shows: "Distinct bytes that each step touches, by region type; step 0 is the prompt.",
    needs: "accesses in steps",
    draw: Draw::Run(draw),
};

fn draw(run: &RunPage, size: FigureSize) -> Option<Drawing> {
    let steps = &run.overview.working_set;
    let mut series: Vec<&WorkingSetSeries> =
        steps.series.iter().filter(|series| series.bytes.iter().any(|bytes| *bytes > 0)).collect();
    series.sort_by_key(|series| region_rank(&series.region_type));
    let points = series.iter().map(|series| series.bytes.len()).max()?;
    let known = || series.iter().flat_map(|series| &series.bytes).filter(|bytes| **bytes > 0);
    let (least, most) = (*known().min()? as f64, *known().max()? as f64);
    let mut scene = size.scene(54.0, 58.0);
    let entry = |series: &&WorkingSetSeries| {
        Entry::new(region_title(&series.region_type), Sample::Line(region_stroke(&series.region_type)))
    };
    let sheet = drawable(&scene);
    let area = legend(&mut scene, sheet, &series.iter().map(entry).collect::<Vec<_>>());
    let per_point = f64::from(steps.steps_per_point);
    let last = (points as f64 - 1.0).max(1.0) * per_point;
    let x = Axis::between("Step", Quantity::Number, 0.0, last, area.width() / 2.0);
    let y = Axis::byte_powers("Bytes touched in a step", least, most, area.height() - 30.0);
    let plot = opened(&mut scene, area, &x, &y, 0.0);
    let mut table = Table::new(&["region_type", "first_step", "steps", "most_bytes"]);
    for series in series {
        let stroke = region_stroke(&series.region_type);
        // A logarithmic axis has no place for 0: the line is interrupted.
        let numbered: Vec<(f64, u64)> =
            series.bytes.iter().enumerate().map(|(place, &bytes)| (place as f64 * per_point, bytes)).collect();
        for part in numbered.split(|(_, bytes)| *bytes == 0) {
            let line: Vec<_> = part.iter().map(|&(step, bytes)| plot.at(step, bytes as f64)).collect();
            scene.line(&line, stroke);
        }
        for (step, bytes) in numbered {
            let steps_per_point = u64::from(steps.steps_per_point);
            table.row([series.region_type.as_str().into(), step.into(), steps_per_point.into(), bytes.into()]);
        }
    }
    Some(Drawing { scene, table })
}
