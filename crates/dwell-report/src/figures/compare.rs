//! The figures of a comparison.

use dwell_analysis::statistics::Summary;

use super::axis::Unit;
use super::canvas::DrawingError;
use super::compare_lines::{LineChart, LineSeries, Look, colour_number};
use super::dots::{Block, DotChart, Mark, Row};
use crate::ReportError;
use crate::compare::{CompareGroup, Comparison, Spread};
use crate::compare_context::ContextLine;
use crate::compare_curve::memory_over_tokens;

/// File names and contents of the figures. A figure that no run has numbers for is left out.
pub fn comparison_figures(comparison: &Comparison) -> Result<Vec<(String, String)>, ReportError> {
    let drawn = [
        ("memory_over_tokens.svg", over_tokens(comparison)?.map(|chart| chart.svg())),
        ("memory_over_context.svg", over_context(comparison).map(|chart| chart.svg())),
        ("decode_speed.svg", speed(comparison, "decode_tokens_per_s", "Decode speed").map(|chart| chart.svg())),
        ("prompt_speed.svg", speed(comparison, "prompt_tokens_per_s", "Prompt speed").map(|chart| chart.svg())),
    ];
    let svg = |(name, drawn): (&str, Result<String, DrawingError>)| {
        let failed = |error: DrawingError| ReportError::Drawing { figure: name.to_owned(), reason: error.to_string() };
        Ok((name.to_owned(), drawn.map_err(failed)?))
    };
    drawn.into_iter().filter_map(|(name, drawn)| Some((name, drawn?))).map(svg).collect()
}

/// One line per configuration: that of its first run.
fn over_tokens(comparison: &Comparison) -> Result<Option<LineChart>, ReportError> {
    let mut series = Vec::new();
    for (number, group) in comparison.groups.iter().enumerate() {
        let Some(run) = group.paths.first() else { continue };
        let points: Vec<(f64, f64)> =
            memory_over_tokens(run)?.into_iter().map(|(tokens, bytes)| (tokens as f64, bytes as f64)).collect();
        if points.len() > 1 {
            let name = Some(comparison.label_of(group));
            series.push(LineSeries { name, colour: colour_number(number), look: Look::Line, points });
        }
    }
    let caption = "Memory of the engine's processes when each token came: PSS, else RSS, with memory on GPUs; between \
                   the two samples around it. Of repetitions, the first run.";
    Ok((!series.is_empty()).then(|| LineChart {
        title: "Memory while tokens are generated",
        x_label: "tokens generated",
        series,
        caption: caption.to_owned(),
    }))
}

fn over_context(comparison: &Comparison) -> Option<LineChart> {
    let lines = comparison.context_lines.iter().enumerate();
    let series: Vec<LineSeries> = lines.flat_map(|(number, line)| series_of(line, number)).collect();
    let caption = "Dots: steady memory without a file behind it (else PSS or RSS), without reported compute buffers. \
                   Lines: robust regression; thin lines: the KV cache by theory, from the same base.";
    (!series.is_empty()).then(|| LineChart {
        title: "Memory over context length",
        x_label: "positions in the KV cache",
        series,
        caption: caption.to_owned(),
    })
}

/// Dots of the runs, the line through them, and the line that theory gives.
fn series_of(line: &ContextLine, number: usize) -> Vec<LineSeries> {
    let colour = colour_number(number);
    let longest = line.points.last().map_or(0.0, |&(length, _)| length as f64);
    let straight = |slope: f64| vec![(0.0, line.base_bytes), (longest, line.base_bytes + slope * longest)];
    let kv_type = line.kv_type.as_deref().unwrap_or("KV type not known");
    let name = format!(
        "{} · {} · {kv_type}: {} per position",
        line.engine,
        line.model_id,
        Unit::Bytes.text(line.bytes_per_token.max(0.0))
    );
    let dots = line.points.iter().map(|&(length, bytes)| (length as f64, bytes)).collect();
    let mut series = vec![
        LineSeries { name: Some(name), colour, look: Look::Line, points: straight(line.bytes_per_token) },
        LineSeries { name: None, colour, look: Look::Dots, points: dots },
    ];
    if let Some(theory) = line.theory_bytes_per_token {
        let name = Some(format!("theory: {} per position", Unit::Bytes.text(theory)));
        series.push(LineSeries { name, colour, look: Look::Theory, points: straight(theory) });
    }
    series
}

fn speed(comparison: &Comparison, figure: &str, title: &str) -> Option<DotChart> {
    let block = |(number, group): (usize, &CompareGroup)| {
        let spread = group.figures.get(figure)?;
        let marks = vec![Mark { summary: summary(spread), is_ring: false }];
        let row = Row { label: String::new(), colour: colour_number(number), marks };
        Some(Block { heading: format!("{} (n = {})", comparison.label_of(group), spread.n), rows: vec![row] })
    };
    let blocks: Vec<Block> = comparison.groups.iter().enumerate().filter_map(block).collect();
    (!blocks.is_empty()).then(|| DotChart {
        title: title.to_owned(),
        axis_label: "tokens per second",
        unit: Unit::TokensPerSecond,
        legend: vec!["median, with the smallest and largest"],
        blocks,
        caption: "While being recorded. Tokens of prompts that were found in a cache are not counted.".to_owned(),
    })
}

/// A spread where a chart wants an interval: from the smallest to the largest.
fn summary(spread: &Spread) -> Summary {
    let is_several = spread.n > 1;
    Summary {
        n: spread.n as u64,
        mean: spread.median,
        standard_deviation: None,
        ci95_low: is_several.then_some(spread.min),
        ci95_high: is_several.then_some(spread.max),
        min: spread.min,
        max: spread.max,
    }
}
