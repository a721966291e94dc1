//! Observations of disks: latency over time as shades, requests per second and queue depth as lines.

use dwell_observe::{DeviceReport, ObservationReport, slot_bounds_us};

use super::chart::axis::{Axis, LABEL_PT, Quantity};
use super::chart::heat::{HeatScale, shade_bar};
use super::chart::palette::{READ, series};
use super::chart::plot::{cells, drawable, opened};
use super::drawn::{Drawing, DrawnFigure};
use super::scene::{Image, Rect, Shape};
use super::size::FigureSize;
use super::table::Table;

const LEGEND_PT: f64 = 14.0;
const GAP_PT: f64 = 8.0;
/// Columns of the heat map: more cannot be seen.
const COLUMNS: usize = 400;

/// The figures of every device that had requests. Only programs in the kernel know how latencies are spread.
pub fn observation_figures(report: &ObservationReport) -> Vec<DrawnFigure> {
    let devices = report.devices.iter().filter(|device| device.requests > 0);
    let figures = devices.flat_map(|device| {
        let named = |what: &str, drawing| DrawnFigure::new(format!("{}_{what}", file_name(&device.name)), drawing);
        let spread = (!device.percentiles.is_empty()).then(|| named("latency", latency(device, report.span_s)));
        spread.into_iter().chain([named("load", load(device, report.span_s))]).collect::<Vec<_>>()
    });
    figures.collect()
}

/// A name that cannot leave its folder: files of observations may come from anywhere.
fn file_name(device: &str) -> String {
    device.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect()
}

/// Requests by time and latency.
fn latency(device: &DeviceReport, span_s: f64) -> Drawing {
    let mut scene = FigureSize::Page.scene(56.0, 70.0);
    let filled = || device.intervals.iter().flat_map(|interval| interval.slots.iter().enumerate());
    let used = || filled().filter(|(_, requests)| **requests > 0).map(|(slot, _)| slot);
    let (first, last) = (used().min().unwrap_or(0), used().max().unwrap_or(0));
    let (rows, columns) = (last - first + 1, COLUMNS);
    let mut values = vec![0.0; rows * columns];
    let mut table = Table::new(&["begin_s", "length_s", "latency_low_us", "latency_high_us", "requests"]);
    let column_of = |time_s: f64| ((time_s / span_s.max(f64::MIN_POSITIVE) * columns as f64) as usize).min(columns);
    for interval in &device.intervals {
        let begin = column_of(interval.begin_s).min(columns - 1);
        let end = column_of(interval.begin_s + interval.length_s).max(begin + 1);
        for (slot, &requests) in interval.slots.iter().enumerate().filter(|(_, requests)| **requests > 0) {
            let row = last - slot;
            values[row * columns + begin..row * columns + end].fill(requests as f64 / interval.length_s);
            let (low, high) = slot_bounds_us(slot as u32);
            table.row([interval.begin_s.into(), interval.length_s.into(), low.into(), high.into(), requests.into()]);
        }
    }
    let scale = HeatScale::logarithmic(values.iter().copied());
    let cell = drawable(&scene);
    let x = Axis::between("Time since observing began", Quantity::Seconds, 0.0, span_s, cell.width() / 2.5);
    let (least_us, most_us) = (slot_bounds_us(first as u32).0.max(1), slot_bounds_us(last as u32).1 + 1);
    let y = Axis::decades("Latency of a request (µs)", least_us as f64, most_us as f64, 6);
    let plot = opened(&mut scene, Rect { top: cell.top + LEGEND_PT, ..cell }, &x, &y, 0.0);
    let pixels = values.iter().map(|value| READ.tint(scale.darkness(*value))).collect();
    scene.add(Shape::Image(Image { place: plot.area, columns, pixels }));
    plot.draw_base(&mut scene);
    let ends = [scale.least, scale.most].map(|rate| format!("{rate:.1}"));
    let title = format!("{}: requests per second", device.name);
    shade_bar(&mut scene, (plot.area.left, cell.top + LABEL_PT / 2.0 + 0.5), &title, READ, ends);
    Drawing { scene, table }
}

