//! Whether an experiment can be run on this machine, as far as that can be told before.

use std::path::Path;

use dwell_config::{CONTEXT_GRAIN, PlannedRun};
use dwell_files::available_bytes;
use dwell_gguf::MemoryRequest;
use dwell_host::MemoryLimit;
use dwell_store::ResultsManifest;
use rustix::fs::Access;

use crate::engine_limits::engine_findings;
use crate::requests::engine_options;
use crate::{ChosenCollectors, Estimate, Finding, Model, Setup};

/// Runs above which one should think again.
const MANY_RUNS: usize = 1000;
/// Bytes of a token at least, in text of most languages.
const LEAST_BYTES_PER_TOKEN: usize = 3;

/// What is to be said about an experiment: does it fit into memory and onto the disk, which collectors fall back.
pub fn check(setup: &Setup, collectors: &ChosenCollectors, estimate: &Estimate) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(fallback_findings(collectors));
    findings.extend(setup.models.iter().flat_map(|model| model_fallback_findings(collectors, model)));
    findings.extend(engine_findings(setup));
    findings.extend(memory_findings(setup));
    findings.extend(context_findings(setup));
    findings.extend(disk_finding(&setup.results, estimate));
    // Every run adds its row; better to know now than after the first.
    findings.extend(ResultsManifest::open(&setup.results).rows().err().map(|error| Finding::of(&error)));
    if setup.plan.runs.len() > MANY_RUNS {
        findings.push(Finding::warning(format!("the experiment has {} runs", setup.plan.runs.len())));
    }
    findings
}

/// Why results cannot be written where they are to go. Looked at first: no collector works there either, and none can
/// take the place of another.
pub fn check_results(results: &Path) -> Option<Finding> {
    let there = results.ancestors().find(|path| path.symlink_metadata().is_ok());
    let there = there.filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let reason = match there.metadata() {
        Ok(metadata) if metadata.is_dir() => {
            rustix::fs::access(there, Access::WRITE_OK | Access::EXEC_OK).err()?.to_string()
        }
        Ok(_) => "it is not a folder".to_owned(),
        Err(error) => error.to_string(),
    };
    let finding = Finding::error(format!("the results {results:?} cannot be written, because of {there:?}: {reason}"));
    Some(finding.hint("choose another folder with output.base_dir or -o"))
}

fn fallback_findings(collectors: &ChosenCollectors) -> Vec<Finding> {
    let finding = |fallback: &dwell_metadata::Fallback| {
        let message = format!(
            "the collector {} does not work here, {} takes its place: {}",
            fallback.wanted, fallback.instead, fallback.reason
        );
        Finding::warning(message).hint(format!("dwell doctor --collect {}", fallback.wanted))
    };
    collectors.fallbacks.iter().map(finding).collect()
}

/// Collectors that work here and not with the engine of a model.
fn model_fallback_findings(collectors: &ChosenCollectors, model: &Model) -> Vec<Finding> {
    let of_model = match collectors.for_model(model) {
        Ok(of_model) => of_model,
        Err(findings) => return findings,
    };
    let finding = |fallback: &dwell_metadata::Fallback| {
        let (id, wanted, instead) = (&model.id, &fallback.wanted, &fallback.instead);
        let reason = &fallback.reason;
        Finding::warning(format!("model {id:?}: {wanted} cannot watch it, {instead} takes its place: {reason}"))
    };
    of_model.fallbacks[collectors.fallbacks.len()..].iter().map(finding).collect()
}

/// The run of each model that needs most memory stands for the others.
fn memory_findings(setup: &Setup) -> Vec<Finding> {
    let Some(limit) = MemoryLimit::read() else { return Vec::new() };
    let mut findings = Vec::new();
    for (index, model) in setup.models.iter().enumerate() {
        // A server that runs already has its memory.
        let Some(file) = model.file.as_ref().filter(|_| !model.is_joined()) else { continue };
        let needed = |run: &PlannedRun| {
            let request = MemoryRequest::from(&engine_options(setup, run));
            file.shape.memory_needed(file.weights_bytes, &request).map(|needed| needed.total_bytes())
        };
        let runs = setup.plan.runs.iter().filter(|run| run.model_index == index);
        let most = runs.map(|run| needed(run).map(|bytes| (bytes, run.name())));
        let most = most.collect::<Result<Vec<_>, _>>().map(|all| all.into_iter().max());
        match most {
            Err(error) => findings.push(Finding::error(format!("model {:?}: {error}", model.id))),
            Ok(Some((bytes, run))) => findings.extend(memory_finding(&model.id, &run, bytes, limit)),
            Ok(None) => {}
        }
    }
    findings
}

fn memory_finding(model: &str, run: &str, needed: u64, limit: MemoryLimit) -> Option<Finding> {
    let MemoryLimit { total_bytes: total, available_bytes: available } = limit;
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let about = format!("model {model:?}, {run}: {} MiB of memory are needed", mib(needed));
    if needed > total {
        let finding = Finding::error(format!("{about}, and the machine has {} MiB", mib(total)));
        return Some(
            finding.hint("take shorter sweep.context_lengths, a smaller model, or sweep.kv_cache_types: [q4_0]"),
        );
    }
    let is_short = needed > available;
    is_short.then(|| Finding::warning(format!("{about}, and {} MiB are free now", mib(available))))
}

/// Prompts that cannot fit, by their length in letters.
fn context_findings(setup: &Setup) -> Vec<Finding> {
    let sweep = &setup.experiment.sweep;
    let shortest = sweep.context_lengths.iter().min().copied().unwrap_or(0);
    let sequences = sweep.batch_sizes.iter().max().copied().unwrap_or(1).max(1);
    let output_tokens = sweep.output_tokens.iter().max().copied().unwrap_or(0) as usize;
    let room = u64::from(shortest / sequences).max(1).next_multiple_of(CONTEXT_GRAIN) as usize;
    let mut findings = Vec::new();
    for prompt in setup.prompts.iter().filter(|prompt| prompt.fill_context.is_none()) {
        let text_bytes = prompt.text.len() + prompt.follow_ups.iter().map(String::len).sum::<usize>();
        let tokens = text_bytes / LEAST_BYTES_PER_TOKEN + output_tokens * (1 + prompt.follow_ups.len());
        if tokens > room {
            let id = &prompt.id;
            let message =
                format!("prompt {id:?} and its answers may take {tokens} tokens, and a context has room for {room}");
            findings.push(
                Finding::warning(message).hint("choose other prompts.categories, or longer sweep.context_lengths"),
            );
        }
    }
    for model in &setup.models {
        let Some(trained) = model.file.as_ref().map(|file| file.info.context_train) else { continue };
        let longest = sweep.context_lengths.iter().max().copied().unwrap_or(0);
        if longest > trained {
            let id = &model.id;
            let message = format!(
                "model {id:?} was trained for a context of {trained}, and {longest} are asked for; prompts fill no more"
            );
            findings.push(Finding::warning(message));
        }
    }
    findings
}

fn disk_finding(results: &Path, estimate: &Estimate) -> Option<Finding> {
    let folder = results.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let free = match available_bytes(folder) {
        Ok(free) => free,
        Err(error) => return Some(Finding::of(&error)),
    };
    let needed = estimate.total_bytes();
    (needed > free).then(|| {
        let message =
            format!("the experiment writes about {} MiB, and {} MiB are free: {results:?}", mib(needed), mib(free));
        Finding::error(message).hint("choose another folder with output.base_dir or -o, or sweep less")
    })
}
