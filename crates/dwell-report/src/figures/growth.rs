//! `growth`: memory while tokens are generated.

use dwell_analysis::memory::MemoryKind;

use super::chart::axis::{Axis, Quantity};
use super::chart::legend::{Entry, Sample, legend};
use super::chart::palette::series;
use super::chart::plot::{drawable, opened};
use super::drawn::Drawing;
use super::kind::{Draw, FigureKind, MaybeDrawn};
use super::labels::{kind_name, short_labels};
use super::size::FigureSize;
use super::table::Table;
use crate::compare::Comparison;
use crate::compare_curve::{TokenMemory, memory_over_tokens};

pub(super) const GROWTH: FigureKind = FigureKind {
    name: "growth",
    shows: "Memory when each token came, of the first run of each configuration; PSS if all of them have it, else RSS.",
    needs: "tokens with memory",
    draw: Draw::Runs(draw),
};

/// A configuration with tokens and bytes.
type Line = (String, Vec<(u64, u64)>);

fn draw(comparison: &Comparison, size: FigureSize) -> MaybeDrawn {
    let mut lines = Vec::new();
    let labels = short_labels(comparison, &comparison.groups.iter().collect::<Vec<_>>());
    for (group, label) in comparison.groups.iter().zip(labels) {
        let Some(run) = group.paths.first() else { continue };
        let points = memory_over_tokens(run)?;
        if points.len() > 1 {
            lines.push((label, points));
        }
    }
    Ok(drawn(lines, size))
}

fn drawn(lines: Vec<(String, Vec<TokenMemory>)>, size: FigureSize) -> Option<Drawing> {
    // A point here and there may lack PSS, which is sampled less often; a line that lacks most of it has no PSS.
    let has_pss = |points: &Vec<TokenMemory>| points.iter().filter(|point| point.pss_bytes.is_some()).count() > 1;
    let has_all_pss = lines.iter().all(|(_, points)| has_pss(points));
    let kind = if has_all_pss { MemoryKind::Pss } else { MemoryKind::Rss };
    drawing(&of_kind(lines, kind), kind, size)
}

/// Tokens and bytes of the lines that have this kind of memory.
fn of_kind(lines: Vec<(String, Vec<TokenMemory>)>, kind: MemoryKind) -> Vec<Line> {
    let point = |point: &TokenMemory| Some((point.tokens, point.of(kind)?));
    let known = lines.into_iter().map(|(name, points)| (name, points.iter().filter_map(point).collect::<Vec<_>>()));
    known.filter(|(_, points)| points.len() > 1).collect()
}

fn drawing(lines: &[Line], kind: MemoryKind, size: FigureSize) -> Option<Drawing> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let last = points().map(|&(tokens, _)| tokens).max()?;
    let most = points().map(|&(_, bytes)| bytes).max().unwrap_or(0);
    let mut scene = size.scene(66.0, 66.0);
    let names = lines.iter().map(|(name, _)| name.clone());
    let entries: Vec<Entry> =
        names.enumerate().map(|(place, name)| Entry::new(name, Sample::Line(series(place).0))).collect();
    let sheet = drawable(&scene);
    let area = legend(&mut scene, sheet, &entries);
    let x = Axis::between("Tokens generated", Quantity::Number, 0.0, last as f64, area.width() / 2.0);
    let title = format!("Memory of the engine, {}", kind_name(kind));
    let y = Axis::from_zero(&title, Quantity::Bytes, most as f64, area.height() - 30.0);
    let plot = opened(&mut scene, area, &x, &y, 0.0);
    let mut table = Table::new(&["configuration", "memory", "tokens", "bytes"]);
    for (place, (name, points)) in lines.iter().enumerate() {
        let line: Vec<_> = points.iter().map(|&(tokens, bytes)| plot.at(tokens as f64, bytes as f64)).collect();
        scene.line(&line, series(place).0);
        for &(tokens, bytes) in points {
            table.row([name.as_str().into(), kind_name(kind).into(), tokens.into(), bytes.into()]);
        }
    }
    Some(Drawing { scene, table })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn a_run_without_pss_makes_all_lines_rss() {
        let points = |pss_bytes| {
            let point = |tokens| TokenMemory { tokens, rss_bytes: Some(100 + tokens), pss_bytes };
            vec![point(1), point(2)]
        };
        let with_pss = || ("a".to_owned(), points(Some(60)));
        let without = ("b".to_owned(), points(None));
        let csv = |lines| drawn(lines, FigureSize::Column).unwrap().table.csv();
        assert_eq!(csv(vec![with_pss()]), "configuration,memory,tokens,bytes\na,PSS,1,60\na,PSS,2,60\n");
        assert_eq!(
            csv(vec![with_pss(), without]),
            "configuration,memory,tokens,bytes\na,RSS,1,101\na,RSS,2,102\nb,RSS,1,101\nb,RSS,2,102\n"
        );
    }
}
