//! A trace in parts that are analysed apart, by other processes or on other machines.

use std::path::{Path, PathBuf};

use dwell_analysis::{Analyser, ConcludedPart, MetricsReport, Options, Part};
use dwell_store::{RunDir, ensure_listed_tables};

use crate::part_file::{PartIdentity, read_part_of};
use crate::{MetricsError, RowsSeen, failed, in_order, pass, region_names};

impl RowsSeen for ConcludedPart {
    fn rows_seen(&self) -> (u64, u64) {
        self.rows()
    }
}

/// What a part of a run adds to its report. Every part reads all rows.
pub fn conclude_part(run: &RunDir, options: Options, part: Part) -> Result<ConcludedPart, MetricsError> {
    ensure_listed_tables(run)?;
    in_order(run, options, |options| Ok(pass::push_tables(run, Analyser::of_part(options, part))?.conclude()))
}

/// The report on a run from files that [`write_part`](crate::write_part) wrote, in any order. Files of another run, of
/// another table, by other options, missing ones and ones that are there twice are refused.
pub fn merge_parts(run: &RunDir, options: Options, files: &[PathBuf]) -> Result<MetricsReport, MetricsError> {
    ensure_listed_tables(run)?;
    let identity = PartIdentity::of(run)?;
    let mut merged: Option<ConcludedPart> = None;
    for file in files {
        let part = read_part_of(file, &identity)?;
        check_part(&part, options, merged.as_ref(), file)?;
        match &mut merged {
            Some(merged) => merged.merge(part).map_err(failed(run))?,
            None => merged = Some(part),
        }
    }
    let whole =
        merged.ok_or_else(|| MetricsError::MissingParts { missing: String::new(), run: run.path().to_owned() })?;
    if let Some(missing) = missing_parts(&whole) {
        return Err(MetricsError::MissingParts { missing, run: run.path().to_owned() });
    }
    let mut report = whole.finish().map_err(failed(run))?;
    report.name_regions(region_names::read(run)?);
    Ok(report)
}

/// Whether a part fits those before it and what was asked for. Rows may have been sorted, which nobody asks for.
fn check_part(
    part: &ConcludedPart,
    options: Options,
    before: Option<&ConcludedPart>,
    file: &Path,
) -> Result<(), MetricsError> {
    let foreign = |difference: String| Err(MetricsError::ForeignPart { difference, path: file.to_owned() });
    let asked = Options { row_order: part.options().row_order, ..options };
    if part.options() != asked {
        return foreign("definitions or thresholds other than those asked for".to_owned());
    }
    let [number] = part.parts() else { return foreign(format!("{} parts in one file", part.parts().len())) };
    if let Some(before) = before {
        let of = before.parts()[0].of();
        if number.of() != of {
            return foreign(format!("part {} of {}, where the others are of {of}", number.number(), number.of()));
        }
        if before.parts().contains(number) {
            return foreign(format!("part {} of {of} for the second time", number.number()));
        }
    }
    Ok(())
}

/// The numbers of the parts that are not there, if any are missing.
fn missing_parts(merged: &ConcludedPart) -> Option<String> {
    let parts = merged.parts();
    let missing = Part::all(parts[0].of()).filter(|part| !parts.contains(part));
    let numbers: Vec<String> = missing.map(|part| part.number().to_string()).collect();
    (!numbers.is_empty()).then(|| format!("{} of {}", numbers.join(", "), parts[0].of()))
}