/// Requests per second above queue depth.
fn load(device: &DeviceReport, span_s: f64) -> Drawing {
    let mut scene = FigureSize::Page.scene(90.0, 60.0);
    let places = cells(drawable(&scene), 2, 2, GAP_PT);
    let mut table = Table::new(&["begin_s", "length_s", "requests_per_s", "queue_depth", "inflight_at_end"]);
    for interval in &device.intervals {
        let inflight = interval.inflight.map(|inflight| inflight as f64);
        let depth = interval.queue_depth;
        table.row([
            interval.begin_s.into(),
            interval.length_s.into(),
            interval.iops.into(),
            depth.into(),
            inflight.into(),
        ]);
    }
    let iops = || device.intervals.iter().map(|interval| (interval, Some(interval.iops)));
    let depths = || device.intervals.iter().map(|interval| (interval, interval.queue_depth));
    let most = |values: &mut dyn Iterator<Item = Option<f64>>| values.flatten().fold(0.0, f64::max);
    let panels = [
        (
            format!("{}: requests per second", device.name),
            iops().collect::<Vec<_>>(),
            most(&mut iops().map(|found| found.1)),
        ),
        ("Requests at the device".to_owned(), depths().collect(), most(&mut depths().map(|found| found.1))),
    ];
    for (place, ((title, values, most), cell)) in panels.iter().zip(places).enumerate() {
        let x = Axis::between("Time since observing began", Quantity::Seconds, 0.0, span_s, cell.width() / 2.5);
        let y = Axis::from_zero(title, Quantity::Number, *most, cell.height() - 30.0);
        let plot = opened(&mut scene, cell, &x, &y, 0.0);
        // A value holds for its whole interval; intervals without requests of the device interrupt the line.
        let mut line = Vec::new();
        let mut end_s = f64::NEG_INFINITY;
        for (interval, value) in values.iter().filter_map(|(interval, value)| Some((interval, (*value)?))) {
            if interval.begin_s > end_s + interval.length_s / 2.0 && !line.is_empty() {
                scene.line(&std::mem::take(&mut line), series(place).0);
            }
            end_s = interval.begin_s + interval.length_s;
            line.extend([plot.at(interval.begin_s, value), plot.at(end_s, value)]);
        }
        scene.line(&line, series(place).0);
    }
    Drawing { scene, table }
}

#[cfg(test)]
mod tests {
    use dwell_observe::{Line, observation_report};

    use super::*;

    #[test]
    fn a_device_has_two_figures_with_their_numbers_and_a_harmless_name() {
        let line = r#"{"timestamp":5.0,"interval_s":5.0,"latency_histogram":[{"device_id":1,"device_name":"../vd a","total":3,
            "buckets":[{"slot":7,"count":3,"bucket_low":128,"bucket_high":255}]}]}"#;
        let lines: Vec<Line> = vec![serde_json::from_str(line).expect("a line")];
        let figures = observation_figures(&observation_report(lines, None));
        let names: Vec<&str> = figures.iter().map(DrawnFigure::name).collect();
        assert_eq!(names, ["___vd_a_latency", "___vd_a_load"]);
        assert_eq!(figures[0].csv(), "begin_s,length_s,latency_low_us,latency_high_us,requests\n0,5,128,255,3\n");
        assert_eq!(figures[1].csv(), "begin_s,length_s,requests_per_s,queue_depth,inflight_at_end\n0,5,0.6,,\n");
        assert!(figures[0].svg().contains("Latency of a request"));
    }

    #[test]
    fn a_device_without_latencies_has_the_figure_of_its_load() {
        let line = r#"{"timestamp":5.0,"interval_s":5.0,"disks":[{"device_name":"vda","reads":10,"queue_depth":0.5}]}"#;
        let lines: Vec<Line> = vec![serde_json::from_str(line).expect("a line")];
        let figures = observation_figures(&observation_report(lines, None));
        assert_eq!(figures.iter().map(DrawnFigure::name).collect::<Vec<_>>(), ["vda_load"]);
        assert!(figures[0].csv().ends_with("\n0,5,2,0.5,\n"), "{}", figures[0].csv());
    }
}
