//! Arguments of `dwell export`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use dwell_report::{EXPORTERS, Exporter};

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// Run directory, results directory, or the folder of a model in one.
    pub(crate) path: PathBuf,
    /// Dataset for Hugging Face or Zenodo, or one run as a trace for the Perfetto UI.
    #[arg(long, value_parser = format())]
    pub(crate) format: ExportFormat,
    /// Folder to create, or file for perfetto.
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: PathBuf,
    /// Replace an existing file of perfetto; folders are never replaced.
    #[arg(long)]
    pub(crate) force: bool,
    /// Licence of the data as an SPDX expression, such as CC-BY-4.0. Default: that of the experiments.
    #[arg(long, visible_alias = "license", value_name = "SPDX")]
    pub(crate) licence: Option<String>,
    /// Title of the dataset. Default: the name of the experiment.
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// Include raw/, from which all tables can be rebuilt.
    #[arg(long)]
    pub(crate) with_raw: bool,
    /// Include finished runs that do not count.
    #[arg(long)]
    pub(crate) all: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is made.
#[derive(Clone, Copy)]
pub(crate) enum ExportFormat {
    /// A folder that is ready to be published.
    Dataset(&'static dyn Exporter),
    /// One run as a trace of Perfetto.
    Perfetto,
}

const PERFETTO: &str = "perfetto";

fn format() -> impl TypedValueParser<Value = ExportFormat> {
    let datasets = EXPORTERS.map(|exporter| PossibleValue::new(exporter.name()).help(exporter.title()));
    let values = datasets.into_iter().chain([PossibleValue::new(PERFETTO).help("One run, for the Perfetto UI")]);
    let named = |name: String| match name.as_str() {
        PERFETTO => Ok(ExportFormat::Perfetto),
        name => {
            let exporter = EXPORTERS.into_iter().find(|exporter| exporter.name() == name);
            exporter.map(ExportFormat::Dataset).ok_or("it is not known")
        }
    };
    PossibleValuesParser::new(values).try_map(named)
}
