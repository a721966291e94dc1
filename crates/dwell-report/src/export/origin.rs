//! Who made the runs, on what, with what.

use std::collections::BTreeSet;

use dwell_events::host::Host;
use dwell_metadata::ExperimentRun;

use crate::numbers;
use crate::run_results::RunResults;

/// What the runs of a dataset have come from; each fact once.
#[derive(Default)]
pub(super) struct Origin {
    pub(super) experiments: Vec<ExperimentRun>,
    pub(super) models: BTreeSet<String>,
    pub(super) machines: BTreeSet<String>,
    pub(super) runtimes: BTreeSet<String>,
    pub(super) dwell_versions: BTreeSet<String>,
    /// `trace (tensor_ops, exact)`.
    pub(super) tables: BTreeSet<String>,
    /// Rows of all tables named `trace`.
    pub(super) trace_rows: u64,
    /// First and last day on which a run began.
    pub(super) days: Option<(String, String)>,
}

impl Origin {
    pub(super) fn of(runs: &[&RunResults]) -> Self {
        let mut origin = Self::default();
        for run in runs {
            let metadata = &run.metadata;
            if let Some(experiment) = &metadata.experiment
                && !origin.experiments.iter().any(|known| known.id == experiment.id)
            {
                origin.experiments.push(experiment.clone());
            }
            origin.models.insert(metadata.model_id.clone());
            origin.machines.extend(metadata.host.as_ref().map(machine));
            origin.runtimes.extend(metadata.model.as_ref().map(|model| model.runtime.clone()));
            origin.dwell_versions.insert(metadata.dwell_version.clone());
            origin.tables.extend(
                metadata.tables.iter().map(|(name, origin)| format!("`{name}`: {}, {}", origin.source, origin.basis)),
            );
            let trace_rows = metadata.tables.get("trace").map_or(0, |origin| origin.rows);
            origin.trace_rows = origin.trace_rows.saturating_add(trace_rows);
            let day = metadata.started_at_utc.chars().take(10).collect::<String>();
            origin.days = Some(match origin.days {
                None => (day.clone(), day),
                Some((first, last)) => (first.min(day.clone()), last.max(day)),
            });
        }
        origin
    }

    pub(super) fn default_title(&self) -> String {
        let names: BTreeSet<&str> = self.experiments.iter().map(|experiment| experiment.about.name.as_str()).collect();
        if names.is_empty() {
            return format!("Memory accesses of {}", listed(&self.models));
        }
        names.into_iter().collect::<Vec<_>>().join(", ")
    }

    /// Authors of all experiments, each once.
    pub(super) fn authors(&self) -> Vec<&str> {
        let mut authors: Vec<&str> = Vec::new();
        for author in self.experiments.iter().flat_map(|experiment| &experiment.about.authors) {
            if !authors.contains(&author.as_str()) {
                authors.push(author);
            }
        }
        authors
    }

    /// What the experiments say they are for.
    pub(super) fn descriptions(&self) -> impl Iterator<Item = &str> {
        self.experiments.iter().map(|experiment| experiment.about.description.trim()).filter(|text| !text.is_empty())
    }

    /// The first that an experiment states; an empty text states nothing.
    pub(super) fn first_stated(&self, fact: fn(&ExperimentRun) -> &String) -> Option<&str> {
        self.experiments.iter().map(fact).map(String::as_str).find(|text| !text.trim().is_empty())
    }

    pub(super) fn version(&self) -> &str {
        self.first_stated(|experiment| &experiment.about.version).unwrap_or("1.0")
    }
}

/// Texts with commas between them.
pub(super) fn listed(texts: &BTreeSet<String>) -> String {
    texts.iter().filter(|text| !text.is_empty()).map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn machine(host: &Host) -> String {
    let facts = [
        host.cpu_model.clone(),
        (host.cpus > 0).then(|| format!("{} processors", host.cpus)),
        host.memory_bytes.map(|size| format!("{} of memory", numbers::bytes(size))),
        host.os.clone(),
        (!host.kernel.is_empty()).then(|| format!("kernel {}", host.kernel)),
        Some(host.architecture.clone()).filter(|name| !name.is_empty()),
    ];
    facts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
