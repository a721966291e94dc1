//! `dwell figure`: a figure for a paper, with its numbers.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dwell_report::{
    ALL_FIGURES, AggregateOptions, CompareOptions, DrawnFigure, FigureFormat, FigureInput, FigureKind, FigureSource,
    RunPage, aggregate, compare_chosen, figure_named,
};
use dwell_store::{FilesRead, RunDir, TreeKind};

use super::analyse_tree::{nothing_counts, read_runs};
use super::compare::read_sources;
use super::kind_at;
use crate::args::FigureArgs;
use crate::changed_files::warn_of_changed_files;
use crate::messages::{EXIT_WITH_LOSS, Failure, hinted};
use crate::new_output::{OutputFolder, check_parent};
use crate::output::{print_result, step, unprinted};
use crate::run_request::command_line;
use crate::shell::shell_word;

pub(crate) fn run(args: &FigureArgs) -> anyhow::Result<ExitCode> {
    let Some(name) = &args.name else {
        print_result(&list())?;
        return Ok(ExitCode::SUCCESS);
    };
    let asked = Asked::new(name, args)?;
    let (figure, has_unreadable) = step("drawing the figure", || draw(&asked, args))?;
    let output = Output::new(args)?;
    let files = output.files(&figure)?;
    files.write(args.force)?;
    let paths: Vec<String> = files.paths().map(|path| format!("{}\n", path.display())).collect();
    print_result(&paths.concat()).map_err(|error| unprinted(&error, &output.folder_as_named()))?;
    Ok(if has_unreadable { ExitCode::from(EXIT_WITH_LOSS) } else { ExitCode::SUCCESS })
}

/// All figures: name, what it is drawn from, what it shows.
fn list() -> String {
    let line = |kind: &FigureKind| format!("{:<12} {:<14} {}\n", kind.name, kind.source().name(), kind.shows);
    ALL_FIGURES.into_iter().map(line).collect()
}

/// The figure that was asked for.
struct Asked<'a> {
    kind: &'static FigureKind,
    metric: Option<&'a str>,
}

impl<'a> Asked<'a> {
    fn new(name: &'a str, args: &'a FigureArgs) -> anyhow::Result<Self> {
        let (name, metric) = match name.split_once(':') {
            Some((name, metric)) => (name, Some(metric)),
            None => (name, args.metric.as_deref()),
        };
        let asked = Self { kind: figure_named(name).map_err(hinted)?, metric };
        let source = asked.kind.source();
        if source != FigureSource::Experiment && metric.is_some() {
            return Err(asked.misfit("found a metric of an experiment").into());
        }
        if source == FigureSource::Run && (args.experiment.is_some() || !args.include.is_empty()) {
            return Err(asked.misfit("found a choice among several runs").into());
        }
        Ok(asked)
    }

    /// A figure is drawn from something else than what was given.
    fn misfit(&self, found: &str) -> Failure {
        let (name, source) = (self.kind.name, self.kind.source().name());
        Failure::new(format!("drawing the figure {name}, which is one of {source}, {found}"))
            .hint("see what each figure is drawn from with `dwell figure --list`")
    }
}

/// The figure, and whether some runs could not be read.
fn draw(asked: &Asked<'_>, args: &FigureArgs) -> anyhow::Result<(DrawnFigure, bool)> {
    match (asked.kind.source(), args.paths.as_slice()) {
        (_, []) => Err(asked.misfit("found no path").into()),
        (FigureSource::Run, [path]) => Ok((draw_run(asked, path, args)?, false)),
        (FigureSource::Run, paths) => Err(asked.misfit(&format!("found {} paths", paths.len())).into()),
        (FigureSource::Runs, paths) => {
            let (sources, has_unreadable) = read_sources(paths)?;
            let options = CompareOptions { experiment: args.experiment.clone(), include: args.include.clone() };
            let comparison = compare_chosen(&sources, &options).map_err(hinted)?;
            let drawn = asked.kind.draw(&FigureInput::Runs(&comparison), args.size).map_err(hinted)?;
            Ok((drawn, has_unreadable))
        }
        (FigureSource::Experiment, [path]) => draw_experiment(asked, path, args),
        (FigureSource::Experiment, paths) => Err(asked.misfit(&format!("found {} paths", paths.len())).into()),
    }
}

