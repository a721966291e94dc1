//! How `ollama serve` is started.

use std::ffi::OsString;

use dwell_events::engine::EngineOptions;
use dwell_events::server::ServerOptions;

use super::ENGINE;
use super::question::context_per_sequence;
use crate::ServerError;
use crate::program::{ProgramCommand, find_program};

/// The command of a server that listens on this port of this machine. Its settings are variables.
pub(super) fn command(
    server: &ServerOptions,
    options: &EngineOptions,
    port: u16,
) -> Result<ProgramCommand, ServerError> {
    let variables = [
        ("OLLAMA_HOST", format!("127.0.0.1:{port}")),
        ("OLLAMA_KV_CACHE_TYPE", options.kv_type_k.name().to_owned()),
        ("OLLAMA_FLASH_ATTENTION", u8::from(options.flash_attention).to_string()),
        ("OLLAMA_CONTEXT_LENGTH", context_per_sequence(options).to_string()),
        ("OLLAMA_NUM_PARALLEL", options.parallel.to_string()),
        // The model stays until the run ends.
        ("OLLAMA_KEEP_ALIVE", "-1".to_owned()),
        // Nothing is sent anywhere, and what the user has stored is left alone.
        ("OLLAMA_NO_CLOUD", "1".to_owned()),
        ("OLLAMA_NOPRUNE", "1".to_owned()),
    ];
    let arguments = ["serve"].into_iter().chain(server.arguments.iter().map(String::as_str));
    Ok(ProgramCommand {
        engine: ENGINE,
        program: find_program(ENGINE, server.program.as_deref())?,
        arguments: arguments.map(OsString::from).collect(),
        environment: variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
    })
}
