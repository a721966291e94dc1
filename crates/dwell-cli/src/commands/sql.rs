//! `dwell sql`: SQL over the tables of runs, by DuckDB's command.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;
use dwell_collectors::tables;
use dwell_files::{WRITTEN_BY_HAND_MAX_BYTES, read_text_at_most};
use dwell_report::{RunResults, sql_views};
use tempfile::NamedTempFile;

use super::analyse_tree::read_runs;
use crate::args::{SqlArgs, SqlFormat};
use crate::duckdb::duckdb_program;
use crate::messages::{EXIT_NOT_DONE, EXIT_WITH_LOSS, Failure, hinted};
use crate::new_output::check_file_in_folder;
use crate::output::{print_for_programs, say, step};

/// DuckDB fetches missing extensions by itself. Nothing is fetched that nobody asked for.
const SETTINGS: &str = "set autoinstall_known_extensions = false;\n";

pub(crate) fn run(args: &SqlArgs) -> anyhow::Result<ExitCode> {
    let asked = Asked::new(args)?;
    let (views, has_unreadable) = step("reading runs", || views_of(&asked.paths))?;
    let outcome = if args.views {
        print_for_programs(&views)?;
        ExitCode::SUCCESS
    } else {
        let session = Session::new(args, &views)?;
        match &asked.query {
            Some(query) => session.answer(query, args)?,
            None => session.prompt()?,
        }
    };
    Ok(if has_unreadable && outcome == ExitCode::SUCCESS { ExitCode::from(EXIT_WITH_LOSS) } else { outcome })
}

/// The runs that are meant, and the query.
struct Asked {
    paths: Vec<PathBuf>,
    query: Option<String>,
}

impl Asked {
    fn new(args: &SqlArgs) -> anyhow::Result<Self> {
        let mut paths = args.words.clone();
        let is_query = |word: &PathBuf| !word.exists() && word.to_string_lossy().contains(char::is_whitespace);
        let typed = paths.pop_if(|word| is_query(word)).map(|word| word.to_string_lossy().into_owned());
        let query = match (&args.file, typed) {
            (Some(_), Some(_)) => {
                return Err(Failure::new("found a query both in a file and as the last word")
                    .hint("give one of them")
                    .into());
            }
            (Some(file), None) => Some(
                read_text_at_most(file, WRITTEN_BY_HAND_MAX_BYTES)
                    .with_context(|| format!("reading the query: {file:?}"))?,
            ),
            (None, typed) => typed,
        };
        if paths.is_empty() {
            return Err(Failure::new("found a query and no run to ask")
                .hint("name runs first: dwell sql results \"select run, engine from runs\"")
                .into());
        }
        if query.is_none() && (args.output.is_some() || args.format != SqlFormat::Table) {
            return Err(Failure::new("found --format or --output and no query")
                .hint("give the query as the last word")
                .into());
        }
        Ok(Self { paths, query })
    }
}

/// The statements over all finished runs at these paths, and whether some runs could not be read.
fn views_of(paths: &[PathBuf]) -> anyhow::Result<(String, bool)> {
    let (mut runs, mut has_unreadable) = (Vec::<RunResults>::new(), false);
    for path in paths {
        let found = read_runs(path)?;
        has_unreadable |= found.has_unreadable;
        let is_new = |run: &RunResults| !runs.iter().any(|known| known.path == run.path);
        let new: Vec<RunResults> = found.facts.into_iter().filter(is_new).collect();
        runs.extend(new);
    }
    let unfinished = runs.iter().filter(|run| !run.is_finished()).count();
    if unfinished > 0 {
        say(format_args!("note: left out {unfinished} unfinished of {} runs\n", runs.len()));
    }
    Ok((sql_views(&runs, &tables()).map_err(hinted)?, has_unreadable))
}

/// DuckDB's command with the views of some runs.
struct Session {
    program: PathBuf,
    /// The statements; a command line may be too short for those of many runs.
    views: NamedTempFile,
}

impl Session {
    fn new(args: &SqlArgs, views: &str) -> anyhow::Result<Self> {
        let program = duckdb_program(args.duckdb.as_deref(), args.fetch)?;
        let mut file = NamedTempFile::with_suffix(".sql").context("making a temporary file for the views")?;
        file.write_all(SETTINGS.as_bytes())
            .and_then(|()| file.write_all(views.as_bytes()))
            .context("writing the views")?;
        Ok(Self { program, views: file })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        let views = format!(".read '{}'", self.views.path().display());
        command.args(["-no-init", "-bail", "-cmd", &views]);
        command
    }

    /// Hands the terminal to DuckDB.
    fn prompt(&self) -> anyhow::Result<ExitCode> {
        say(format_args!(
            "views: runs, one per table, metric_*, mrm_trace_*, data_lives, survival; `.tables` lists them, `.quit` ends\n"
        ));
        let mut command = self.command();
        self.status(command.stdin(Stdio::inherit()))
    }

    fn answer(&self, query: &str, args: &SqlArgs) -> anyhow::Result<ExitCode> {
        match (&args.output, args.format) {
            (None, SqlFormat::Parquet) => {
                Err(Failure::new("--format parquet needs a file to write").hint("name it with -o FILE").into())
            }
            (None, format) => self.status(self.command().args(mode(format)).args(["-c", query])),
            (Some(output), format) => self.write(query, output, format, args),
        }
    }

    /// Writes the result to a file that appears when it is whole.
    fn write(&self, query: &str, output: &Path, format: SqlFormat, args: &SqlArgs) -> anyhow::Result<ExitCode> {
        check_file_in_folder(output, args.force)?;
        let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = NamedTempFile::new_in(folder).with_context(|| format!("making a temporary file: {folder:?}"))?;
        let mut command = self.command();
        if format == SqlFormat::Parquet {
            let target = file.path().to_string_lossy().replace('\'', "''");
            let query = query.trim().trim_end_matches(';');
            command.args(["-c", &format!("copy ({query}) to '{target}' (format parquet, compression zstd)")]);
            command.stdout(Stdio::null());
        } else {
            command.args(mode(format)).args(["-c", query]);
            command.stdout(file.reopen().context("opening a temporary file")?);
        }
        let outcome = self.status(&mut command)?;
        if outcome == ExitCode::SUCCESS {
            file.persist(output)
                .map_err(|error| error.error)
                .with_context(|| format!("naming the result: {output:?}"))?;
        }
        Ok(outcome)
    }

    /// Runs it. What DuckDB says of a query is said as it is.
    fn status(&self, command: &mut Command) -> anyhow::Result<ExitCode> {
        let status = command.status().with_context(|| format!("starting DuckDB's command: {:?}", self.program))?;
        Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_NOT_DONE) })
    }
}

/// What DuckDB's command calls a format. Tables are drawn as wide as the terminal, like its own.
fn mode(format: SqlFormat) -> &'static [&'static str] {
    match format {
        SqlFormat::Csv => &["-csv"],
        SqlFormat::Json => &["-json"],
        SqlFormat::JsonLines => &["-jsonlines"],
        SqlFormat::Markdown => &["-markdown"],
        SqlFormat::Table | SqlFormat::Parquet => &[],
    }
}
