//! Runs side by side: memory, speed and times of every configuration, its repetitions together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use dwell_analysis::memory::{MemoryKind, MemoryReport};
use dwell_metadata::kv_type_name;
use serde::Serialize;

use crate::ReportError;
use crate::aggregate::unknown_experiment;
use crate::compare_context::{ContextLine, context_lines, context_lines_on_one_basis};
use crate::compare_figures::{FIGURES, common_kind, is_split_in_another_kind};
use crate::compare_work::work_notes;
use crate::exclusion::{Exclusion, ExclusionReason, exclusion_of, exclusions_text, taken_in_texts};
use crate::group::{GroupKey, telling_keys};
use crate::run_results::RunResults;

/// Reasons for which a run in a folder still counts here; they are stated. Memory is what it is on a busy machine too.
const TAKEN_IN: [ExclusionReason; 2] = [ExclusionReason::QualityFail, ExclusionReason::Contaminated];
/// Places of the keys that every table has anyway: model, context length, type of the cache.
const SHOWN_KEYS: [usize; 3] = [0, 1, 4];

/// A run to compare.
#[derive(Clone, Debug)]
pub struct CompareSource {
    /// What is known of it.
    pub facts: RunResults,
    /// Whether it was named itself rather than found in a folder.
    pub is_named: bool,
}

/// Which runs to compare.
#[derive(Clone, Debug, Default)]
pub struct CompareOptions {
    /// Id or name of the one experiment whose runs are taken.
    pub experiment: Option<String>,
    /// Reasons for which runs in folders are not excluded after all.
    pub include: Vec<ExclusionReason>,
}

/// What makes runs the same configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct CompareKey {
    /// Name of the engine.
    pub engine: String,
    /// The model.
    pub model_id: String,
    /// Type of keys and values; `k/v` if they differ.
    pub kv_type: Option<String>,
    /// Positions in the KV cache, over all sequences.
    pub context_length: Option<u64>,
    /// `cold`, `page_cache` or `warm`.
    pub start: Option<String>,
    /// All else.
    pub setup: GroupKey,
}

/// A figure over repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Runs that have the figure.
    pub n: usize,
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

/// Runs of one configuration.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CompareGroup {
    /// What they have in common.
    pub key: CompareKey,
    /// The runs.
    pub run_ids: Vec<String>,
    /// Those of them that were named themselves.
    #[serde(skip)]
    pub named_run_ids: Vec<String>,
    /// Their directories.
    pub paths: Vec<PathBuf>,
    /// Figures by the names in [`FIGURES`]; one that no run has is left out.
    pub figures: BTreeMap<&'static str, Spread>,
    /// How many runs gave each verdict on the growth of memory.
    pub verdicts: BTreeMap<String, usize>,
    /// The verdicts in words, without repetition.
    pub sentences: BTreeSet<String>,
    /// Which memory totals are of: `pss` if all runs of the comparison have it, else `rss`.
    pub total_kinds: BTreeSet<String>,
    /// How bytes per token were measured.
    pub measured_bases: BTreeSet<String>,
}

/// Runs side by side.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Configurations, by engine, model, type of the cache and context length.
    pub groups: Vec<CompareGroup>,
    /// Memory over context lengths, where there are several.
    pub context_lines: Vec<ContextLine>,
    /// The same lines on one basis, for one axis; none if there is no basis that all of them have.
    #[serde(skip)]
    pub(crate) drawn_context_lines: Vec<ContextLine>,
    /// What to think of when reading it.
    pub warnings: Vec<String>,
    /// Where configurations did different work, so that their figures say less about them.
    pub notes: Vec<String>,
    /// Runs in folders that do not count.
    pub excluded: Vec<Exclusion>,
}

impl Spread {
    /// The spread of finite samples; none without.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut samples: Vec<f64> = samples.into_iter().filter(|sample| sample.is_finite()).collect();
        samples.sort_by(f64::total_cmp);
        let (min, max) = (*samples.first()?, *samples.last()?);
        let middle = samples.len() / 2;
        let median =
            if samples.len() % 2 == 1 { samples[middle] } else { (samples[middle - 1] + samples[middle]) / 2.0 };
        Some(Self { n: samples.len(), median, min, max })
    }
}

