//! Checking a run against its manifest, and its tables against their schemas.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path};

use arrow_schema::Field;
use dwell_events::SCHEMA_VERSION;
use dwell_events::schema::Table;

use crate::changed_files::is_other_content;
use crate::manifest::{Manifest, ManifestFile, files_of_run};
use crate::table_reader::OpenedTable;
use crate::{MANIFEST_SCHEMA_VERSION, StoreError};

/// What a check of a run found. Paths are relative to the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct VerifyReport {
    /// Files that are as the manifest says.
    pub ok: Vec<String>,
    /// Files with other content.
    pub changed: Vec<ChangedFile>,
    /// Files that are listed and not there.
    pub missing: Vec<String>,
    /// Files that are there and not listed.
    pub unlisted: Vec<String>,
    /// Tables that cannot be read as such.
    pub table_problems: Vec<TableProblem>,
}

impl VerifyReport {
    /// Whether every file is there, unchanged and readable. Files that are not listed do no harm.
    pub fn is_ok(&self) -> bool {
        self.changed.is_empty() && self.missing.is_empty() && self.table_problems.is_empty()
    }
}

/// A file that is not what the manifest says.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ChangedFile {
    /// Path relative to the run.
    pub path: String,
    /// Size in the manifest.
    pub listed_bytes: u64,
    /// Size now.
    pub found_bytes: u64,
}

/// What is wrong with a table.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TableProblem {
    /// The table.
    pub table: Table,
    /// In words.
    pub problem: String,
}

/// Checks every file of the run in `dir`, and those of these tables that it has.
///
/// Fails only if there is no manifest to check against or a file cannot be read; what is wrong with the run is
/// in the report.
pub fn verify(dir: &Path, tables: &[Table]) -> Result<VerifyReport, StoreError> {
    let manifest = Manifest::read(dir)?;
    check_manifest_version(&manifest, dir)?;
    let mut report = VerifyReport::default();
    for file in &manifest.files {
        check_file(dir, file, &mut report)?;
    }
    let listed: BTreeSet<&str> = manifest.files.iter().map(|file| file.path.as_str()).collect();
    report.unlisted = files_of_run(dir)?.into_iter().filter(|path| !listed.contains(path.as_str())).collect();
    for &table in tables {
        if dir.join(table.file_name()).is_file() {
            report.table_problems.extend(table_problem(dir, table));
        }
    }
    Ok(report)
}

fn check_manifest_version(manifest: &Manifest, dir: &Path) -> Result<(), StoreError> {
    let major = |version: &str| version.split('.').next().map(str::to_owned);
    if major(&manifest.manifest_schema_version) == major(MANIFEST_SCHEMA_VERSION) {
        return Ok(());
    }
    Err(StoreError::OtherMajorVersion {
        found: manifest.manifest_schema_version.clone(),
        supported: MANIFEST_SCHEMA_VERSION,
        path: dir.join(crate::run_dir::MANIFEST_FILE),
    })
}

fn check_file(dir: &Path, listed: &ManifestFile, report: &mut VerifyReport) -> Result<(), StoreError> {
    let path = dir.join(&listed.path);
    // A manifest from elsewhere must not make us read outside of the run.
    let is_inside = Path::new(&listed.path).components().all(|part| matches!(part, Component::Normal(_)));
    let found = fs::symlink_metadata(&path).ok().filter(|found| is_inside && found.is_file());
    let Some(found_bytes) = found.map(|found| found.len()) else {
        report.missing.push(listed.path.clone());
        return Ok(());
    };
    // A file of another size is not read: it may have any.
    if found_bytes != listed.size_bytes || is_other_content(&path, listed)? {
        report.changed.push(ChangedFile { path: listed.path.clone(), listed_bytes: listed.size_bytes, found_bytes });
    } else {
        report.ok.push(listed.path.clone());
    }
    Ok(())
}

fn table_problem(dir: &Path, table: Table) -> Option<TableProblem> {
    let problem = match OpenedTable::open(&dir.join(table.file_name()), table) {
        Err(error) => error.to_string(),
        Ok(opened) => {
            let schema = table.schema();
            let is_earlier = opened.schema_version().is_some_and(is_earlier_version);
            let is_as_needed = |field: &Field| match opened.schema().field_with_name(field.name()) {
                Ok(found) => found.data_type() == field.data_type(),
                // Columns that came with a later version may be missing in any row.
                Err(_) => is_earlier && field.is_nullable(),
            };
            let fields = schema.fields().iter().filter(|field| !is_as_needed(field));
            let differing: Vec<&str> = fields.map(|field| field.name().as_str()).collect();
            if differing.is_empty() {
                return None;
            }
            format!("columns that are missing or of another type: {}", differing.join(", "))
        }
    };
    Some(TableProblem { table, problem })
}

/// Whether tables of this version may lack columns that today's have. The major part was compared when the table was
/// opened.
fn is_earlier_version(version: &str) -> bool {
    let minor = |version: &str| version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    minor(version) < minor(SCHEMA_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tables_of_earlier_versions_may_lack_columns() {
        assert!(is_earlier_version("1.0") && is_earlier_version("1.2") && is_earlier_version("1"));
        assert!(!is_earlier_version(SCHEMA_VERSION) && !is_earlier_version("1.1000"));
    }
}
