//! Reading an experiment file with everything that it names.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use dwell_config::{ConfigError, Note, Problem, parse};
use dwell_experiment::{
    ChosenCollectors, Estimate, Finding, Setup, SetupFiles, Severity, check, check_results, choose_collectors,
    has_errors, probe_collectors,
};
use dwell_files::{WRITTEN_BY_HAND_MAX_BYTES, read_text_at_most};
use dwell_worker::find_program;
use serde::Serialize;

use crate::args::ExperimentArgs;
use crate::messages::{Failure, print_failure, print_hints};
use crate::model_cache;
use crate::output::say;

/// How to read an experiment file.
pub(crate) struct ReadOptions<'a> {
    /// The file.
    pub(crate) config: &'a Path,
    /// Where results go, if not where the file says.
    pub(crate) results: Option<&'a Path>,
    /// Whether models that are not in the cache are fetched.
    pub(crate) may_fetch: bool,
    /// Whether every combination is also run without recording, whatever the file says.
    pub(crate) measures_slowdown: bool,
}

/// An experiment file that was read; without a setup, one of the findings is an error.
#[derive(Serialize)]
pub(crate) struct ExperimentFile {
    /// What was translated.
    pub(crate) notes: Vec<Note>,
    /// What was found.
    pub(crate) findings: Vec<Finding>,
    /// What the experiment is watched with.
    pub(crate) collectors: Option<ChosenCollectors>,
    /// How long it takes and how much it writes.
    pub(crate) estimate: Option<Estimate>,
    /// The experiment itself.
    #[serde(skip)]
    pub(crate) setup: Option<Setup>,
}

impl ExperimentFile {
    /// Reads the file and checks that its experiment can be run here.
    pub(crate) fn read(options: &ReadOptions<'_>) -> anyhow::Result<Self> {
        let text = read_text(options.config)?;
        let mut parsed = match parse(&text, options.config) {
            Ok(parsed) => parsed,
            Err(error) => return Ok(Self::unfit(&error)),
        };
        parsed.experiment.telemetry.measure_slowdown |= options.measures_slowdown;
        let results = options.results.map_or_else(|| parsed.experiment.output.base_dir.clone(), Path::to_owned);
        let files = SetupFiles {
            config: options.config,
            config_text: &text,
            results,
            model_named: &|name| model_named(name, options.may_fetch),
        };
        let (setup, findings) = Setup::load(parsed.experiment, &files);
        let mut read = Self { notes: parsed.notes, findings, collectors: None, estimate: None, setup };
        read.look_at_the_machine();
        Ok(read)
    }

    /// Reads the file for a look at it: nothing is fetched.
    pub(crate) fn look_at(args: &ExperimentArgs) -> anyhow::Result<Self> {
        Self::read(&ReadOptions {
            config: &args.config,
            results: args.output.as_deref(),
            may_fetch: false,
            measures_slowdown: false,
        })
    }

    /// Everything that is wrong with the file.
    fn unfit(error: &ConfigError) -> Self {
        let finding = |problem: &Problem| Finding {
            hints: problem.hint.iter().cloned().collect(),
            ..Finding::error(problem.to_string())
        };
        let findings = error.problems.iter().map(finding).collect();
        Self { notes: Vec::new(), findings, collectors: None, estimate: None, setup: None }
    }

    fn look_at_the_machine(&mut self) {
        let Some(setup) = &self.setup else { return };
        if let Some(finding) = check_results(&setup.results) {
            return self.findings.push(finding);
        }
        let config = &setup.experiment.collectors;
        match choose_collectors(config, &probe_collectors(config, &setup.results)) {
            Ok(collectors) => {
                let estimate = Estimate::of(setup);
                self.findings.extend(check(setup, &collectors, &estimate));
                self.findings.extend(missing_programs(setup));
                (self.collectors, self.estimate) = (Some(collectors), Some(estimate));
            }
            Err(findings) => self.findings.extend(findings),
        }
    }

    /// Says what was translated and found.
    pub(crate) fn say_findings(&self) {
        self.notes.iter().for_each(|note| say(format_args!("note: {note}\n")));
        for finding in &self.findings {
            let severity = match finding.severity {
                Severity::Error => {
                    let failure = Failure::new(&finding.message);
                    print_failure(&finding.hints.iter().fold(failure, Failure::hint));
                    continue;
                }
                Severity::Warning => "warning",
                Severity::Note => "note",
            };
            say(format_args!("{severity}: {}\n", finding.message));
            print_hints(&finding.hints);
        }
    }

    /// Whether the experiment can be run.
    pub(crate) fn is_runnable(&self) -> bool {
        !has_errors(&self.findings)
    }

    /// The parts of an experiment that can be run.
    pub(crate) fn into_parts(self) -> anyhow::Result<(Setup, ChosenCollectors, Estimate)> {
        let is_runnable = self.is_runnable();
        match (self.setup, self.collectors, self.estimate) {
            (Some(setup), Some(collectors), Some(estimate)) if is_runnable => Ok((setup, collectors, estimate)),
            _ => Err(Failure::new("the experiment cannot be run here; see above").into()),
        }
    }
}

/// Programs that the experiment starts and that are not there yet. They may be installed before it runs, so this is no
/// error.
fn missing_programs(setup: &Setup) -> Vec<Finding> {
    let started = setup.models.iter().filter(|model| model.engine.profile().is_startable() && !model.is_joined());
    let missing = started.filter_map(|model| {
        let error = find_program(model.engine, model.server.program.as_deref()).err()?;
        let finding = Finding { severity: Severity::Warning, ..Finding::of(&error) };
        Some(Finding { message: format!("model {:?}: {}", model.id, finding.message), ..finding })
    });
    missing.collect()
}

fn read_text(config: &Path) -> Result<String, Failure> {
    read_text_at_most(config, WRITTEN_BY_HAND_MAX_BYTES).map_err(|error| {
        let failure = Failure::new(format!("reading the experiment file failed with {error}: {config:?}"));
        match error.kind() {
            ErrorKind::NotFound => failure.hint("no such file; start from config/default_experiment.yaml"),
            _ => failure.hint("give a file of UTF-8 text, such as config/default_experiment.yaml"),
        }
    })
}

fn model_named(name: &str, may_fetch: bool) -> Result<PathBuf, Finding> {
    model_cache::named(name, may_fetch).map_err(|error| match error.downcast_ref::<Failure>() {
        Some(failure) => Finding { hints: failure.hints().to_vec(), ..Finding::error(failure.to_string()) },
        None => Finding::error(format!("{error:#}")),
    })
}
