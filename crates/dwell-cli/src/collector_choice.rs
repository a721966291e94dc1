//! Which collectors watch one run: those that were asked for, and fallbacks in the place of those that cannot.

use std::path::Path;

use dwell_collectors::{
    CheckPlace, Choice, Reason, Target, Wanted, check, choose, chosen, collector, refused_by_engine, substitutes,
};
use dwell_events::CollectorName;
use dwell_events::engine::{EngineKind, RecorderAccess};
use dwell_events::server::KvEventsOptions;
use dwell_experiment::run_small_model;
use dwell_host::{MemorySampling, Root};
use dwell_metadata::{Collectors, Fallback, Refusal, RefusedAt, Substitute};

use crate::args::{ServerArgs, WatchingArgs};
use crate::messages::Failure;
use crate::output::{say, step};

/// The collectors of a run, and what became of others that were asked for.
pub(crate) struct RunCollectors {
    pub(crate) used: Collectors,
    pub(crate) fallbacks: Vec<Fallback>,
    pub(crate) refusals: Vec<Refusal>,
    pub(crate) substitutes: Vec<Substitute>,
}

/// What the collectors are to watch.
pub(crate) struct Watched<'a> {
    pub(crate) engine: EngineKind,
    pub(crate) server: Option<&'a ServerArgs>,
    /// The folder of the results.
    pub(crate) results: &'a Path,
}

impl Watched<'_> {
    fn is_joined(&self) -> bool {
        self.server.is_some_and(|server| server.url.is_some())
    }
}

/// Chooses by trying. With fallbacks, each collector is tried as `dwell doctor` does it. Without, one that was named and cannot watch
/// the engine is an error, and any other shows itself when recording begins.
pub(crate) fn choose_collectors(watching: &WatchingArgs, watched: &Watched<'_>) -> Result<RunCollectors, Failure> {
    let kv_events = watched.server.and_then(kv_events);
    let mut names = watching.collect.names.clone();
    names.extend(kv_events.is_some().then_some(CollectorName::KV_EVENTS));
    let target = Target { engine: watched.engine, is_joined: watched.is_joined(), kv_events: kv_events.as_ref() };
    let may_fall_back = !watching.fallback.is_empty();
    let mut try_out = |name| {
        if !may_fall_back && !watching.collect.is_named(name) {
            return None;
        }
        refused_by_engine(name, &target).or_else(|| may_fall_back.then(|| refused_here(name, watched)).flatten())
    };
    let choice = step("choosing the collectors", || choose(&names, &watching.fallback, &mut try_out));
    if let Some((name, reason)) = choice.unreplaced.first() {
        return Err(unreplaced(*name, reason, &choice, may_fall_back));
    }
    tell(&choice);
    let wanted = Wanted {
        sample_interval_ms: watching.sample_interval_ms,
        kv_events: kv_events.as_ref(),
        is_in_browser: watched.engine.profile().is_in_browser,
        memory_sampling: MemorySampling { period: watching.perf_period, least_latency_cycles: watching.perf_ldlat },
    };
    let used = chosen(&choice.used, &wanted);
    Ok(RunCollectors {
        substitutes: substitutes(&watching.fallback, &used, &choice.refusals, &wanted),
        fallbacks: choice.fallbacks,
        refusals: choice.refusals,
        used,
    })
}

/// Why a collector does not work on this machine.
fn refused_here(name: CollectorName, watched: &Watched<'_>) -> Option<Reason> {
    let missing = (name == CollectorName::TENSOR_OPS).then(|| missing_recorder(watched.engine, watched.is_joined()));
    let place = CheckPlace { root: Root::default(), results: watched.results, run_small_model: &run_small_model };
    let reason = missing.flatten().or_else(|| check(collector(name), &place).failure())?;
    Some((RefusedAt::Check, reason))
}

/// That the recorder's library is missing where it is to be loaded into the engine.
pub(crate) fn missing_recorder(engine: EngineKind, is_joined: bool) -> Option<String> {
    let is_loaded = engine.profile().recorder == RecorderAccess::Preloaded && !is_joined;
    (is_loaded && dwell_worker::preload_library().is_none()).then(|| {
        "the collector tensor_ops needs libdwell_preload.so, which is neither beside dwell nor in ../lib/dwell"
            .to_owned()
    })
}

fn unreplaced(name: CollectorName, reason: &str, choice: &Choice, may_fall_back: bool) -> Failure {
    let refusal = choice.refusals.iter().find(|refusal| refusal.collector == name.name());
    let (name, words) = (name.name(), refusal.map_or("cannot watch", |refusal| refusal.at.words()));
    let fallbacks = if may_fall_back { ", and no fallback takes its place" } else { "" };
    let failure = Failure::new(format!("choosing the collectors: {name} {words}{fallbacks}: {reason}"));
    failure
        .hint(format!("dwell doctor --collect {name}"))
        .hint("let another collector take its place, such as --fallback process, or leave it out of --collect")
}

fn tell(choice: &Choice) {
    for Fallback { wanted, instead, reason } in &choice.fallbacks {
        say(format_args!(
            "warning: the collector {wanted} cannot watch this run, {instead} takes its place: {reason}\n"
        ));
    }
}

/// What a server publishes of its KV blocks, if its address is given.
pub(crate) fn kv_events(server: &ServerArgs) -> Option<KvEventsOptions> {
    server.kv_events.as_ref().map(|endpoint| KvEventsOptions {
        endpoint: endpoint.clone(),
        replay_endpoint: server.kv_events_replay.clone(),
        topic: server.kv_events_topic.clone(),
        keeps_token_ids: server.keep_token_ids,
    })
}
