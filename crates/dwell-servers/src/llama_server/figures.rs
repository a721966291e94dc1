//! Figures that the server publishes: `/metrics`, and the state of each slot.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::prometheus::parse_prometheus;
use crate::{HttpClient, HttpError, ServerError};

/// All figures; `None` if the server was started without the options that make it publish any.
pub(super) fn figures(http: &HttpClient) -> Result<Option<BTreeMap<String, f64>>, ServerError> {
    let mut figures = BTreeMap::new();
    if let Some(text) = offered(http.get_text("/metrics"))? {
        figures.extend(parse_prometheus(&text)?);
    }
    if let Some(slots) = offered(http.get_json::<Value>("/slots"))? {
        figures.extend(slot_figures(&slots));
    }
    Ok((!figures.is_empty()).then_some(figures))
}

/// An address that was not enabled is refused with 501, one that a version does not have with 404.
fn offered<T>(answer: Result<T, HttpError>) -> Result<Option<T>, HttpError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.status(), Some(404 | 501)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The numbers of each slot under the server's names for them, such as `slots:n_decoded{id="0"}`.
fn slot_figures(slots: &Value) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    for slot in slots.as_array().into_iter().flatten() {
        let Some(id) = slot.get("id").and_then(Value::as_u64) else { continue };
        // What concerns the answer under way is one level down, in newer versions in a list of one.
        let next_token = slot.get("next_token").map(|next| next.get(0).unwrap_or(next));
        let fields = [Some(slot), next_token].into_iter().flatten().filter_map(Value::as_object).flatten();
        let numbers = fields.filter_map(|(name, value)| Some((name, number(value)?))).filter(|(name, _)| *name != "id");
        figures.extend(numbers.map(|(name, number)| (format!("slots:{name}{{id=\"{id}\"}}"), number)));
    }
    figures
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_bool().map(|is_so| f64::from(u8::from(is_so))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What 0.7.0 says while its first slot generates, without the parameters.
    #[test]
    fn the_numbers_of_each_slot_are_taken() {
        let slots = json!([
            { "id": 0, "n_ctx": 512, "is_processing": true, "n_prompt_tokens": 61, "n_prompt_tokens_cache": 0,
              "params": { "seed": 7 }, "next_token": [{ "has_next_token": true, "n_remain": 42, "n_decoded": 58 }] },
            { "id": 1, "n_ctx": 512, "is_processing": false },
        ]);
        let found = slot_figures(&slots);
        assert_eq!(found["slots:n_prompt_tokens{id=\"0\"}"], 61.0);
        assert_eq!(found["slots:n_decoded{id=\"0\"}"], 58.0);
        assert_eq!((found["slots:is_processing{id=\"0\"}"], found["slots:is_processing{id=\"1\"}"]), (1.0, 0.0));
        assert!(!found.keys().any(|name| name.contains("seed") || name.contains("slots:id")), "{found:?}");
    }
}
