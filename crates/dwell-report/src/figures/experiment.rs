//! `experiment`: small plots of what was measured over what was varied.

use super::chart::axis::{Axis, LABEL_PT, Quantity, Scale, TITLE_PT, Tick};
use super::chart::legend::{Entry, Sample, legend};
use super::chart::mark::{arrow, interval};
use super::chart::palette::{INK, series};
use super::chart::plot::{Plot, cells, drawable, fitted, opened};
use super::drawn::Drawing;
use super::kind::{Draw, FigureKind, MaybeDrawn, nearest};
use super::scene::{Align, Rect, Scene, Stroke};
use super::size::FigureSize;
use super::table::Table;
use crate::page::{ExperimentLine, ExperimentPlot, ExperimentPoint, experiment_plots, varying_plots};
use crate::{Aggregate, ReportError};

pub(super) const EXPERIMENT: FigureKind = FigureKind {
    name: "experiment",
    shows: "Means with 95 % intervals over what was varied: a small plot per metric that varies, or one with `--metric`; a bound is an arrow.",
    needs: "numbers that vary",
    draw: Draw::Experiment(draw),
};

const COLUMNS_OF_PAGE: usize = 4;
const COLUMNS_OF_COLUMN: usize = 2;
const ROW_MM: f64 = 36.0;
const LEGEND_MM: f64 = 6.0;
const GAP_PT: f64 = 7.0;
/// Room for the title of a small plot.
const HEADING_PT: f64 = 19.0;
const RADIUS_PT: f64 = 1.8;
const ARROW_PT: f64 = 8.0;
/// Lines of several series at the same place are moved apart by so much, so that their intervals can be told apart.
const DODGE_PT: f64 = 2.2;
/// Times that the greatest x may be of the least before the axis becomes logarithmic: context lengths double.
const LINEAR_RATIO: f64 = 8.0;

fn draw(aggregate: &Aggregate, metric: Option<&str>, size: FigureSize) -> MaybeDrawn {
    let plots = experiment_plots(aggregate);
    let plots = match metric {
        Some(metric) => vec![chosen(plots, metric)?],
        None => varying_plots(plots).0,
    };
    Ok(draw_plots(&plots, size, metric.is_some()))
}

fn chosen(plots: Vec<ExperimentPlot>, metric: &str) -> Result<ExperimentPlot, ReportError> {
    let names: Vec<String> = plots.iter().map(|plot| plot.metric.clone()).collect();
    plots.into_iter().find(|plot| plot.metric == metric).ok_or_else(|| ReportError::UnknownPlot {
        metric: metric.to_owned(),
        nearest: nearest(metric, names.iter().map(String::as_str)).map(str::to_owned),
        known: names.join(", "),
    })
}

fn draw_plots(plots: &[ExperimentPlot], size: FigureSize, is_single: bool) -> Option<Drawing> {
    plots.first()?;
    let columns = match (is_single, size.is_wide()) {
        (true, _) => 1,
        (false, true) => COLUMNS_OF_PAGE,
        (false, false) => COLUMNS_OF_COLUMN,
    };
    let rows_mm = ROW_MM * plots.len().div_ceil(columns) as f64;
    let mut scene =
        if is_single { size.scene(60.0, 70.0) } else { size.scene(rows_mm + LEGEND_MM, rows_mm + LEGEND_MM) };
    let sheet = drawable(&scene);
    let area = legend(&mut scene, sheet, &entries(plots));
    for (plot, cell) in plots.iter().zip(cells(area, plots.len(), columns, GAP_PT)) {
        draw_plot(&mut scene, plot, cell, is_single);
    }
    Some(Drawing { scene, table: table(plots) })
}

/// The lines, which are the same in all plots unless a plot lacks some, and what arrows are.
fn entries(plots: &[ExperimentPlot]) -> Vec<Entry> {
    let lines = plots.iter().map(|plot| &plot.lines).max_by_key(|lines| lines.len());
    let entry = |(place, line): (usize, &ExperimentLine)| {
        let (stroke, marker) = series(place);
        Entry::new(line.title.clone(), Sample::MarkedLine(stroke, marker))
    };
    let lines = lines.into_iter().filter(|lines| lines.len() > 1).flatten();
    let bounds = plots.iter().any(ExperimentPlot::has_bounds);
    let bounds = bounds.then(|| Entry::new("at least: runs ended first", Sample::AtLeastUpward));
    lines.enumerate().map(entry).chain(bounds).collect()
}

