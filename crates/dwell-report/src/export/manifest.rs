//! `manifest.csv` of a dataset: the rows that the results directory has of the exported runs.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use dwell_events::csv_cell;
use dwell_store::{MANIFEST_COLUMNS, ManifestRow, ResultsManifest};

use super::paths::shortened;
use super::place_of;
use crate::run_results::RunResults;
use crate::{GroupKey, ReportError};

/// Column after those of a results directory.
const CONFIGURATION: &str = "configuration";

/// One row per run. A run that its results directory does not list gets one from its metadata.
pub(super) fn manifest_csv(runs: &[&RunResults]) -> Result<String, ReportError> {
    let mut listed: BTreeMap<&Path, RowsByName> = BTreeMap::new();
    let mut writer = csv::Writer::from_writer(Vec::new());
    let names = MANIFEST_COLUMNS.iter().map(|column| column.name).chain([CONFIGURATION]);
    writer.write_record(names).map_err(unfit)?;
    for run in runs {
        let results = run.path.ancestors().nth(2).unwrap_or(&run.path);
        if !listed.contains_key(results) {
            listed.insert(results, rows_by_name(results)?);
        }
        let name = (run.metadata.model_id.clone(), run.metadata.run_id.clone());
        let row = listed[results].get(&name).cloned().unwrap_or_else(|| row_from_metadata(run));
        let (failure, _) = shortened(&row.failure);
        let row = ManifestRow { failure, path: place_of(run), ..row };
        let mut record = row.to_record().map_err(unfit)?;
        record.push_field(&GroupKey::of(run).configuration());
        writer.write_record(record.iter().map(|text| csv_cell(text).into_owned())).map_err(unfit)?;
    }
    let bytes = writer.into_inner().map_err(unfit)?;
    String::from_utf8(bytes).map_err(unfit)
}

/// By model and run.
type RowsByName = HashMap<(String, String), ManifestRow>;

fn rows_by_name(results: &Path) -> Result<RowsByName, ReportError> {
    let mut rows = RowsByName::new();
    for row in ResultsManifest::open(results).rows()? {
        rows.entry((row.model_id.clone(), row.run_id.clone())).or_insert(row);
    }
    Ok(rows)
}

fn unfit(error: impl std::fmt::Display) -> ReportError {
    ReportError::UnfitFile {
        action: "writing the list of runs",
        found: error.to_string(),
        path: PathBuf::from("manifest.csv"),
    }
}

fn row_from_metadata(run: &RunResults) -> ManifestRow {
    let (metadata, key) = (&run.metadata, GroupKey::of(run));
    let (generation, host) = (metadata.generation.as_ref(), metadata.host.as_ref());
    let narrow = |value: Option<u64>| value.and_then(|value| u32::try_from(value).ok());
    ManifestRow {
        run_id: metadata.run_id.clone(),
        model_id: metadata.model_id.clone(),
        context_length: narrow(key.context_length),
        batch_size: narrow(key.batch_size),
        max_tokens_per_prompt: narrow(key.output_tokens),
        kv_type: key.kv_type.unwrap_or_default(),
        flash_attention: key.flash_attention,
        threads: narrow(key.threads),
        run_validity: metadata.validity_class().name().to_owned(),
        quality: metadata.quality.as_ref().map(|quality| quality.status.name().to_owned()).unwrap_or_default(),
        avg_tok_per_s: generation.and_then(|generation| generation.decode_tokens_per_s),
        prompt_tok_per_s: generation.and_then(|generation| generation.prompt_tokens_per_s),
        total_output_tokens: generation.map(|generation| generation.generated_tokens),
        cpu_model: metadata.cpu_model().unwrap_or_default().to_owned(),
        os: host.and_then(|host| host.os.clone()).unwrap_or_default(),
        kernel: host.map(|host| host.kernel.clone()).unwrap_or_default(),
        recorded_at: metadata.started_at_utc.clone(),
        experiment: metadata.experiment.as_ref().map(|experiment| experiment.id.clone()).unwrap_or_default(),
        state: metadata.state.clone(),
        kind: metadata.kind().name().to_owned(),
        observer_cpu_pct: metadata.observer_effect.as_ref().and_then(|effect| effect.observer.cpu_mean_pct),
        failure: metadata.failure.clone().unwrap_or_default(),
        ..ManifestRow::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_nobody_lists_gets_a_row_that_names_no_folder() {
        let dir = tempfile::tempdir().unwrap();
        let json = serde_json::json!({
            "run_id": "r", "model_id": "m", "options": {"context_length": 256},
            "failure": "opening \"/home/ann/m.gguf\" failed",
            "started_at_utc": "=1+1",
        });
        let path = dir.path().join("m/r");
        let run = RunResults { path, metadata: serde_json::from_value(json).unwrap(), ..RunResults::default() };
        let text = manifest_csv(&[&run]).unwrap();
        let names = MANIFEST_COLUMNS.map(|column| column.name).join(",");
        assert_eq!(text.lines().next().unwrap(), format!("{names},configuration"));
        assert!(text.trim_end().ends_with(&format!(",{}", GroupKey::of(&run).configuration())), "{text}");
        let row: ManifestRow = csv::Reader::from_reader(text.as_bytes()).deserialize().next().unwrap().unwrap();
        assert_eq!((row.context_length, row.path.as_str()), (Some(256), "data/m/r"));
        assert_eq!(row.recorded_at, "'=1+1", "as in every CSV file");
        assert_eq!(row.failure, "opening \"m.gguf\" failed");
    }
}
