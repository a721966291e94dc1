//! `dwell import`: runs from what others recorded.

use std::process::ExitCode;

use dwell_kv_events::{ImportReport, ImportRequest, import_kv_events};
use dwell_report::text::{count, or_dash, seconds, table, totals};
use dwell_store::RunState;

use crate::args::{ImportCommand, ImportKvEventsArgs};
use crate::messages::{EXIT_WITH_LOSS, hinted};
use crate::output::print_result;

pub(crate) fn run(command: &ImportCommand) -> anyhow::Result<ExitCode> {
    match command {
        ImportCommand::KvEvents(args) => kv_events(args),
    }
}

fn kv_events(args: &ImportKvEventsArgs) -> anyhow::Result<ExitCode> {
    let request = ImportRequest {
        files: args.files.clone(),
        results: args.output.clone(),
        model_id: args.model_id.clone(),
        run_id: args.run_id.clone(),
        kv_bytes_per_token: args.kv_bytes_per_token,
        keeps_token_ids: args.keep_token_ids,
        salt: args.salt.clone(),
        command_line: command_line(),
    };
    let report = import_kv_events(&request).map_err(hinted)?;
    if args.json {
        super::print_json(&report)?;
    } else {
        print_result(&report_text(&report))?;
    }
    Ok(if report.state == RunState::Partial { ExitCode::from(EXIT_WITH_LOSS) } else { ExitCode::SUCCESS })
}

/// The command line without the salt, which must not be in the metadata.
fn command_line() -> Vec<String> {
    let mut is_salt = false;
    let hide = |word: String| {
        let was_option = std::mem::replace(&mut is_salt, word == "--salt");
        match word.strip_prefix("--salt=") {
            Some(_) => "--salt=…".to_owned(),
            None if was_option => "…".to_owned(),
            None => word,
        }
    };
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).map(hide).collect()
}

fn report_text(import: &ImportReport) -> String {
    let (report, blocks) = (&import.report, &import.report.blocks);
    let span_s =
        report.first_unix_ns.zip(report.last_unix_ns).map(|(first, last)| last.saturating_sub(first) as f64 / 1e9);
    let lost = totals(&[
        (report.lost_batches, "batches lost"),
        (report.undecodable_batches, "batches not decodable"),
        (blocks.unmatched, "removals without a store"),
        (blocks.not_followed, "blocks not followed"),
        (report.unseen_batches, "batches before the first"),
        (blocks.unknown_events, "events of unknown kinds"),
    ]);
    let line = |name: &str, text: String| format!("{name:<9} {text}\n");
    let mut text = line(
        "read",
        format!(
            "{} batches with {} events over {}",
            count(report.batches),
            count(blocks.events),
            or_dash(span_s, seconds)
        ),
    );
    text += &line(
        "blocks",
        or_nothing(totals(&[
            (blocks.stored, "stored"),
            (blocks.reused_blocks, "of them reused"),
            (blocks.removed, "removed"),
            (blocks.cleared, "cleared"),
            (blocks.ended_with_server, "gone with their server"),
            (blocks.alive, "alive at the end"),
        ])),
    );
    let lifetime = |value: Option<f64>| or_dash(value, seconds);
    text +=
        &line("lifetime", format!("p50 {}, p99 {}", lifetime(blocks.lifetime_p50_s), lifetime(blocks.lifetime_p99_s)));
    text += &line("lost", or_nothing(lost));
    let mut lines = vec![["medium", "stored", "ended", "alive"].map(str::to_owned).to_vec()];
    for (medium, counts) in &blocks.media {
        lines.push(vec![medium.clone(), count(counts.stored), count(counts.ended), count(counts.alive)]);
    }
    format!("{text}\n{}\n{}\n", table(&lines), import.run_dir.display())
}

fn or_nothing(text: String) -> String {
    if text.is_empty() { "nothing".to_owned() } else { text }
}
