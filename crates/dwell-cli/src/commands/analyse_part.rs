//! `dwell analyse --part`: one part of an analysis, for `--merge-parts`; `dwell analyse --explain`: what it would read.

use std::path::Path;
use std::process::ExitCode;

use dwell_analysis::Part;
use dwell_metrics::{Explanation, conclude_part, explain as explain_run, is_part_file, write_part};
use dwell_report::text::{bytes, count};
use dwell_store::RunDir;

use crate::args::AnalyseArgs;
use crate::messages::hinted;
use crate::new_output::{check_file, check_parent};
use crate::output::{print_result, step};

/// Writes what a part adds to the report. A file that is a part already is replaced: a task that is tried again writes it
/// again.
pub(super) fn write(run: &RunDir, args: &AnalyseArgs, part: Part, file: &Path) -> anyhow::Result<ExitCode> {
    check_parent(file)?;
    check_file(file, args.force || is_part_file(file))?;
    let concluded =
        step("computing the metrics", || conclude_part(run, args.figures.options(), part)).map_err(hinted)?;
    write_part(run, &concluded, file).map_err(hinted)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn explain(run: &RunDir, args: &AnalyseArgs) -> anyhow::Result<ExitCode> {
    let scale = &args.scale;
    let explanation = explain_run(run, args.figures.options(), scale.parts, scale.memory_limit).map_err(hinted)?;
    match args.json {
        true => super::print_json(&explanation)?,
        false => print_result(&text(&explanation))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn text(explanation: &Explanation) -> String {
    let mut lines = vec![
        format!("rows             {} in {} row groups", count(explanation.rows), count(explanation.row_groups as u64)),
        format!("columns          {}", explanation.columns.join(", ")),
        format!(
            "bytes read       {} of {} ({} decompressed), by every part",
            bytes(explanation.column_bytes),
            bytes(explanation.file_bytes),
            bytes(explanation.decompressed_bytes)
        ),
        format!(
            "memory           about {} in one part, by its first {} rows",
            bytes(explanation.estimated_memory_bytes),
            count(explanation.sampled_rows)
        ),
    ];
    let limit = explanation.memory_limit_bytes.map(|limit| format!(" within {}", bytes(limit))).unwrap_or_default();
    let each = explanation.parts.first().map_or(0, |part| part.estimated_memory_bytes);
    lines.push(format!("parts            {}{limit}, about {} each", explanation.parts.len(), bytes(each)));
    lines.join("\n") + "\n"
}
