//! One row of `manifest.csv`, and what its columns mean.

use std::str::FromStr;

use csv::StringRecord;
use serde::{Deserialize, Deserializer, Serialize, de};

/// One run. What is not known is an empty text or `None`, and an empty field of the file.
///
/// The first columns are those of mrm-trace's file, in its order, so that what reads that file reads this one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "MANIFEST_COLUMNS says what each is")]
pub struct ManifestRow {
    pub run_id: String,
    pub machine_id: String,
    pub model_id: String,
    pub collector: String,
    #[serde(deserialize_with = "whole_number")]
    pub context_length: Option<u32>,
    #[serde(deserialize_with = "whole_number")]
    pub batch_size: Option<u32>,
    #[serde(deserialize_with = "whole_number")]
    pub max_tokens_per_prompt: Option<u32>,
    #[serde(deserialize_with = "whole_number")]
    pub rep: Option<u32>,
    pub run_validity: String,
    pub peak_temp_c: Option<f64>,
    #[serde(deserialize_with = "whole_number")]
    pub throttle_events: Option<u64>,
    pub total_wall_s: Option<f64>,
    pub avg_tok_per_s: Option<f64>,
    #[serde(deserialize_with = "whole_number")]
    pub total_output_tokens: Option<u64>,
    pub retention_p99_s: Option<f64>,
    pub write_once_ratio_mean: Option<f64>,
    #[serde(deserialize_with = "whole_number")]
    pub working_set_pages_total: Option<u64>,
    pub cpu_model: String,
    pub cpu_freq_scaling_max_mhz: Option<f64>,
    pub os: String,
    pub kernel: String,
    #[serde(deserialize_with = "truth_value")]
    pub has_prompt_outputs: Option<bool>,
    pub recorded_at: String,
    pub experiment: String,
    pub state: String,
    pub kind: String,
    pub quality: String,
    pub kv_type: String,
    #[serde(deserialize_with = "truth_value")]
    pub flash_attention: Option<bool>,
    #[serde(deserialize_with = "whole_number")]
    pub threads: Option<u32>,
    pub prompt_tok_per_s: Option<f64>,
    pub observer_cpu_pct: Option<f64>,
    pub observer_memory_share: Option<f64>,
    pub slowdown: Option<f64>,
    pub failure: String,
    pub validity_reasons: String,
    pub path: String,
}

/// A column of `manifest.csv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestColumn {
    /// In the first line of the file.
    pub name: &'static str,
    /// `text`, `integer`, `number`, or `true/false`.
    pub type_text: &'static str,
    /// Unit of a number, or empty.
    pub unit: &'static str,
    /// What it says.
    pub meaning: &'static str,
}

/// How many of the columns are those of mrm-trace.
pub(crate) const SHARED_COLUMNS: usize = 23;

const fn column(
    name: &'static str,
    type_text: &'static str,
    unit: &'static str,
    meaning: &'static str,
) -> ManifestColumn {
    ManifestColumn { name, type_text, unit, meaning }
}

