//! What is known of one run: its metadata and its `metrics.csv`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use dwell_analysis::{Options, SuitabilityThresholds, TypeValues, Value};
use dwell_events::csv_text;
use dwell_files::read_own_text;
use dwell_metadata::RunMetadata;
use dwell_store::{RunDir, ensure_listed_tables};

use crate::ReportError;
use crate::export::IDENTITY_COLUMNS;

/// State of a run without metadata: it is being recorded, or was killed.
const UNFINISHED: &str = "unfinished";

/// Longest `metrics.csv`: a hundred times what ten region types take. A field takes up to fifty times its size in memory.
const METRICS_MAX_BYTES: u64 = 1 << 20;

/// One run.
#[derive(Clone, Debug, Default)]
pub struct RunResults {
    /// Its directory.
    pub path: PathBuf,
    /// What its metadata says.
    pub metadata: RunMetadata,
    /// The lines of its `metrics.csv`.
    pub metrics: Vec<MetricsLine>,
}

/// The figures of one region type, by column of `metrics.csv`; those that are missing are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricsLine {
    /// The region type.
    pub region_type: String,
    /// The other columns.
    pub values: BTreeMap<String, Value>,
}

impl MetricsLine {
    /// The finite number in a column.
    pub fn number(&self, column: &str) -> Option<f64> {
        self.values.get(column)?.number()
    }

    /// The name in a column of names.
    pub fn name(&self, column: &str) -> Option<&str> {
        match self.values.get(column)? {
            Value::Text(name) => Some(name),
            _ => None,
        }
    }
}

impl From<TypeValues> for MetricsLine {
    fn from((region_type, values): TypeValues) -> Self {
        let values = values.into_iter().map(|(column, value)| (column.to_owned(), value)).collect();
        Self { region_type: region_type.to_string(), values }
    }
}

impl RunResults {
    /// Reads the results of a run. A run that was not finished has none but its name and says so in its state.
    pub fn load(run: &RunDir) -> Result<Self, ReportError> {
        ensure_listed_tables(run)?;
        let unfinished = RunMetadata {
            run_id: run.run_id().to_owned(),
            model_id: run.model_id().to_owned(),
            state: UNFINISHED.to_owned(),
            ..RunMetadata::default()
        };
        let is_final = run.marker()?.is_none_or(|marker| marker.state.is_final());
        let metadata = read_metadata(run)?.filter(|_| is_final);
        let metrics = if metadata.is_some() { read_metrics(&run.metrics_csv())? } else { Vec::new() };
        Ok(Self { path: run.path().to_owned(), metadata: metadata.unwrap_or(unfinished), metrics })
    }

    /// Whether the tables of the run were made.
    pub fn is_finished(&self) -> bool {
        self.metadata.state != UNFINISHED
    }

    /// Whether anything can be averaged: what accesses tell, or memory, or speed.
    pub fn has_figures(&self) -> bool {
        !self.metrics.is_empty() || self.metadata.memory.is_some() || self.metadata.generation.is_some()
    }

    /// Puts other figures in the place of those in `metrics.csv`.
    pub fn set_metrics(&mut self, figures: Vec<TypeValues>) {
        self.metrics = figures.into_iter().map(MetricsLine::from).collect();
    }

    /// Whose definitions the figures follow; none if there are no figures.
    pub fn definitions(&self) -> Option<&str> {
        self.metrics.first().and_then(|line| line.name("definitions"))
    }

    /// Whether the figures are those that the analysis would give with these options.
    pub fn is_computed_with(&self, options: &Options) -> bool {
        let build = self.metadata.build.as_ref();
        let thresholds = build.map_or_else(SuitabilityThresholds::default, |build| build.analysis.thresholds);
        self.definitions() == Some(options.definitions.name()) && thresholds == options.thresholds
    }

    /// Every basis of the figures.
    pub fn bases(&self) -> BTreeSet<&str> {
        self.metrics.iter().filter_map(|line| line.name("basis")).collect()
    }

    /// Whether the run belongs to the experiment of this id or name.
    pub fn is_of(&self, experiment: &str) -> bool {
        self.metadata.experiment.as_ref().is_some_and(|found| found.id == experiment || found.about.name == experiment)
    }
}

