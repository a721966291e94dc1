//! `manifest.csv` of a dataset: the rows that the results directory has of the exported runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dwell_store::{MANIFEST_COLUMNS, ManifestRow, ResultsManifest};

use super::place_of;
use crate::facts::RunFacts;
use crate::{GroupKey, PublishError};

/// One row, by column.
type Row = BTreeMap<String, String>;

/// One row per run. A run that its results directory does not list gets one from its metadata.
pub(super) fn manifest_csv(runs: &[&RunFacts]) -> Result<String, PublishError> {
    let mut listed: BTreeMap<PathBuf, Vec<Row>> = BTreeMap::new();
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(MANIFEST_COLUMNS.iter().map(|column| column.name)).map_err(unfit)?;
    for run in runs {
        let results = run.path.ancestors().nth(2).unwrap_or(&run.path).to_path_buf();
        if !listed.contains_key(&results) {
            let rows = rows_of(&results)?;
            listed.insert(results.clone(), rows);
        }
        let is_this = |row: &&Row| {
            row.get("run_id") == Some(&run.metadata.run_id) && row.get("model_id") == Some(&run.metadata.model_id)
        };
        let mut row = listed[&results].iter().find(is_this).cloned().unwrap_or_else(|| row_from_metadata(run));
        row.insert("path".to_owned(), place_of(run));
        let fields = MANIFEST_COLUMNS.iter().map(|column| row.get(column.name).map_or("", String::as_str));
        writer.write_record(fields).map_err(unfit)?;
    }
    let bytes = writer.into_inner().map_err(unfit)?;
    String::from_utf8(bytes).map_err(unfit)
}

fn unfit(error: impl std::fmt::Display) -> PublishError {
    PublishError::UnfitFile {
        action: "writing the list of runs",
        found: error.to_string(),
        path: PathBuf::from("manifest.csv"),
    }
}

fn rows_of(results: &Path) -> Result<Vec<Row>, PublishError> {
    let rows = ResultsManifest::open(results).rows()?;
    rows.iter().map(fields_of).collect()
}

/// The fields of a row as the file has them.
fn fields_of(row: &ManifestRow) -> Result<Row, PublishError> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.serialize(row).map_err(unfit)?;
    let text = writer.into_inner().map_err(unfit)?;
    let mut reader = csv::Reader::from_reader(text.as_slice());
    reader.deserialize().next().unwrap_or_else(|| Ok(Row::new())).map_err(unfit)
}

fn row_from_metadata(run: &RunFacts) -> Row {
    let metadata = &run.metadata;
    let [_, context_length, batch_size, output_tokens, kv_type, _, threads, _] = GroupKey::of(run).fields();
    let is_flash = GroupKey::of(run).flash_attention.map(|is_on| is_on.to_string());
    let generation = metadata.generation.unwrap_or_default();
    let number = |value: Option<f64>| value.map(|value| value.to_string());
    let fields = [
        ("run_id", Some(metadata.run_id.clone())),
        ("model_id", Some(metadata.model_id.clone())),
        ("context_length", Some(context_length)),
        ("batch_size", Some(batch_size)),
        ("max_tokens_per_prompt", Some(output_tokens)),
        ("kv_type", Some(kv_type)),
        ("flash_attention", is_flash),
        ("threads", Some(threads)),
        ("run_validity", Some(metadata.validity_class().name().to_owned())),
        ("quality", metadata.quality.as_ref().map(|quality| quality.status.name().to_owned())),
        ("avg_tok_per_s", number(generation.decode_tokens_per_s)),
        ("prompt_tok_per_s", number(generation.prompt_tokens_per_s)),
        ("total_output_tokens", generation.generated_tokens.map(|tokens| tokens.to_string())),
        ("cpu_model", metadata.host.cpu_model.clone()),
        ("os", metadata.host.os.clone()),
        ("kernel", metadata.host.kernel.clone()),
        ("recorded_at", Some(metadata.started_at_utc.clone())),
        ("experiment", metadata.experiment.as_ref().map(|experiment| experiment.about.name.clone())),
        ("state", Some(metadata.state.clone())),
        ("kind", Some(metadata.kind().name().to_owned())),
        ("observer_cpu_pct", number(metadata.observer_effect.observer.cpu_mean_pct)),
        ("failure", metadata.failure.clone()),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_from_metadata_has_only_columns_of_the_file() {
        let row = row_from_metadata(&RunFacts::default());
        let unknown: Vec<&String> =
            row.keys().filter(|name| !MANIFEST_COLUMNS.iter().any(|column| column.name == name.as_str())).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
