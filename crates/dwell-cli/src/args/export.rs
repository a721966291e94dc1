//! Arguments of `dwell export`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use dwell_report::{EXPORTERS, Exporter};

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// Run directory, results directory, or the folder of a model in one.
    pub(crate) path: PathBuf,
    /// Where the dataset is to be published; or perfetto, for one run as a trace that the Perfetto UI opens.
    #[arg(long, value_parser = format())]
    pub(crate) format: ExportFormat,
    /// Folder to make, or file to write for perfetto; it must not exist yet.
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: PathBuf,
    /// SPDX name or expression of the licence of the data, such as CC-BY-4.0. Default: that of the experiments.
    #[arg(long, visible_alias = "license", value_name = "SPDX")]
    pub(crate) licence: Option<String>,
    /// Title of the dataset. Default: the name of the experiment.
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// Export raw/ too, from which everything else can be made again.
    #[arg(long)]
    pub(crate) with_raw: bool,
    /// Export every finished run, also those that do not count.
    #[arg(long)]
    pub(crate) all: bool,
    /// Print what was exported as JSON.
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