/// What a run's `metadata.json` says; none if it has no such file.
pub(crate) fn read_metadata(run: &RunDir) -> Result<Option<RunMetadata>, ReportError> {
    let text = run.read_metadata_json()?;
    Ok(text.map(|text| RunMetadata::parse(&text, &run.metadata_json())).transpose()?)
}

/// The lines of a `metrics.csv`; a run that has none was made by a program that computes none.
pub(crate) fn read_metrics(path: &Path) -> Result<Vec<MetricsLine>, ReportError> {
    match read_own_text(path, METRICS_MAX_BYTES) {
        Ok(text) => parse_metrics(&text, path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(ReportError::from_io("reading the metrics of a run", path, error)),
    }
}

fn parse_metrics(text: &str, path: &Path) -> Result<Vec<MetricsLine>, ReportError> {
    let unfit = |found: String| ReportError::UnfitFile {
        action: "reading the metrics of a run",
        found,
        path: path.to_path_buf(),
    };
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| unfit(error.to_string()))?.clone();
    let type_at = header.iter().position(|name| name == "region_type");
    let type_at = type_at.ok_or_else(|| unfit("no column region_type".to_owned()))?;
    let line = |record: csv::StringRecord| MetricsLine {
        region_type: csv_text(record.get(type_at).unwrap_or_default()).to_owned(),
        values: header
            .iter()
            .zip(&record)
            .filter(|(name, field)| *name != "region_type" && !is_identity(name) && !field.is_empty())
            .map(|(name, field)| (name.to_owned(), value_of(csv_text(field))))
            .collect(),
    };
    reader.records().map(|record| record.map(line).map_err(|error| unfit(error.to_string()))).collect()
}

/// Whether a column of an exported file names the run. It is no figure, though a name may be all digits.
fn is_identity(column: &str) -> bool {
    IDENTITY_COLUMNS.iter().any(|(name, _)| *name == column)
}

/// What a field says. Files of other versions have other columns, so the field decides and not the column.
fn value_of(field: &str) -> Value {
    let integer = field.parse().map(Value::Integer);
    let number = integer.or_else(|_| field.parse().map(Value::Number));
    let flag = || field.parse().map(Value::Flag);
    number.ok().or_else(|| flag().ok()).unwrap_or_else(|| Value::Text(field.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_unfit_fields_are_no_numbers() {
        let lines = parse_metrics("region_type,a,b,c,d,e\nweight,1.5,,inf,x,true\n", Path::new("m")).unwrap();
        let numbers = ["a", "b", "c", "d", "e"].map(|column| lines[0].number(column));
        assert_eq!(numbers, [Some(1.5), None, None, None, None]);
        assert_eq!(lines[0].name("d"), Some("x"));
        assert_eq!(lines[0].values.get("e"), Some(&Value::Flag(true)));
    }

    #[test]
    fn the_columns_that_name_a_run_in_a_dataset_are_no_figures() {
        let text = "region_type,loads,run_id,model_id,configuration\nweight,3,20260102,m,12345678\n";
        let lines = parse_metrics(text, Path::new("m")).unwrap();
        assert_eq!(lines[0].values.keys().collect::<Vec<_>>(), ["loads"]);
    }

    #[test]
    fn figures_read_from_a_file_are_those_that_were_computed() {
        let report = dwell_analysis::Analyser::new(Options::default()).finish();
        assert_eq!(parse_metrics(&report.metrics_csv(), Path::new("m")).unwrap(), []);
        assert_eq!(report.figures_of(&dwell_analysis::Metric::ALL), []);
        let typed =
            [("loads", Value::Integer(u64::MAX)), ("a_s", Value::Number(0.1)), ("basis", Value::Text("page".into()))];
        let fields = typed.clone().map(|(_, value)| value.to_string()).join(",");
        let lines = parse_metrics(&format!("region_type,loads,a_s,basis\nweight,{fields}\n"), Path::new("m")).unwrap();
        assert_eq!(lines, [MetricsLine::from(("weight".into(), typed.to_vec()))]);
    }

    #[test]
    fn a_short_line_is_an_error_that_names_the_file() {
        let error = parse_metrics("region_type,a\nweight\n", Path::new("m.csv")).unwrap_err().to_string();
        assert!(error.contains("m.csv") && error.contains("reading the metrics"), "{error}");
    }
}
