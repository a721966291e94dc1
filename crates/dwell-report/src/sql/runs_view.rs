//! The view `runs`: what tells runs apart.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{identifier, literal, text_of};
use crate::{GroupKey, ReportError, RunResults};

/// The columns of `runs` with their types. Those before `path` stand in front of the columns of every table.
const COLUMNS: [(&str, &str); 17] = [
    ("run", "VARCHAR"),
    ("model", "VARCHAR"),
    ("engine", "VARCHAR"),
    ("experiment", "VARCHAR"),
    ("repetition", "BIGINT"),
    ("context_length", "BIGINT"),
    ("batch_size", "BIGINT"),
    ("output_tokens", "BIGINT"),
    ("kv_type", "VARCHAR"),
    ("flash_attention", "BOOLEAN"),
    ("threads", "BIGINT"),
    ("path", "VARCHAR"),
    ("state", "VARCHAR"),
    ("started_at_utc", "VARCHAR"),
    ("validity", "VARCHAR"),
    ("quality", "VARCHAR"),
    ("configuration", "VARCHAR"),
];

/// The runs that a set of views is about.
pub(super) struct RunsView {
    /// Their directories, from the root on.
    pub(super) paths: Vec<PathBuf>,
    rows: Vec<[Option<String>; COLUMNS.len()]>,
}

impl RunsView {
    pub(super) fn new(runs: &[&RunResults]) -> Result<Self, ReportError> {
        let paths = runs.iter().map(|run| absolute(&run.path)).collect::<Result<Vec<_>, _>>()?;
        let mut uses_of_name = BTreeMap::new();
        for path in &paths {
            *uses_of_name.entry(path.file_name()).or_insert(0) += 1;
        }
        let rows = runs.iter().zip(&paths).map(|(run, path)| {
            let whole = text_of(path)?;
            // Trees may use the same name for different runs, and a name has to mean one.
            let is_unique = uses_of_name.get(&path.file_name()) == Some(&1);
            let name = path.file_name().and_then(OsStr::to_str).filter(|_| is_unique).unwrap_or(&whole).to_owned();
            Ok(row(run, name, whole))
        });
        Ok(Self { rows: rows.collect::<Result<Vec<_>, ReportError>>()?, paths })
    }

    /// The columns of `runs` that go in front of a table's, but for those that it has itself.
    pub(super) fn columns_before(has_column: impl Fn(&str) -> bool) -> Vec<(&'static str, &'static str)> {
        COLUMNS.into_iter().take_while(|(name, _)| *name != "path").filter(|(name, _)| !has_column(name)).collect()
    }

    pub(super) fn statement(&self) -> String {
        let names: Vec<String> = COLUMNS.iter().map(|(name, _)| identifier(name)).collect();
        let types = COLUMNS.iter().map(|(_, sql_type)| *sql_type);
        let values = |row: &[Option<String>; COLUMNS.len()]| {
            let cells = row.iter().zip(types.clone()).map(|(value, sql_type)| cell(value.as_deref(), sql_type));
            format!("  ({})", cells.collect::<Vec<_>>().join(", "))
        };
        // A list of no values is no statement, so that one run without a name keeps the types and is left out.
        let no_run = std::array::from_fn(|_| None);
        let rows: Vec<String> = std::iter::once(&no_run).chain(&self.rows).map(values).collect();
        format!(
            "create or replace view runs as select * from (values\n{}\n) as runs ({}) where run is not null;\n",
            rows.join(",\n"),
            names.join(", ")
        )
    }
}

fn cell(value: Option<&str>, sql_type: &str) -> String {
    match value {
        Some(value) if sql_type == "VARCHAR" => literal(value),
        Some(value) => format!("{value}::{sql_type}"),
        None => format!("null::{sql_type}"),
    }
}

fn row(run: &RunResults, name: String, path: String) -> [Option<String>; COLUMNS.len()] {
    let metadata = &run.metadata;
    let key = GroupKey::of(run);
    let number = |value: Option<u64>| value.map(|value| value.to_string());
    let experiment = metadata.experiment.as_ref();
    [
        Some(name),
        Some(metadata.model_id.clone()),
        Some(metadata.engine.clone()),
        experiment.map(|experiment| experiment.about.name.clone()),
        experiment.map(|experiment| experiment.repetition.to_string()),
        number(key.context_length),
        number(key.batch_size),
        number(key.output_tokens),
        key.kv_type.clone(),
        key.flash_attention.map(|is_on| is_on.to_string()),
        number(key.threads),
        Some(path),
        Some(metadata.state.clone()),
        Some(metadata.started_at_utc.clone()),
        metadata.validity.as_ref().map(|validity| validity.class.name().to_owned()),
        metadata.quality.as_ref().map(|quality| quality.status.name().to_owned()),
        Some(key.configuration()),
    ]
}

/// The statements must mean the same wherever they are run.
fn absolute(path: &Path) -> Result<PathBuf, ReportError> {
    std::path::absolute(path).map_err(|error| dwell_files::FileError::from_io("naming a run", path, error).into())
}
