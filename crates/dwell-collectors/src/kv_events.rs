//! The `kv_events` collector of a run: from the server's publisher to `raw/`, and from there to the table.

use std::path::Path;

use dwell_events::schema::Table;
use dwell_events::server::KvEventsOptions;
use dwell_kv_events::{
    KV_EVENTS_STREAM, KvBlocksReport, KvEventsRecorder, SubscribeOptions, TokenPolicy, TrackOptions, build_kv_blocks,
};
use dwell_metadata::RunRecord;
use dwell_store::{RunDir, StoreError, TableWriter};

use crate::CollectError;

/// Begins to listen; batches go into the raw stream as they come.
pub fn begin(run: &RunDir, options: &KvEventsOptions) -> Result<KvEventsRecorder, CollectError> {
    let options = SubscribeOptions {
        endpoint: options.endpoint.clone(),
        replay_endpoint: options.replay_endpoint.clone(),
        topic: options.topic.clone(),
        ..SubscribeOptions::default()
    };
    KvEventsRecorder::start(options, &run.raw_stream(KV_EVENTS_STREAM)).map_err(CollectError::KvEvents)
}

fn track_options(record: &RunRecord, options: &KvEventsOptions) -> Result<TrackOptions, StoreError> {
    let no_salt = |error| StoreError::from_io("making a salt for token ids", Path::new("/dev/urandom"), error);
    let tokens = match options.keeps_token_ids {
        true => TokenPolicy::Keep,
        false => TokenPolicy::hash_with_random_salt().map_err(no_salt)?,
    };
    let kv_bytes_per_token = record.request.job.server.kv_bytes_per_token;
    Ok(TrackOptions { clock: record.clock, kv_bytes_per_token, tokens })
}

/// The table of KV blocks from what the server said; none if it was not listened to.
pub fn write_table(run: &RunDir, record: &RunRecord) -> Result<Option<KvBlocksReport>, StoreError> {
    let Some(options) = &record.request.job.server.kv_events else { return Ok(None) };
    let stream = run.raw_stream(KV_EVENTS_STREAM);
    if !stream.exists() {
        return Ok(None);
    }
    let mut table = TableWriter::create_with(run.path(), Table::KvBlockLifecycle, record.request.build.compression)?;
    let report = build_kv_blocks(&stream, &track_options(record, options)?, &mut table)?;
    table.finish()?;
    Ok(Some(report))
}
