//! `models` of mrm-trace.

use super::Translation;
use crate::values::Dtype;
use crate::yaml::{Node, Value};

/// What a model has to be converted with.
const CONVERT: &str = "convert the model with llama.cpp's convert_hf_to_gguf.py and give the file as `path`";

impl Translation<'_, '_> {
    pub(super) fn models(&mut self, models: &mut Node) {
        let Value::List(models) = &mut models.value else { return };
        for (index, model) in models.iter_mut().enumerate() {
            self.model(&format!("models[{index}]"), model);
        }
    }

    fn model(&mut self, prefix: &str, model: &mut Node) {
        for key in ["path", "hf_repo", "family", "params_billions", "quantisation"] {
            model.take_if_blank(key);
        }
        self.engine(prefix, model);
        if let Some(entry) = model.take("hf_repo") {
            let needed = "a GGUF file as `path`: llama_cpp reads nothing else";
            self.refuse(&format!("{prefix}.hf_repo"), &entry.node, needed).hint = Some(CONVERT.to_owned());
        }
        self.params(prefix, model);
        let why = [
            ("family", "mrm-trace takes any text; here it would be checked against the file's architecture"),
            ("dtype", "mrm-trace does not use it for llamacpp; the file has the types of its matrices"),
        ];
        self.drop_keys(model, prefix, &why);
        self.quantisation(prefix, model);
    }

    fn engine(&mut self, prefix: &str, model: &mut Node) {
        let key = format!("{prefix}.engine");
        let Some(engine) = model.group_mut("engine") else { return };
        if engine.text() == Some("vllm") {
            let needed = "llamacpp or llama_cpp: here vllm is a server, with keys of its own under models[].server";
            self.refuse(&key, engine, needed).hint = Some(CONVERT.to_owned());
            engine.value = Value::Text("llama_cpp".to_owned());
        }
        self.replace(&key, engine, &[("llamacpp", "llama_cpp")]);
    }

    fn params(&mut self, prefix: &str, model: &mut Node) {
        let Some(entry) = model.take("params_billions") else { return };
        let key = format!("{prefix}.params_billions");
        let billions = match entry.node.value {
            Value::Integer(billions) => billions as f64,
            Value::Number(billions) => billions,
            _ => f64::NAN,
        };
        if !(1e-9..=1e6).contains(&billions) {
            self.refuse(&key, &entry.node, "a number of billions, such as 0.135");
            return;
        }
        let params = (billions * 1e9).round() as i128;
        self.note(&key, entry.place, format!("became {prefix}.params {params}, checked against the file within 5 %"));
        model.put("params", entry.place, Node { place: entry.node.place, value: Value::Integer(params) });
    }

    /// Names of whole files, such as Q4_K_M, become that of their most common matrix type.
    fn quantisation(&mut self, prefix: &str, model: &mut Node) {
        let Some(entry) = model.take("quantisation") else { return };
        let Some(text) = entry.node.text() else { return model.put("quantisation", entry.place, entry.node) };
        let lower = text.to_lowercase();
        let matrix_type = ["_k_s", "_k_m", "_k_l"]
            .iter()
            .find_map(|ending| lower.strip_suffix(ending))
            .map_or(lower.clone(), |bits| format!("{bits}_k"));
        let new_key = if Dtype::NAMES.contains(&lower.as_str()) { "dtype" } else { "quantisation" };
        if text != matrix_type || new_key == "dtype" {
            let became = format!("{text} became {prefix}.{new_key} {matrix_type}, checked against the file");
            self.note(&format!("{prefix}.quantisation"), entry.place, became);
        }
        model.put(new_key, entry.place, Node { place: entry.node.place, value: Value::Text(matrix_type) });
    }
}