fn quantity(unit: &str) -> Quantity {
    match unit {
        "bytes" => Quantity::Bytes,
        "s" => Quantity::Seconds,
        _ => Quantity::Number,
    }
}

/// What a plot is of, with the unit of its numbers; bytes and seconds get theirs by size.
fn title_of(plot: &ExperimentPlot) -> String {
    match (quantity(plot.unit), plot.unit) {
        (Quantity::Number, unit) if !unit.is_empty() => format!("{} ({unit})", plot.title),
        _ => plot.title.clone(),
    }
}

/// Values of the horizontal axis: numbers ascend, names stay in the order in which they come.
fn x_values(plot: &ExperimentPlot) -> Vec<&serde_json::Value> {
    let mut values: Vec<&serde_json::Value> = Vec::new();
    for point in plot.lines.iter().flat_map(|line| &line.points) {
        if !values.contains(&&point.x) {
            values.push(&point.x);
        }
    }
    values.sort_by(|one, other| one.as_f64().unwrap_or(0.0).total_cmp(&other.as_f64().unwrap_or(0.0)));
    values
}

/// Where a value lies: numbers at themselves, names at equal distances.
fn place_of(values: &[&serde_json::Value], x: &serde_json::Value) -> f64 {
    let place = || values.iter().position(|value| *value == x).unwrap_or(0) as f64;
    x.as_f64().unwrap_or_else(place)
}

fn x_axis(plot: &ExperimentPlot, width_pt: f64) -> Axis {
    let values = x_values(plot);
    let room = width_pt / values.len().max(1) as f64;
    let label = |value: &serde_json::Value| match value.as_str() {
        Some(text) => fitted(text, LABEL_PT, room),
        None => value.as_f64().unwrap_or(0.0).to_string(),
    };
    let ticks: Vec<Tick> =
        values.iter().map(|value| Tick { value: place_of(&values, value), label: label(value) }).collect();
    let (least, most) = (ticks.first().map_or(0.0, |tick| tick.value), ticks.last().map_or(1.0, |tick| tick.value));
    let is_logarithmic = plot.x_is_number && least > 0.0 && most / least >= LINEAR_RATIO;
    // Dots at the ends stand inside of the plot.
    let scale = if is_logarithmic {
        let around = (most / least).powf(0.07);
        Scale::logarithmic(least / around, most * around)
    } else {
        let around = if most > least { (most - least) * 0.07 } else { 1.0 };
        Scale::linear(least - around, most + around)
    };
    Axis { scale, ticks, title: plot.x_title.replace('_', " ") }
}

fn draw_plot(scene: &mut Scene, plot: &ExperimentPlot, cell: Rect, is_single: bool) {
    let heading = if is_single { 0.0 } else { HEADING_PT };
    let x = x_axis(plot, cell.width() - 30.0);
    let room = cell.height() - heading - 26.0;
    let title = title_of(plot);
    let y = Axis::from_zero(if is_single { &title } else { "" }, quantity(plot.unit), most_of(plot, room), room);
    // The title of a small plot is above it, where it has more room; the unit too.
    let (y, said) = if is_single {
        (y, String::new())
    } else {
        let unit = y.title.trim().to_owned();
        (Axis { title: String::new(), ..y }, unit)
    };
    let drawn = opened(scene, cell, &x, &y, heading);
    if !is_single {
        draw_heading(scene, cell, &title, &said);
    }
    let values = x_values(plot);
    for (place, line) in plot.lines.iter().enumerate() {
        let shift = (place as f64 - (plot.lines.len() as f64 - 1.0) / 2.0) * DODGE_PT;
        draw_line(scene, &drawn, line, place, |point| drawn.x(place_of(&values, &point.x)) + shift);
    }
}

/// The end of the vertical axis of a plot that is so high: arrows of bounds end below it.
fn most_of(plot: &ExperimentPlot, height_pt: f64) -> f64 {
    let most = |point: &ExperimentPoint| point.high.unwrap_or(point.mean).max(point.mean);
    let above_arrow = height_pt / (height_pt - ARROW_PT).max(1.0);
    let end = |point: &ExperimentPoint| if point.is_bound { most(point) * above_arrow } else { most(point) };
    plot.points().map(end).fold(0.0, f64::max)
}

