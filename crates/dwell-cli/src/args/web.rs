//! Arguments of `dwell web`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use dwell_web::{Release, Runtime};

use super::one_of;

#[derive(Args)]
pub(crate) struct WebArgs {
    /// Model to offer, may be repeated: a GGUF file or the name of a known model for wllama, a folder for transformers.js or
    /// WebLLM. Default: the models in dwell's cache.
    #[arg(short, long = "model", value_name = "FILE|FOLDER|NAME")]
    pub(crate) models: Vec<PathBuf>,
    /// Runtime to offer, may be repeated. Default: those that the models need, and those in dwell's cache.
    #[arg(long = "runtime", value_name = "RUNTIME", value_parser = one_of(&Runtime::NAMES, Runtime::from_name))]
    pub(crate) runtimes: Vec<Runtime>,
    /// Version of WebLLM: a model's compiled library works with one series of versions alone.
    #[arg(
        long,
        value_name = "VERSION",
        default_value = Runtime::WebLlm.default_release().version(),
        value_parser = PossibleValuesParser::new(Release::versions(Runtime::WebLlm))
    )]
    pub(crate) webllm_version: String,
    /// Download the runtimes that are not in dwell's cache: 5.8 MB for wllama, 35.5 MB for transformers.js, 4.5 MB for WebLLM.
    #[arg(long)]
    pub(crate) fetch: bool,
    /// Port on 127.0.0.1. Default: any that is free.
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
    /// Print the address, and do not open it in the browser.
    #[arg(long)]
    pub(crate) no_open: bool,
}

impl WebArgs {
    /// The release of a runtime that is meant.
    pub(crate) fn release_of(&self, runtime: Runtime) -> &'static Release {
        let asked = Release::of(runtime, &self.webllm_version).filter(|_| runtime == Runtime::WebLlm);
        asked.unwrap_or_else(|| runtime.default_release())
    }
}
