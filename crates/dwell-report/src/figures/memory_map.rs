//! `memory-map`: which memory is loaded and stored when.

use dwell_analysis::overview::{Overview, Place};

use super::chart::axis::{Axis, LABEL_PT, Quantity};
use super::chart::heat::{HeatScale, shade_bar};
use super::chart::palette::{AXIS, INK, READ, WRITTEN, region_rank};
use super::chart::plot::{Plot, drawable, inner};
use super::drawn::Drawing;
use super::kind::{Draw, FigureKind};
use super::phases::{PHASES_PT, draw_phases};
use super::scene::{Align, Colour, Image, Rect, Scene, Shape, text_width};
use super::size::FigureSize;
use super::table::Table;
use crate::numbers;
use crate::page::{RunPage, region_title};

pub(super) const MEMORY_MAP: FigureKind = FigureKind {
    name: "memory-map",
    shows: "Bytes loaded and stored by place and time: a row per tensor, ordered by region type, layer and name.",
    needs: "accesses",
    draw: Draw::Run(draw),
};

const LEGEND_PT: f64 = 23.0;
const LEGEND_ROW_PT: f64 = 10.0;
const GROUP_GAP_PT: f64 = 2.0;
/// A region type with few tensors must still be seen.
const LEAST_GROUP_PT: f64 = 8.0;
/// Rows of an image for each point of its height.
const ROWS_PER_POINT: f64 = 2.0;
const NAME_GAP_PT: f64 = 4.0;

/// Tensors that lie beside each other, drawn as one row.
struct Row<'a> {
    places: Vec<&'a Place>,
    loaded: Vec<u64>,
    stored: Vec<u64>,
}

/// The rows of a region type.
struct Group<'a> {
    region_type: &'a str,
    rows: Vec<Row<'a>>,
}

fn draw(run: &RunPage, size: FigureSize) -> Option<Drawing> {
    let overview = &run.overview;
    let (axis, bins) = (&overview.tiles.axis, overview.tiles.axis.bins as usize);
    let mut scene = size.scene(72.0, 88.0);
    let sheet = drawable(&scene);
    let begin_s = run.timeline.seconds(axis.first_bin_ns);
    let bin_s = axis.bin_ns as f64 / 1e9;
    let end_s = begin_s + bin_s * bins as f64;
    let x = Axis::between("Time since the run began", Quantity::Seconds, begin_s, end_s, sheet.width() / 2.0);
    let mut types: Vec<&str> = overview.places.iter().map(|place| place.region_type.as_str()).collect();
    types.sort_by_key(|region_type| region_rank(region_type));
    types.dedup();
    let names_width = types.iter().map(|name| text_width(region_title(name), LABEL_PT)).fold(0.0, f64::max);
    let area = inner(Rect { top: sheet.top + LEGEND_PT, ..sheet }, names_width + NAME_GAP_PT, &x, PHASES_PT);
    let tensors: Vec<usize> = types.iter().map(|name| places_of(overview, name).len()).collect();
    let places = heights(&tensors, area);
    let groups: Vec<Group<'_>> = types
        .iter()
        .zip(&places)
        .map(|(&region_type, place)| group(overview, region_type, bins, place.height()))
        .collect();
    let cells = || groups.iter().flat_map(|group| &group.rows).flat_map(|row| row.loaded.iter().chain(&row.stored));
    let scale = HeatScale::logarithmic(cells().map(|bytes| *bytes as f64));
    if scale.most <= 0.0 {
        return None;
    }
    draw_legend(&mut scene, sheet, scale);
    for (group, &place) in groups.iter().zip(&places) {
        scene.add(Shape::Image(image(group, place, bins, scale)));
        let title = region_title(group.region_type);
        let at = (place.left - NAME_GAP_PT, (place.top + place.bottom) / 2.0);
        scene.label(at, Align::End, LABEL_PT, INK, title);
        scene.line(&[(place.left, place.top), (place.left, place.bottom)], AXIS);
    }
    let plot = Plot::new(area, &x, &x);
    plot.draw_x(&mut scene, &x);
    draw_phases(&mut scene, &plot, &run.timeline);
    Some(Drawing { scene, table: table(&groups, begin_s, bin_s) })
}

fn places_of<'a>(overview: &'a Overview, region_type: &str) -> Vec<(u32, &'a Place)> {
    let numbered = (0..).zip(&overview.places);
    numbered.filter(|(_, place)| place.region_type == region_type).collect()
}

