//! The summary of a run, for people.

use dwell_analysis::memory::{MemoryReport, SplitPart, VerdictKind};
use dwell_analysis::validity::ValidityClass;
use dwell_events::engine::StopReason;
use dwell_events::kv_accesses::KvAccesses;
use dwell_events::server::ServerDescription;
use dwell_metadata::{CollectorUse, RefusedAt};

use super::allocations::allocation_lines;
use super::energy::energy_lines;
use super::regions::{region_tables, window};
use super::{bytes, count, or_dash, seconds, speed_line};
use crate::RunSummary;
use crate::watched::{agreement_line, basis_lines, refusal_lines};

/// What the engine of an imported run is called.
const IMPORTED: &str = "imported";

/// The whole summary, with tables that are no wider than said.
pub fn summary_text(run: &RunSummary, width_chars: usize) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text.push_str(&format!("{name:<9} {value}\n"));
    line("model", run.model_title.clone());
    if let Some(server) = &run.server {
        line("engine", engine_line(&run.engine, server));
    }
    if let Some(generation) = &run.generation {
        line("speed", speed_line(generation));
    }
    let has_stopped = |reason| run.stops.iter().any(|stop| stop.reason == reason);
    if has_stopped(StopReason::ContextFull) {
        line("stopped", context_full_line(run));
    }
    if has_stopped(StopReason::LimitIgnored) {
        line("stopped", "by dwell: the server ignored --max-tokens and went on".to_owned());
    }
    if let Some(memory) = &run.memory {
        memory_lines(memory).into_iter().for_each(|(name, value)| line(name, value));
    }
    if let Some(allocations) = &run.allocations {
        allocation_lines(allocations).into_iter().for_each(|(name, value)| line(name, value));
    }
    line("seen", seen_line(run));
    if let Some(loads) = run.kv_accesses.filter(|loads| loads.loaded_unoccupied_bytes > 0) {
        line("KV reads", kv_reads_line(loads));
    }
    refusal_lines(&before_the_run(&run.collectors)).into_iter().for_each(|refusal| line("refused", refusal));
    let basis = basis_lines(&run.tables).join("; ");
    if !basis.is_empty() {
        line("basis", basis);
    }
    run.agreements.iter().for_each(|agreement| line("agreement", agreement_line(agreement)));
    if let Some(energy) = &run.energy {
        energy_lines(energy).into_iter().for_each(|(name, value)| line(name, value));
    }
    line("lost", lost_line(run));
    // What another program recorded was watched by that program, and it does not say at what cost.
    if run.engine != IMPORTED {
        line("observer", observer_line(run));
    }
    line("validity", validity_line(run));
    if let Some(failure) = &run.failure {
        line("failed", failure.clone());
    }
    if !run.regions.regions.is_empty() {
        text.push('\n');
        text.push_str(&region_tables(&run.regions, width_chars));
    }
    text.push_str(&format!(
        "\n{}{}\n",
        if run.state == "partial" { "partial run: " } else { "" },
        run.run_dir.display()
    ));
    if let Some(report) = &run.report {
        text.push_str(&format!("{}\n", report.display()));
    }
    text
}

/// The run is shorter than was asked for.
fn context_full_line(run: &RunSummary) -> String {
    let length =
        run.context_length.map_or_else(String::new, |length| format!(" of {} positions", count(length.into())));
    format!("the context{length} was full; --context-length sets a longer one")
}

/// What ran the model, and how it was reached.
fn engine_line(engine: &str, server: &ServerDescription) -> String {
    let version = server.version.as_deref().map_or_else(String::new, |version| format!(" ({version})"));
    let how = if server.is_started_here { "started" } else { "joined" };
    let url = server.url.as_deref().map_or_else(String::new, |url| format!(" at {url}"));
    format!("{engine}{version}, {how}{url}{}", end_text(server))
}

/// How a command ended; nothing where dwell did not wait for that.
fn end_text(server: &ServerDescription) -> String {
    match (server.exit_code, server.exit_signal) {
        (Some(code), _) => format!(", exit code {code}"),
        (None, Some(signal)) => format!(", ended by signal {signal}"),
        (None, None) => String::new(),
    }
}

