//! A model in words.

use dwell_events::engine::LoadedModel;
use dwell_metadata::RunMetadata;

use crate::numbers::three_digits;

use super::{count, visible_in_line};

/// `SmolLM2-135M-Instruct, 135 M parameters, Q4_1`, from the name of its file or on its server.
///
/// The runtime's own description is not shown where the parameters are known: llama.cpp guesses the size class from the
/// number of layers and calls this model `llama 256M Q4_1`. Its last words, the type of the weights, are kept.
pub fn model_title(name: &str, model: &LoadedModel) -> String {
    if model.parameters == 0 {
        return if model.description.is_empty() { name.to_owned() } else { model.description.clone() };
    }
    let weights = model.description.splitn(3, ' ').nth(2).unwrap_or_default();
    let mut parts = vec![without_type(name, weights).to_owned(), parameters_text(model.parameters)];
    parts.extend((!weights.is_empty()).then(|| weights.to_owned()));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// The title of the model of a run.
pub fn model_title_of(run: &RunMetadata) -> String {
    let file = run.option_text("model").and_then(file_stem);
    let server = run.server.as_ref().and_then(|server| server.model_name.as_deref());
    let name = file.or(server).unwrap_or(&run.model_id);
    let title = run.model.as_ref().map_or_else(|| name.to_owned(), |model| model_title(name, model));
    visible_in_line(&title).into_owned()
}

fn file_stem(path: &str) -> Option<&str> {
    std::path::Path::new(path).file_stem()?.to_str()
}

/// The name without the type of the weights behind it, which is said apart.
fn without_type<'a>(name: &'a str, weights: &str) -> &'a str {
    let Some(start) = name.len().checked_sub(weights.len()).filter(|&start| name.is_char_boundary(start)) else {
        return name;
    };
    let (before, end) = name.split_at(start);
    let is_type = !weights.is_empty() && end.eq_ignore_ascii_case(weights) && before.ends_with(['.', '-', '_']);
    if is_type { before.trim_end_matches(['.', '-', '_']) } else { name }
}

fn parameters_text(parameters: u64) -> String {
    let (value, unit) = match parameters as f64 {
        value if value >= 999.5e6 => (value / 1e9, "B"),
        value if value >= 1e6 => (value / 1e6, "M"),
        _ => return format!("{} parameters", count(parameters)),
    };
    format!("{} {unit} parameters", three_digits(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(name: &str, description: &str, parameters: u64) -> String {
        model_title(name, &LoadedModel { description: description.to_owned(), parameters, ..LoadedModel::default() })
    }

    #[test]
    fn parameters_are_counted_and_the_type_is_said_once() {
        let smollm2 = title("SmolLM2-135M-Instruct.Q4_1", "llama 256M Q4_1", 134_515_008);
        assert_eq!(smollm2, "SmolLM2-135M-Instruct, 135 M parameters, Q4_1");
        let medium = title("llama-3-8b", "llama 8B Q4_K - Medium", 8_030_261_248);
        assert_eq!(medium, "llama-3-8b, 8.03 B parameters, Q4_K - Medium");
        assert_eq!(title("tiny-f16", "llama ?B F16", 98_304), "tiny, 98,304 parameters, F16");
    }

    #[test]
    fn a_server_that_counts_no_parameters_is_quoted() {
        assert_eq!(title("x", "meta/llama", 0), "meta/llama");
        assert_eq!(title("x", "", 0), "x");
    }
}