/// Where the groups lie: as high as they have tensors, but none too low.
fn heights(tensors: &[usize], area: Rect) -> Vec<Rect> {
    let free =
        area.height() - GROUP_GAP_PT * tensors.len().saturating_sub(1) as f64 - LEAST_GROUP_PT * tensors.len() as f64;
    let all = tensors.iter().sum::<usize>().max(1) as f64;
    let mut top = area.top;
    let place = |&tensors: &usize| {
        let bottom = top + LEAST_GROUP_PT + free.max(0.0) * tensors as f64 / all;
        let place = Rect { top, bottom, ..area };
        top = bottom + GROUP_GAP_PT;
        place
    };
    tensors.iter().map(place).collect()
}

fn group<'a>(overview: &'a Overview, region_type: &'a str, bins: usize, height_pt: f64) -> Group<'a> {
    let places = places_of(overview, region_type);
    let tensors_per_row = places.len().div_ceil(((height_pt * ROWS_PER_POINT) as usize).max(1)).max(1);
    let tiles = &overview.tiles;
    let row = |places: &[(u32, &'a Place)]| {
        let mut row = Row {
            places: places.iter().map(|(_, place)| *place).collect(),
            loaded: vec![0; bins],
            stored: vec![0; bins],
        };
        for &(number, _) in places {
            let cells = tiles.place.partition_point(|&at| at < number)..tiles.place.partition_point(|&at| at <= number);
            for cell in cells {
                let bin = tiles.bin[cell] as usize;
                row.loaded[bin] = row.loaded[bin].saturating_add(tiles.read_bytes[cell]);
                row.stored[bin] = row.stored[bin].saturating_add(tiles.written_bytes[cell]);
            }
        }
        row
    };
    Group { region_type, rows: places.chunks(tensors_per_row).map(row).collect() }
}

fn image(group: &Group<'_>, place: Rect, bins: usize, scale: HeatScale) -> Image {
    let shade = |colour: Colour, bytes: u64| colour.tint(scale.darkness(bytes as f64));
    let pixels = group.rows.iter().flat_map(|row| {
        row.loaded
            .iter()
            .zip(&row.stored)
            .map(|(&loaded, &stored)| shade(READ, loaded).blended(shade(WRITTEN, stored)))
            .collect::<Vec<_>>()
    });
    Image { place, columns: bins, pixels: pixels.collect() }
}

fn draw_legend(scene: &mut Scene, sheet: Rect, scale: HeatScale) {
    let ends = || [scale.least, scale.most].map(|bytes| numbers::bytes(bytes.round() as u64));
    let y = sheet.top + LABEL_PT / 2.0 + 0.5;
    let end = shade_bar(scene, (sheet.left, y), "loaded", READ, ends());
    shade_bar(scene, (end + 10.0, y), "stored", WRITTEN, ends());
    let below = y + LEGEND_ROW_PT;
    let both = Rect { left: sheet.left, top: below - 3.0, right: sheet.left + 11.0, bottom: below + 3.0 };
    scene.rect(both, READ.blended(WRITTEN));
    let said = "both (shades blended); shades are logarithmic";
    scene.label((both.right + NAME_GAP_PT, below), Align::Begin, LABEL_PT, INK, said);
}

fn table(groups: &[Group<'_>], begin_s: f64, bin_s: f64) -> Table {
    let columns = [
        "region_type",
        "first_layer",
        "last_layer",
        "first_tensor",
        "tensors",
        "begin_s",
        "end_s",
        "loaded_bytes",
        "stored_bytes",
    ];
    let mut table = Table::new(&columns);
    for group in groups {
        for row in &group.rows {
            let (first, last) = (row.places.first(), row.places.last());
            let layer = |place: Option<&&Place>| place.and_then(|place| place.layer).map(u64::from);
            for (bin, (&loaded, &stored)) in row.loaded.iter().zip(&row.stored).enumerate() {
                if loaded == 0 && stored == 0 {
                    continue;
                }
                let bin_begin_s = begin_s + bin as f64 * bin_s;
                table.row([
                    group.region_type.into(),
                    layer(first).into(),
                    layer(last).into(),
                    first.and_then(|place| place.tensor.as_deref()).into(),
                    row.places.iter().map(|place| u64::from(place.regions)).sum::<u64>().into(),
                    bin_begin_s.into(),
                    (bin_begin_s + bin_s).into(),
                    loaded.into(),
                    stored.into(),
                ]);
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_legend_names_the_blend_and_the_scale() {
        let mut scene = FigureSize::Column.scene(72.0, 88.0);
        let sheet = drawable(&scene);
        draw_legend(&mut scene, sheet, HeatScale::logarithmic([1.0, 1024.0]));
        let svg = scene.svg();
        assert!(svg.contains(">both (shades blended); shades are logarithmic<"), "{svg}");
        let blend = READ.blended(WRITTEN);
        let is_blend = |shape: &Shape| matches!(shape, Shape::Path { fill: Some(colour), .. } if *colour == blend);
        assert!(scene.shapes().iter().any(is_blend));
    }
}