impl CompareKey {
    /// The key of a run. What a server says of itself counts more than what it was asked for.
    pub fn of(run: &RunResults) -> Self {
        let metadata = &run.metadata;
        let server = metadata.server.as_ref();
        // Options were not given to a server that dwell did not start.
        let is_asked = server.is_none_or(|server| server.is_started_here);
        let told = server.and_then(|server| kv_type_name(server.kv_type_k.as_deref(), server.kv_type_v.as_deref()));
        let setup = GroupKey::of(run);
        // Where slots take positions from a pool of another size, a sequence has a length all the same.
        let told_length = server.and_then(|server| server.context_positions().or(server.context_length.map(u64::from)));
        Self {
            engine: metadata.engine.clone(),
            model_id: model_id(run),
            kv_type: told.or_else(|| setup.kv_type.clone().filter(|_| is_asked)),
            context_length: told_length.or(setup.context_length.filter(|_| is_asked)),
            start: metadata.memory.as_ref().and_then(|memory| memory.start_name.clone()),
            setup,
        }
    }
}

/// A run that joined a server without naming a model lies under the engine's name; the server knows the model's.
fn model_id(run: &RunResults) -> String {
    let metadata = &run.metadata;
    let served = metadata.server.as_ref().and_then(|server| server.model_name.clone());
    served.filter(|_| metadata.model_id == metadata.engine).unwrap_or_else(|| metadata.model_id.clone())
}

impl CompareGroup {
    fn of(key: CompareKey, runs: &[&RunResults], kind: MemoryKind) -> Self {
        let memories = || runs.iter().filter_map(|run| run.metadata.memory.as_ref());
        let mut verdicts = BTreeMap::new();
        for memory in memories() {
            *verdicts.entry(memory.verdict.kind.name().to_owned()).or_default() += 1;
        }
        let has_total = |memory: &&MemoryReport| memory.steady_total(kind).or(memory.peak_total(kind)).is_some();
        Self {
            key,
            run_ids: runs.iter().map(|run| run.metadata.run_id.clone()).collect(),
            named_run_ids: Vec::new(),
            paths: runs.iter().map(|run| run.path.clone()).collect(),
            figures: FIGURES
                .iter()
                .filter_map(|figure| {
                    Some((figure.name, Spread::of(runs.iter().filter_map(|run| figure.value(run, kind)))?))
                })
                .collect(),
            verdicts,
            sentences: memories().map(|memory| memory.verdict.sentence.clone()).collect(),
            total_kinds: memories().filter(has_total).map(|_| kind.name().to_owned()).collect(),
            measured_bases: memories()
                .filter_map(|memory| memory.kv.measured_basis.map(|basis| basis.name().to_owned()))
                .collect(),
        }
    }
}

impl Comparison {
    /// What sets a group apart beside engine, model, type of the cache, context length and start; often nothing.
    pub fn setup_of(&self, group: &CompareGroup) -> String {
        // What sets some groups apart is said of all of them: a reader would take a missing value for a common one.
        let places: BTreeSet<usize> = self.groups.iter().flat_map(|group| self.places_that_tell(group)).collect();
        group.key.setup.words(&places.into_iter().collect::<Vec<_>>())
    }

    /// Keys that set a group apart from those that are equal otherwise.
    fn places_that_tell(&self, group: &CompareGroup) -> Vec<usize> {
        let same_but_setup = self.groups.iter().filter(|other| other.is_told_apart_by_setup(group));
        let keys: Vec<&GroupKey> = same_but_setup.map(|group| &group.key.setup).collect();
        let places = telling_keys(keys.iter().copied());
        places.into_iter().filter(|place| !SHOWN_KEYS.contains(place)).collect()
    }

