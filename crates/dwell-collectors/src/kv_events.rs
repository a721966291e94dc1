//! The `kv_events` collector: what vLLM and SGLang publish about the blocks of their KV cache.

use std::collections::HashMap;
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use dwell_events::engine::EngineEvent;
use dwell_events::host::Outcome;
use dwell_events::schema::Table;
use dwell_events::server::KvEventsOptions;
use dwell_events::{Basis, CollectorName};
use dwell_kv_events::{
    CachedPrompt, KV_EVENTS_STREAM, KvEventsRecorder, SubscribeOptions, TokenPolicy, TrackOptions, build_kv_blocks,
    losses,
};
use dwell_metadata::{CollectorEnd, RunRecord, RunRequest};
use dwell_records::Kind;
use dwell_store::{RunDir, StoreError, TableWriter};
use serde_json::{Value, json};

use crate::{
    BuiltTable, CheckPlace, CollectError, Collected, Collector, Description, MergedRecords, Target, Wanted, Watching,
    read_settings,
};

const NAME: CollectorName = CollectorName::KV_EVENTS;

/// What a server publishes of its KV blocks.
pub(crate) struct KvEvents;

impl Collector for KvEvents {
    fn description(&self) -> &'static Description {
        &Description {
            name: NAME,
            observes: "which KV blocks a server stores, uses again and removes",
            basis: Basis::Reported,
            cost: "nothing in the server, which never waits for a subscriber; 1.9 µs of the observer's CPU time for each \
                   event, building the table included",
            needs: "vLLM or SGLang with KV events turned on, and the address of the publisher",
            tried: "a connection to this machine itself is made",
        }
    }

    /// It takes a socket; whether a server publishes is known when it is asked.
    fn check(&self, _: &CheckPlace<'_>) -> Outcome {
        // The listener has to live until the connection is there.
        let connected = TcpListener::bind(("127.0.0.1", 0))
            .and_then(|listener| listener.local_addr().and_then(TcpStream::connect).map(|_| listener));
        match connected {
            Ok(_) => Outcome::works("a connection to this machine; it takes a server that publishes its KV events"),
            Err(error) => Outcome::fails(format!("connecting to this machine failed with {error}")),
        }
    }

    fn cannot_watch(&self, target: &Target<'_>) -> Option<String> {
        match target.engine.profile().publishes_kv_events {
            false => Some(format!("{} publishes no KV events", target.engine.name())),
            true => target.kv_events.is_none().then(|| "no server.kv_events.endpoint is given".to_owned()),
        }
    }

    fn settings(&self, wanted: &Wanted<'_>) -> Value {
        json!(wanted.kv_events.cloned().unwrap_or_default())
    }

    /// Before the first request, because what is published without a listener is gone.
    fn begin(&self, run: &RunDir, request: &RunRequest, settings: &Value) -> Result<Box<dyn Watching>, CollectError> {
        let options: KvEventsOptions = read_settings(NAME, settings)?;
        let options = SubscribeOptions {
            endpoint: options.endpoint,
            replay_endpoint: options.replay_endpoint,
            topic: options.topic,
            awaits_server: request.job.server.url.is_none(),
            ..SubscribeOptions::default()
        };
        let recorder =
            KvEventsRecorder::start(options, &run.raw_stream(KV_EVENTS_STREAM)).map_err(CollectError::KvEvents)?;
        Ok(Box::new(Listening { recorder }))
    }

    fn build(&self, run: &RunDir, record: &RunRecord, collected: &mut Collected) -> Result<(), StoreError> {
        let stream = run.raw_stream(KV_EVENTS_STREAM);
        let settings = record.request.collectors.settings(NAME).filter(|_| stream.exists());
        let Some(settings) = settings else { return Ok(()) };
        // Ids are hashed if the settings do not say that they may be kept.
        let options = read_settings(NAME, settings).unwrap_or_default();
        let compression = record.request.build.compression;
        let mut table = TableWriter::create_with(run.path(), Table::KvBlockLifecycle, compression)?;
        let told = ServerWords::read(run)?;
        let report = build_kv_blocks(&stream, &track_options(record, &options, &told)?, told.prompts, &mut table)?;
        table.finish()?;
        let (rows, basis) = (report.rows, Basis::Reported);
        collected.tables.push(BuiltTable { table: Table::KvBlockLifecycle, rows, basis, source: NAME });
        collected.losses.extend(losses(&report));
        collected.kv_blocks = Some(report);
        Ok(())
    }
}

/// What the server said to the driver that bears on its blocks.
#[derive(Default)]
struct ServerWords {
    kv_bytes_per_token: Option<u64>,
    /// Prompts of which it said how much it found.
    prompts: Vec<CachedPrompt>,
    /// Those of requests that have not ended.
    open: HashMap<u32, CachedPrompt>,
}

impl ServerWords {
    /// Reads the events of a run's engine.
    fn read(run: &RunDir) -> Result<Self, StoreError> {
        let (mut told, mut records) = (Self::default(), MergedRecords::open(run, 0)?);
        while let Some((_, frame)) = records.next_frame() {
            if frame.kind == Kind::Engine as u16
                && let Ok(event) = serde_json::from_slice(frame.payload)
            {
                told.hear(event, frame.time_ns);
            }
        }
        Ok(told)
    }

    fn hear(&mut self, event: EngineEvent, time_ns: u64) {
        match event {
            EngineEvent::Serving { server } => self.kv_bytes_per_token = server.kv_bytes_per_token,
            EngineEvent::PromptTokens { request, ids } => {
                let token_ids = ids.into_iter().map(i64::from).collect();
                self.open.insert(request, CachedPrompt { time_ns, token_ids, cached_tokens: 0 });
            }
            EngineEvent::RequestEnds { request, timings, .. } => {
                let known = self.open.remove(&request).zip(timings.cached_tokens);
                self.prompts.extend(known.map(|(prompt, cached_tokens)| CachedPrompt { cached_tokens, ..prompt }));
            }
            _ => {}
        }
    }
}

fn track_options(
    record: &RunRecord,
    options: &KvEventsOptions,
    told: &ServerWords,
) -> Result<TrackOptions, StoreError> {
    let no_salt = |error| StoreError::from_io("making a salt for token ids", Path::new("/dev/urandom"), error);
    let tokens = match options.keeps_token_ids {
        true => TokenPolicy::Keep,
        false => TokenPolicy::hash_with_random_salt().map_err(no_salt)?,
    };
    let kv_bytes_per_token = told.kv_bytes_per_token.or(record.request.job.server.kv_bytes_per_token);
    Ok(TrackOptions { clock: record.clock, kv_bytes_per_token, tokens })
}

/// A subscription; batches go into the raw stream as they come.
struct Listening {
    recorder: KvEventsRecorder,
}

impl Watching for Listening {
    fn poll(&mut self) -> Result<bool, CollectError> {
        self.recorder.flush()?;
        Ok(false)
    }

    /// What was lost on the way is seen from the stream itself.
    fn end(self: Box<Self>) -> Result<CollectorEnd, StoreError> {
        self.recorder.stop()?;
        Ok(CollectorEnd::default())
    }
}
