//! An experiment with everything that its file names, found and read.

use std::path::{Path, PathBuf};

use dwell_config::{Experiment, ModelConfig, Plan, PlannedRun, PromptItem, builtin_prompts, parse_prompts, select};
use dwell_events::server::Api;
use dwell_files::{WRITTEN_BY_HAND_MAX_BYTES, read_text_at_most};
use dwell_label::RuleSet;
use dwell_report::spdx_licence;
use dwell_store::is_tree_name;
use sha2::{Digest, Sha256};

use crate::{Finding, Model, has_errors};

/// Where the files of an experiment are.
pub struct SetupFiles<'a> {
    /// The experiment file; models, prompts and rules are relative to its folder.
    pub config: &'a Path,
    /// Text of the experiment file, kept with the results.
    pub config_text: &'a str,
    /// Where results go.
    pub results: PathBuf,
    /// Finds a model by a name that is known to dwell.
    pub model_named: &'a dyn Fn(&str) -> Result<PathBuf, Finding>,
}

/// An experiment that can be run.
pub struct Setup {
    /// What was asked for.
    pub experiment: Experiment,
    /// The experiment file.
    pub config: PathBuf,
    /// Text of the experiment file.
    pub config_text: String,
    /// Where results go.
    pub results: PathBuf,
    /// In the order of the experiment file.
    pub models: Vec<Model>,
    /// What the models are asked.
    pub prompts: Vec<PromptItem>,
    /// Text of the rules that accesses are labelled by.
    pub rules: Option<String>,
    /// Every run.
    pub plan: Plan,
}

impl Setup {
    /// Finds and reads everything that an experiment names. Without a setup, at least one of the findings is an error.
    pub fn load(mut experiment: Experiment, files: &SetupFiles<'_>) -> (Option<Self>, Vec<Finding>) {
        let mut findings: Vec<Finding> = check_licence(&mut experiment).into_iter().collect();
        let models = load_models(&experiment, files, &mut findings);
        let plan = experiment.plan(default_threads()).map_err(|error| Finding::of(&error));
        match (load_prompts(&experiment, files), load_rules(&experiment, files), plan) {
            (Ok(prompts), Ok(rules), Ok(plan)) if !has_errors(&findings) => {
                let config = files.config.to_owned();
                let (config_text, results) = (files.config_text.to_owned(), files.results.clone());
                (Some(Self { experiment, config, config_text, results, models, prompts, rules, plan }), findings)
            }
            (prompts, rules, plan) => {
                findings.extend([prompts.err(), rules.err(), plan.err()].into_iter().flatten());
                (None, findings)
            }
        }
    }

    /// Where a run with this name lies.
    pub(crate) fn run_path(&self, run: &PlannedRun, run_id: &str) -> PathBuf {
        self.results.join(&self.models[run.model_index].id).join(run_id)
    }

    /// The experiment as earlier versions wrote it down: they had a default for how servers are asked, which means nothing to
    /// an embedded engine.
    fn experiment_as_begun(&self) -> Experiment {
        let mut experiment = self.experiment.clone();
        for model in experiment.models.iter_mut().filter(|model| model.engine.is_embedded()) {
            model.server.api.get_or_insert(Api::Completion);
        }
        experiment
    }

    /// Tells two experiments apart: by what is run, not by how the file is written.
    pub fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        let mut take = |text: &str| {
            hasher.update((text.len() as u64).to_le_bytes());
            hasher.update(text);
        };
        take(&serde_json::to_string(&self.experiment_as_begun()).unwrap_or_default());
        take(&serde_json::to_string(&self.prompts).unwrap_or_default());
        take(self.rules.as_deref().unwrap_or_default());
        let fingerprint = |model: &Model| model.file.as_ref().map(|file| file.fingerprint.clone()).unwrap_or_default();
        self.models.iter().for_each(|model| take(&fingerprint(model)));
        hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn default_threads() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// Writes the licence as SPDX does, so that runs do not differ by its case. One that is none is found before the first run,
/// and not when the results are to be published.
fn check_licence(experiment: &mut Experiment) -> Option<Finding> {
    let given = experiment.experiment.licence.as_ref().filter(|given| !given.trim().is_empty())?;
    match spdx_licence(given) {
        Ok(listed) => {
            experiment.experiment.licence = Some(listed);
            None
        }
        Err(error) => Some(Finding::of(&error)),
    }
}

fn load_models(experiment: &Experiment, files: &SetupFiles<'_>, findings: &mut Vec<Finding>) -> Vec<Model> {
    let mut models = Vec::new();
    for config in &experiment.models {
        let program = config.server.program.as_ref().map(|program| program_path(program, files.config));
        let opened = model_path(config, files).and_then(|path| Model::open(config, path, program));
        match opened {
            Ok((model, _)) if is_tree_name(&model.id) => {
                let message = format!("model {:?}: results directories keep this name for themselves", model.id);
                findings.push(Finding::error(message).hint(format!("id: {}_model", model.id)));
            }
            Ok((model, disagreements)) => {
                models.push(model);
                findings.extend(disagreements);
            }
            Err(finding) => findings.push(finding),
        }
    }
    models
}

/// The file of a model; none if only its server has it.
fn model_path(config: &ModelConfig, files: &SetupFiles<'_>) -> Result<Option<PathBuf>, Finding> {
    match (&config.path, &config.name) {
        (Some(path), _) => Ok(Some(beside(files.config, path))),
        (None, Some(name)) => (files.model_named)(name).map(Some),
        (None, None) => Ok(None),
    }
}

/// A path is relative to the experiment file; a name alone is left to be looked for in PATH.
fn program_path(program: &Path, config: &Path) -> PathBuf {
    if program.components().count() == 1 { program.to_owned() } else { beside(config, program) }
}

/// Files that an experiment file names are relative to it.
fn beside(config: &Path, path: &Path) -> PathBuf {
    config.parent().unwrap_or(Path::new("")).join(path)
}

fn load_prompts(experiment: &Experiment, files: &SetupFiles<'_>) -> Result<Vec<PromptItem>, Finding> {
    let prompts = match experiment.prompts.file() {
        None => builtin_prompts(),
        Some(path) => {
            let path = beside(files.config, &path);
            parse_prompts(&read_text("prompts.source", &path)?, &path).map_err(|error| Finding::of(&error))?
        }
    };
    select(&prompts, &experiment.prompts.categories).map_err(|error| Finding::of(&error))
}

fn load_rules(experiment: &Experiment, files: &SetupFiles<'_>) -> Result<Option<String>, Finding> {
    let Some(path) = &experiment.labeller.rules_file else { return Ok(None) };
    let path = beside(files.config, path);
    let text = read_text("labeller.rules_file", &path)?;
    RuleSet::from_yaml(&text, &path).map_err(|error| Finding::of(&error))?;
    Ok(Some(text))
}

fn read_text(key: &str, path: &Path) -> Result<String, Finding> {
    read_text_at_most(path, WRITTEN_BY_HAND_MAX_BYTES).map_err(|error| {
        let finding = Finding::error(format!("reading the file that {key} names failed with {error}: {path:?}"));
        finding.hint("paths are relative to the experiment file")
    })
}