fn draw_run(asked: &Asked<'_>, path: &Path, args: &FigureArgs) -> anyhow::Result<DrawnFigure> {
    if kind_at(path)? != TreeKind::Run {
        return Err(asked.misfit(&format!("found a folder of runs: {path:?}")).into());
    }
    let run = RunDir::open(path).map_err(hinted)?;
    warn_of_changed_files(&run, FilesRead::Tables);
    let page = RunPage::load(&run).map_err(hinted)?;
    asked.kind.draw(&FigureInput::Run(&page), args.size).map_err(hinted)
}

fn draw_experiment(asked: &Asked<'_>, path: &Path, args: &FigureArgs) -> anyhow::Result<(DrawnFigure, bool)> {
    let found = read_runs(path)?;
    let options =
        AggregateOptions { columns: Vec::new(), experiment: args.experiment.clone(), include: args.include.clone() };
    let aggregate = aggregate(&found.facts, &options).map_err(hinted)?;
    if aggregate.runs == 0 {
        return Err(nothing_counts(&aggregate, path, &command_line()).into());
    }
    let input = FigureInput::Experiment { aggregate: &aggregate, metric: asked.metric };
    Ok((asked.kind.draw(&input, args.size).map_err(hinted)?, found.has_unreadable))
}

/// Refuses the name of a file in a format that figures are not drawn in: a folder of that name is not what was meant.
fn refuse_other_format(output: &Path) -> Result<(), Failure> {
    let is_format = |ending: &str| {
        ending.len() <= FORMAT_CHARS_MAX
            && ending.starts_with(|first: char| first.is_ascii_alphabetic())
            && ending.chars().all(|letter| letter.is_ascii_alphanumeric())
    };
    let is_folder = output.is_dir() || output.as_os_str().as_encoded_bytes().ends_with(b"/");
    match output.extension().and_then(|ending| ending.to_str()).filter(|ending| !is_folder && is_format(ending)) {
        None => Ok(()),
        Some(ending) => Err(Failure::new(format!(
            "writing the figure found the ending {ending}, and {} were needed: {output:?}",
            FigureFormat::NAMES.join(", ")
        ))
        .hint(format!("-o {}", shell_word(&output.with_extension("png").display().to_string())))
        .hint("a folder ends with /")),
    }
}

/// Letters that the name of a format has at most: `jpeg`, `webp`.
const FORMAT_CHARS_MAX: usize = 4;

/// Where files go, and which.
struct Output {
    folder: PathBuf,
    /// Name of the files without what they end with; that of the figure if none was given.
    stem: Option<PathBuf>,
    formats: Vec<FigureFormat>,
}

impl Output {
    fn new(args: &FigureArgs) -> Result<Self, Failure> {
        let formats = if args.format.is_empty() { vec![FigureFormat::Svg] } else { args.format.clone() };
        let Some(output) = &args.output else { return Ok(Self { folder: PathBuf::new(), stem: None, formats }) };
        let ending = output.extension().and_then(|ending| ending.to_str());
        let Some(named) = ending.and_then(FigureFormat::from_name) else {
            refuse_other_format(output)?;
            return Ok(Self { folder: output.clone(), stem: None, formats });
        };
        if !args.format.is_empty() && args.format != [named] {
            let asked: Vec<&str> = args.format.iter().map(|format| format.name()).collect();
            return Err(Failure::new(format!(
                "writing the figure as {} found another ending: {output:?}",
                asked.join(", ")
            ))
            .hint("name a folder with `-o`, or leave `--format` out"));
        }
        check_parent(output)?;
        let folder = output.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { folder, stem: output.file_stem().map(PathBuf::from), formats: vec![named] })
    }

    /// The folder, by a name that says something: no name is the present one.
    fn folder_as_named(&self) -> PathBuf {
        if self.folder.as_os_str().is_empty() { PathBuf::from(".") } else { self.folder.clone() }
    }

    fn files(&self, figure: &DrawnFigure) -> anyhow::Result<OutputFolder> {
        let stem = self.stem.clone().unwrap_or_else(|| PathBuf::from(figure.name()));
        let named = |ending: &str| format!("{}.{ending}", stem.display());
        let mut files = OutputFolder::new(&self.folder);
        for format in &self.formats {
            files.add(named(format.name()), figure.file(*format).map_err(hinted)?);
        }
        files.add(named("csv"), figure.csv());
        Ok(files)
    }
}