/// Where the memory went, what a token takes, and how long it took to begin.
fn memory_lines(memory: &MemoryReport) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(steady) = &memory.steady {
        let part = |part: &SplitPart| format!("{} {}", part.part.label(), signed_bytes(part.bytes));
        let kind = steady.total_kind.name().to_uppercase();
        let parts: Vec<String> = steady.parts.iter().map(part).collect();
        lines.push(("memory", format!("{} {kind}: {}", bytes(steady.total_bytes), parts.join(", "))));
    }
    if memory.verdict.kind != VerdictKind::TooFewSamples {
        lines.push(("KV cache", memory.verdict.sentence.clone()));
    }
    lines
}

fn signed_bytes(value: i64) -> String {
    format!("{}{}", if value < 0 { "−" } else { "" }, bytes(value.unsigned_abs()))
}

fn seen_line(run: &RunSummary) -> String {
    match run.time_resolution {
        Some(resolution) => format!(
            "{} accesses over {}, timed by {}, {} of them unknown",
            count(run.accesses),
            window(&run.regions),
            resolution.name(),
            count(run.unknown_accesses),
        ),
        None if run.allocations.is_some() => {
            "no accesses: memray records what is allocated; what is read and written, and for how long it is needed, is not \
             known"
                .to_owned()
        }
        None if run.accesses > 0 => format!(
            "{} accesses over {}, {} of them unknown",
            count(run.accesses),
            window(&run.regions),
            count(run.unknown_accesses)
        ),
        None => {
            let reason = run.server.as_ref().and_then(|server| server.untraced_because.as_deref());
            format!("no accesses: {}", reason.unwrap_or("the collector tensor_ops was not used"))
        }
    }
}

/// Why no access was seen during the run is said where accesses are.
fn before_the_run(collectors: &CollectorUse) -> CollectorUse {
    let mut collectors = collectors.clone();
    collectors.refusals.retain(|refusal| refusal.at != RefusedAt::Run);
    collectors
}

/// Said only where cells without a token were loaded.
fn kv_reads_line(loads: KvAccesses) -> String {
    let all = loads.loaded_occupied_bytes.saturating_add(loads.loaded_unoccupied_bytes);
    format!(
        "{}, {:.1} % of it from cells that hold no token",
        bytes(all),
        loads.loaded_unoccupied_bytes as f64 / all as f64 * 100.0
    )
}

fn lost_line(run: &RunSummary) -> String {
    let missing: Vec<String> = run
        .loss
        .iter()
        .filter(|loss| loss.is_data_loss)
        .map(|loss| format!("{} × {} ({})", count(loss.count), loss.kind, loss.detail))
        .collect();
    if !missing.is_empty() {
        return missing.join("; ");
    }
    let outside = run.loss.iter().filter_map(|loss| loss.bytes).fold(0, u64::saturating_add);
    if outside == 0 {
        return "nothing".to_owned();
    }
    format!("nothing; {} of input and logits copies are outside the graph (see loss.parquet)", bytes(outside))
}

fn observer_line(run: &RunSummary) -> String {
    let effect = &run.observer_effect;
    let slowdown = effect.slowdown.as_ref().and_then(|slowdown| slowdown.decode_speed_share);
    let speed = slowdown.map_or_else(String::new, |share| format!("; {:.1} % of the speed without", share * 100.0));
    format!(
        "{} of the worker's CPU time, {} of memory while recording; the worker waited {} for it{speed}",
        or_dash(effect.observer_cpu_share, |share| format!("{:.2} %", share * 100.0)),
        // What the share in the validity is computed from. Tables are built when the worker is gone.
        or_dash(effect.observer.rss_peak_bytes, bytes),
        seconds(effect.worker_blocked_ns as f64 / 1e9),
    )
}

/// Whether the run counts, and everything that keeps it from being clean.
fn validity_line(run: &RunSummary) -> String {
    let reasons = run.validity.iter().flat_map(|validity| &validity.reasons);
    let reasons: Vec<String> = reasons.map(ToString::to_string).collect();
    let why = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
    let class = run.validity.as_ref().map_or(ValidityClass::Unknown, |validity| validity.class);
    let quality = run.quality.as_ref().map_or("unknown", |quality| quality.status.name());
    let affected = if class == ValidityClass::Contaminated {
        ": times and speeds are affected, bytes and steps are not"
    } else {
        ""
    };
    format!("{}{why}{affected}; quality {quality}", class.name())
}