    /// A group in a few words: `llama_server · f16 · context 4096`, with the model if there are several.
    pub fn label_of(&self, group: &CompareGroup) -> String {
        let key = &group.key;
        let models: BTreeSet<&str> = self.groups.iter().map(|group| group.key.model_id.as_str()).collect();
        let starts: BTreeSet<&Option<String>> = self.groups.iter().map(|group| &group.key.start).collect();
        let parts = [
            Some(key.engine.clone()),
            (models.len() > 1).then(|| key.model_id.clone()),
            key.kv_type.clone(),
            key.context_length.map(|length| format!("context {length}")),
            key.start.clone().filter(|_| starts.len() > 1),
            Some(self.setup_of(group)).filter(|text| !text.is_empty()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }
}

impl CompareGroup {
    fn is_told_apart_by_setup(&self, other: &CompareGroup) -> bool {
        let shown = |key: &CompareKey| CompareKey { setup: GroupKey::default(), ..key.clone() };
        shown(&self.key) == shown(&other.key)
    }
}

/// Puts runs side by side.
///
/// A run that was named must be finished. Of those found in folders, only runs that count are taken.
pub fn compare(sources: &[CompareSource]) -> Result<Comparison, ReportError> {
    compare_chosen(sources, &CompareOptions::default())
}

/// Puts the runs side by side that options choose.
pub fn compare_chosen(sources: &[CompareSource], options: &CompareOptions) -> Result<Comparison, ReportError> {
    let is_chosen = |run: &RunResults| options.experiment.as_deref().is_none_or(|wanted| run.is_of(wanted));
    let chosen: Vec<&CompareSource> = sources.iter().filter(|source| is_chosen(&source.facts)).collect();
    if let (true, Some(wanted)) = (chosen.is_empty(), &options.experiment) {
        return Err(unknown_experiment(sources.iter().map(|source| &source.facts), wanted));
    }
    let mut excluded = Vec::new();
    let mut groups: BTreeMap<CompareKey, Vec<&RunResults>> = BTreeMap::new();
    let mut taken_in = Vec::new();
    for CompareSource { facts, is_named } in chosen {
        match exclusion_of(facts, &options.include) {
            Some(exclusion) if *is_named => {
                refuse_without_figures(&exclusion, facts)?;
                taken_in.push(exclusion);
            }
            Some(exclusion) if TAKEN_IN.contains(&exclusion.reason) => taken_in.push(exclusion),
            Some(exclusion) => {
                excluded.push(exclusion);
                continue;
            }
            None => {}
        }
        groups.entry(CompareKey::of(facts)).or_default().push(facts);
    }
    if groups.is_empty() {
        return Err(ReportError::NothingToCompare { found_runs: sources.len(), why: exclusions_text(&excluded) });
    }
    let mut warnings = taken_in_texts(&taken_in);
    warnings.extend(general_warnings(&groups));
    let (context_lines, drawn_context_lines) = (context_lines(&groups), context_lines_on_one_basis(&groups));
    let kind = common_kind(groups.values().flatten().copied());
    let unsplit: Vec<&str> = groups
        .values()
        .flatten()
        .filter(|run| is_split_in_another_kind(run, kind))
        .map(|run| run.metadata.run_id.as_str())
        .collect();
    if !unsplit.is_empty() {
        warnings.push(format!(
            "not every run has {other}, so memory is in {common}; the samples of these do not tell the parts in it: {}",
            unsplit.join(", "),
            other = MemoryKind::Pss.name().to_uppercase(),
            common = kind.name().to_uppercase(),
        ));
    }
    let named: BTreeSet<&PathBuf> =
        sources.iter().filter(|source| source.is_named).map(|source| &source.facts.path).collect();
    let group = |(key, runs): (CompareKey, Vec<&RunResults>)| {
        let named_runs = runs.iter().filter(|run| named.contains(&run.path));
        let named_run_ids = named_runs.map(|run| run.metadata.run_id.clone()).collect();
        CompareGroup { named_run_ids, ..CompareGroup::of(key, &runs, kind) }
    };
    let groups: Vec<CompareGroup> = groups.into_iter().map(group).collect();
    let mut comparison =
        Comparison { groups, context_lines, drawn_context_lines, warnings, notes: Vec::new(), excluded };
    comparison.notes = work_notes(&comparison.groups, &|group| comparison.label_of(group));
    Ok(comparison)
}

fn refuse_without_figures(exclusion: &Exclusion, run: &RunResults) -> Result<(), ReportError> {
    if !matches!(exclusion.reason, ExclusionReason::Unfinished | ExclusionReason::Failed) {
        return Ok(());
    }
    let detail = if exclusion.detail.is_empty() { String::new() } else { format!(" ({})", exclusion.detail) };
    let state = format!("{}{detail}", exclusion.reason.words());
    Err(ReportError::NotComparable { state, run: run.path.clone() })
}

fn general_warnings(groups: &BTreeMap<CompareKey, Vec<&RunResults>>) -> Vec<String> {
    let words = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(", ");
    let models: BTreeSet<&str> = groups.keys().map(|key| key.model_id.as_str()).collect();
    let runs = || groups.values().flatten();
    let machines: BTreeSet<&str> = runs().filter_map(|run| run.metadata.cpu_model()).collect();
    let silent: BTreeSet<&str> =
        runs().filter(|run| run.metadata.memory.is_none()).map(|run| run.metadata.run_id.as_str()).collect();
    let mut warnings = Vec::new();
    let sizes: BTreeSet<Option<u64>> = runs().map(|run| run.metadata.model_parameters()).collect();
    // The same model has other names on other runtimes.
    let are_alike = sizes.len() == 1 && !sizes.contains(&None);
    if models.len() > 1 && !are_alike {
        warnings.push(format!("runs are of different models: {}", words(models)));
    }
    if machines.len() > 1 {
        warnings.push(format!("runs are of different machines: {}", words(machines)));
    }
    if !silent.is_empty() {
        let verb = if silent.len() == 1 { "run says" } else { "runs say" };
        warnings.push(format!("{} {verb} nothing about memory per token: {}", silent.len(), words(silent)));
    }
    warnings
}
