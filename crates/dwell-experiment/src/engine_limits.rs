//! What an engine cannot do of what an experiment may ask for.

use dwell_config::{Experiment, Sweep};
use dwell_events::CollectorName;
use dwell_events::engine::{KvType, Reach};

use crate::{Finding, Model, Setup};

/// What the experiment asks of its engines and they do not do.
pub(crate) fn engine_findings(setup: &Setup) -> Vec<Finding> {
    let of_model = |model: &Model| {
        [
            unfollowed_keys(&setup.experiment.sweep, model),
            early_end(model),
            sequences_one_by_one(&setup.experiment.sweep, model),
            unused_kv_events(&setup.experiment, model),
        ]
    };
    setup.models.iter().flat_map(of_model).flatten().collect()
}

/// Swept keys that have another value than by default and do not reach the engine.
fn unfollowed_keys(sweep: &Sweep, model: &Model) -> Option<Finding> {
    let profile = model.engine.profile();
    let is_fixed = profile.reach == Reach::Joined || model.is_joined();
    let is_per_request = profile.takes_options_per_request;
    let keys = [
        (sweep.context_lengths != [2048] && !is_per_request, "sweep.context_lengths"),
        (sweep.kv_cache_types != [KvType::F16], "sweep.kv_cache_types"),
        (sweep.flash_attention != [true], "sweep.flash_attention"),
        (sweep.threads.is_some() && !is_per_request, "sweep.threads"),
    ];
    let asked: Vec<&str> = keys.into_iter().filter_map(|(is_asked, key)| is_asked.then_some(key)).collect();
    if !is_fixed || asked.is_empty() {
        return None;
    }
    let (id, engine) = (&model.id, model.engine.name());
    let message = format!("model {id:?}: {} cannot change a {engine} that runs already", asked.join(", "));
    let hint = "start it once for each setting, and make each a model of the experiment with its own server.url";
    Some(Finding::warning(message).hint(hint))
}

fn early_end(model: &Model) -> Option<Finding> {
    let (id, engine) = (&model.id, model.engine.name());
    (!model.engine.profile().ignores_end).then(|| {
        Finding::note(format!(
            "model {id:?}: {engine} ends an answer where the model does, perhaps before sweep.output_tokens"
        ))
    })
}

fn sequences_one_by_one(sweep: &Sweep, model: &Model) -> Option<Finding> {
    let most = sweep.batch_sizes.iter().max().copied().unwrap_or(1);
    (!model.engine.profile().answers_side_by_side && most > 1).then(|| {
        let (id, engine) = (&model.id, model.engine.name());
        let message = format!("model {id:?}: {engine} generates one sequence, and sweep.batch_sizes has {most}");
        Finding::error(message).hint("engine: llama_server")
    })
}

fn unused_kv_events(experiment: &Experiment, model: &Model) -> Option<Finding> {
    let is_unused = model.kv_events.is_some() && !experiment.collectors.used.contains(&CollectorName::KV_EVENTS);
    is_unused.then(|| {
        let message =
            format!("model {:?}: its KV events are not recorded, as collectors.use does not say so", model.id);
        Finding::warning(message).hint("collectors: {use: [process, kv_events]}")
    })
}
