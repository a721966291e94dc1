//! Arguments of `dwell sql`.

use std::path::PathBuf;

use clap::Args;

use super::one_of;

#[derive(Args)]
pub(crate) struct SqlArgs {
    /// Run directories, results directories, or folders of models in one; then the query. Without a query, DuckDB asks for
    /// statements.
    #[arg(value_name = "PATH|QUERY", required = true)]
    pub(crate) words: Vec<PathBuf>,
    /// Read the query from a file.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Format of the result.
    #[arg(long, default_value = "table", value_name = "FORMAT", value_parser = one_of(SqlFormat::NAMES, SqlFormat::from_name))]
    pub(crate) format: SqlFormat,
    /// File for the result. Default: standard output, which parquet cannot go to.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the output if it exists.
    #[arg(long)]
    pub(crate) force: bool,
    /// Print the statements that make the views, for another client, and run nothing.
    #[arg(long, conflicts_with_all = ["file", "output", "format"])]
    pub(crate) views: bool,
    /// Download DuckDB's command (21 MB) if this machine has none.
    #[arg(long)]
    pub(crate) fetch: bool,
    /// DuckDB's command. Default: `duckdb` on the PATH, then the downloaded one.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) duckdb: Option<PathBuf>,
}

/// A format that results can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SqlFormat {
    Table,
    Csv,
    Json,
    JsonLines,
    Markdown,
    Parquet,
}

impl SqlFormat {
    pub(crate) const NAMES: &[&'static str] = &["table", "csv", "json", "jsonl", "markdown", "parquet"];
    const ALL: [Self; 6] = [Self::Table, Self::Csv, Self::Json, Self::JsonLines, Self::Markdown, Self::Parquet];

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|known| *known == name).map(|place| Self::ALL[place])
    }
}