/// Every column, in order.
#[rustfmt::skip]
pub const MANIFEST_COLUMNS: [ManifestColumn; 37] = [
    column("run_id", "text", "", "name of the run; with `model_id` it names one row"),
    column("machine_id", "text", "", "machine that ran it"),
    column("model_id", "text", "", "model that was run"),
    column("collector", "text", "", "collectors that watched, joined by `+`"),
    column("context_length", "integer", "tokens", "size of the context"),
    column("batch_size", "integer", "", "sequences computed together"),
    column("max_tokens_per_prompt", "integer", "tokens", "most tokens generated per prompt"),
    column("rep", "integer", "", "number of the repetition, from 1"),
    column("run_validity", "text", "", "`clean`, `marginal`, `contaminated` or `unknown`"),
    column("peak_temp_c", "number", "°C", "highest package temperature while it ran"),
    column("throttle_events", "integer", "", "times that the processor slowed down because of heat"),
    column("total_wall_s", "number", "s", "time from the start to the end of the run"),
    column("avg_tok_per_s", "number", "tokens/s", "rate of generating tokens"),
    column("total_output_tokens", "integer", "tokens", "tokens generated"),
    column("retention_p99_s", "number", "s", "time for which 99 % of all data had to be kept, weighted by bytes; by mrm-trace's definitions the mean of region types' p99"),
    column("write_once_ratio_mean", "number", "", "share of all stored bytes that were stored once; by mrm-trace's definitions the mean over region types"),
    column("working_set_pages_total", "integer", "pages", "distinct pages of 4096 bytes, summed over region types"),
    column("cpu_model", "text", "", "processor"),
    column("cpu_freq_scaling_max_mhz", "number", "MHz", "highest frequency that the governor may choose"),
    column("os", "text", "", "operating system"),
    column("kernel", "text", "", "release of the kernel"),
    column("has_prompt_outputs", "true/false", "", "whether the generated text was kept"),
    column("recorded_at", "text", "UTC", "when the run began"),
    column("experiment", "text", "", "experiment that it belongs to"),
    column("state", "text", "", "`complete`, `partial` or `failed`"),
    column("kind", "text", "", "`repetition`, `warmup`, `untraced` or `single`"),
    column("quality", "text", "", "`PASS`, `WARN` or `FAIL`"),
    column("kv_type", "text", "", "type of the KV cache"),
    column("flash_attention", "true/false", "", "whether flash attention was used"),
    column("threads", "integer", "", "threads of the engine"),
    column("prompt_tok_per_s", "number", "tokens/s", "rate of processing the prompt"),
    column("observer_cpu_pct", "number", "%", "CPU time of the observer, of one processor"),
    column("observer_memory_share", "number", "", "memory of the observer, as a share of the worker's"),
    column("slowdown", "number", "", "time per generated token with tracing, over that without it"),
    column("failure", "text", "", "why it failed or ended early"),
    column("validity_reasons", "text", "", "what lowered `run_validity`, joined by `; `"),
    column("path", "text", "", "run directory, relative to the results directory; empty if there is none"),
];

/// The first line of the file.
pub(crate) fn header() -> StringRecord {
    MANIFEST_COLUMNS.iter().map(|column| column.name).collect()
}

impl ManifestRow {
    /// Whether the run failed before it left a run directory.
    pub fn is_failed(&self) -> bool {
        self.state == "failed"
    }

    /// The row as texts, each on one line: a row is then one line of the file, and a torn one can be told.
    pub fn to_record(&self) -> csv::Result<StringRecord> {
        let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
        writer.serialize(self)?;
        let line = writer.into_inner().map_err(|error| error.into_error())?;
        let mut record = StringRecord::new();
        csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_slice()).read_record(&mut record)?;
        Ok(record.iter().map(|field| field.lines().collect::<Vec<_>>().join(" / ")).collect())
    }
}

/// Tools that know no empty integers write `2048.0`.
fn whole_number<'de, D: Deserializer<'de>, T: FromStr>(deserializer: D) -> Result<Option<T>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let digits = text.strip_suffix(".0").unwrap_or(&text);
    digits.parse().map(Some).map_err(|_| de::Error::custom(format!("{text:?} is no whole number")))
}

/// Python writes `True`.
fn truth_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    match text.as_deref() {
        None => Ok(None),
        Some("true" | "True" | "TRUE" | "1") => Ok(Some(true)),
        Some("false" | "False" | "FALSE" | "0") => Ok(Some(false)),
        Some(text) => Err(de::Error::custom(format!("{text:?} is neither true nor false"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_row_are_the_columns_in_order() {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.serialize(ManifestRow::default()).unwrap();
        let text = String::from_utf8(writer.into_inner().unwrap()).unwrap();
        let names: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        assert_eq!(names, MANIFEST_COLUMNS.map(|column| column.name));
        assert_eq!(names[SHARED_COLUMNS - 1], "recorded_at");
    }

    #[test]
    fn a_field_with_line_breaks_is_put_on_one_line() {
        let row = ManifestRow { failure: "first\r\nsecond, \"third\"".to_owned(), ..ManifestRow::default() };
        assert_eq!(row.to_record().unwrap().get(34), Some("first / second, \"third\""));
    }
}
