//! Arguments of `dwell figure`.

use std::path::PathBuf;

use clap::Args;
use dwell_report::{ExclusionReason, FigureFormat, FigureSize};

use super::one_of;
use super::results::exclusion_reason;

#[derive(Args)]
pub(crate) struct FigureArgs {
    /// Figure to draw, `experiment:METRIC` for one metric of an experiment. Without a name, all figures are listed.
    pub(crate) name: Option<String>,
    /// A run directory; for figures of several runs also results directories, or folders of models in one; for those of an
    /// experiment one of these.
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// List all figures, with what each shows and is drawn from.
    #[arg(long, conflicts_with = "name")]
    pub(crate) list: bool,
    /// Width: that of one column (85 mm) or of a page with two (178 mm); or width and height, such as 120x60mm or 5x2.5in.
    #[arg(long, default_value = "column", value_name = "column|page|WxH")]
    pub(crate) size: FigureSize,
    /// Formats to write. Default: svg, or what the name of the output ends with.
    #[arg(long, value_name = "FORMATS", value_delimiter = ',', value_parser = one_of(FigureFormat::NAMES, FigureFormat::from_name))]
    pub(crate) format: Vec<FigureFormat>,
    /// Metric of an experiment to draw alone.
    #[arg(long, value_name = "NAME")]
    pub(crate) metric: Option<String>,
    /// Take the runs of this experiment only, by id or name.
    #[arg(long, value_name = "ID|NAME")]
    pub(crate) experiment: Option<String>,
    /// Take in runs that are left out for these reasons.
    #[arg(long, value_name = "REASONS", value_delimiter = ',', value_parser = exclusion_reason)]
    pub(crate) include: Vec<ExclusionReason>,
    /// File to write if it ends with .svg, .pdf or .png, else the folder for the files. Default: the current folder.
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Replace files that exist.
    #[arg(long)]
    pub(crate) force: bool,
}
