//! Arguments of `dwell import`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Subcommand)]
pub(crate) enum ImportCommand {
    /// KV cache events of vLLM or SGLang: lives of their KV blocks.
    KvEvents(ImportKvEventsArgs),
}

#[derive(Args)]
pub(crate) struct ImportKvEventsArgs {
    /// Recorded batches: kv_events.arrows of a run, payloads each behind its length in 4 bytes (big-endian), or one batch
    /// of JSON per line. Several files are taken as one recording, in this order.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Results directory.
    #[arg(short, long, value_name = "DIR", default_value = "results")]
    pub(crate) output: PathBuf,
    /// Name of the model that was served.
    #[arg(long, value_name = "NAME", default_value = "imported")]
    pub(crate) model_id: String,
    /// Name of the run. Default: the time and a random part.
    #[arg(long, value_name = "NAME")]
    pub(crate) run_id: Option<String>,
    /// Bytes of keys and values that one token takes in all layers; gives blocks their size.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) kv_bytes_per_token: Option<u64>,
    /// Keep the token ids of each block. Without, a salted hash of them is kept.
    #[arg(long)]
    pub(crate) keep_token_ids: bool,
    /// Salt of that hash, so that several imports can be compared. Default: random, and not kept.
    #[arg(long, value_name = "TEXT", conflicts_with = "keep_token_ids")]
    pub(crate) salt: Option<String>,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
