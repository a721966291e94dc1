//! What vLLM says besides what every server with the API of OpenAI says.

use dwell_events::server::ServerDescription;
use serde::Deserialize;

use crate::ServerError;
use crate::http::HttpClient;
use crate::openai::{Extras, ModelCard};
use crate::openai_config::{KvWidth, kv_bytes_per_token_of};
use crate::prometheus::{labels_of, parse_prometheus};

/// The figure whose labels are the settings of the cache.
const CACHE_SETTINGS: &str = "vllm:cache_config_info";

/// What vLLM says besides.
pub(crate) const EXTRAS: Extras = Extras { add_facts, ..Extras::NONE };

/// Adds version, settings of the cache, and what one token takes of it.
fn add_facts(client: &HttpClient, card: &ModelCard, facts: &mut ServerDescription) -> Result<(), ServerError> {
    #[derive(Deserialize)]
    struct Version {
        version: String,
    }
    facts.version = client.get_json::<Version>("/version").ok().map(|said| format!("vLLM {}", said.version));
    let settings = client.get_text("/metrics").ok().and_then(|page| {
        let figures = parse_prometheus(&page).ok()?;
        labels_of(&figures, CACHE_SETTINGS)
    });
    let width = settings.as_ref().and_then(|settings| settings.get("cache_dtype")).map(String::as_str);
    facts.kv_type_k = width.map(str::to_owned);
    facts.kv_type_v = width.map(str::to_owned);
    facts.kv_bytes_per_token =
        card.root.as_deref().and_then(|root| kv_bytes_per_token_of(root, KvWidth::named(width)?));
    for (name, value) in settings.unwrap_or_default() {
        facts.reported.insert(format!("cache_config.{name}"), value);
    }
    Ok(())
}