/// What is drawn and of what memory, in two lines.
fn draw_heading(scene: &mut Scene, cell: Rect, title: &str, unit: &str) {
    let (first, second) = title.split_once(": ").unwrap_or((title, ""));
    let second = format!("{second} {unit}");
    let room = cell.width() - 2.0;
    let lines = [(first, TITLE_PT), (second.trim(), LABEL_PT)];
    for (row, (text, size_pt)) in lines.into_iter().enumerate() {
        let at = (cell.left, cell.top + 4.0 + 8.5 * row as f64);
        scene.label(at, Align::Begin, size_pt, INK, &fitted(text, size_pt, room));
    }
}

fn draw_line(scene: &mut Scene, plot: &Plot, line: &ExperimentLine, place: usize, x: impl Fn(&ExperimentPoint) -> f64) {
    let (stroke, marker) = series(place);
    let at = |point: &ExperimentPoint| (x(point), plot.y(point.mean));
    if line.points.iter().all(|point| point.x.is_number()) {
        line.joined().for_each(|points| scene.line(&points.iter().map(at).collect::<Vec<_>>(), stroke));
    }
    for point in &line.points {
        if let Some((low, high)) = point.low.zip(point.high) {
            interval(scene, (x(point), plot.y(low)), (x(point), plot.y(high)), stroke.colour);
        }
        if point.is_bound {
            let (x, y) = at(point);
            arrow(scene, (x, y), (x, y - ARROW_PT), Stroke { dashes_pt: &[], ..stroke });
            marker.draw_hollow(scene, (x, y), RADIUS_PT, stroke.colour);
        } else {
            marker.draw(scene, at(point), RADIUS_PT, stroke.colour);
        }
    }
}

fn table(plots: &[ExperimentPlot]) -> Table {
    let mut table =
        Table::new(&["metric", "unit", "line", "x_name", "x", "n", "mean", "ci95_low", "ci95_high", "is_lower_bound"]);
    for plot in plots {
        for line in &plot.lines {
            for point in &line.points {
                let x = point.x.as_str().map_or_else(|| point.x.to_string(), str::to_owned);
                table.row([
                    plot.metric.as_str().into(),
                    plot.unit.into(),
                    line.title.as_str().into(),
                    plot.x_title.into(),
                    x.as_str().into(),
                    point.n.into(),
                    point.mean.into(),
                    point.low.into(),
                    point.high.into(),
                    point.is_bound.into(),
                ]);
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use dwell_analysis::Value;
    use serde_json::json;

    use super::*;
    use crate::{AggregateOptions, RunResults, aggregate};

    /// Runs of two context lengths, which ended before any quantile was reached.
    fn bounded_runs() -> Aggregate {
        let run = |context_length: u32, steps: f64| {
            let metadata =
                json!({"model_id": "tiny", "state": "complete", "options": {"context_length": context_length}});
            let mut run = RunResults { metadata: serde_json::from_value(metadata).unwrap(), ..RunResults::default() };
            let numbers = [
                ("suitability_tokens_per_s", 20.0),
                ("needed_p99_low_s", steps / 20.0),
                ("retention_p99_low_steps", steps),
            ];
            let numbers = || numbers.map(|(column, number)| (column, Value::Number(number))).to_vec();
            run.set_metrics(["recurrent_state", "work_buffer"].map(|name| (name.into(), numbers())).to_vec());
            run
        };
        aggregate(&[run(256, 228.0), run(512, 439.0)], &AggregateOptions::default()).unwrap()
    }

    #[test]
    fn titles_of_small_plots_are_whole_with_their_units_and_the_speed() {
        for size in [FigureSize::Column, FigureSize::Page] {
            let svg = draw(&bounded_runs(), None, size).unwrap().unwrap().scene.svg();
            for title in ["needed, p99 at 20 tokens/s (s)", "required retention, p99 (steps)", "Recurrent state"] {
                assert!(svg.contains(title), "{title} at {size:?}");
            }
            assert!(!svg.contains('…'), "a title is cut at {size:?}");
            assert!(svg.contains("at least: runs ended first"), "arrows are explained");
        }
    }

    #[test]
    fn arrows_of_bounds_end_inside_of_the_plot() {
        let plots = experiment_plots(&bounded_runs());
        let height_pt = 60.0;
        for plot in &plots {
            let greatest = plot.points().map(|point| point.mean).fold(0.0, f64::max);
            let value_pt = height_pt * greatest / most_of(plot, height_pt);
            assert!(value_pt + ARROW_PT <= height_pt + 1e-9, "{}: {value_pt}", plot.metric);
        }
    }
}
