//! `dwell model tensors`: what llama.cpp wants of a model. The tests make models of many architectures from it.

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::messages::hinted;

pub(crate) fn run(metadata: &Path) -> anyhow::Result<ExitCode> {
    let wanted = dwell_worker::wanted_tensors(metadata).map_err(hinted)?;
    let tensors: Vec<Value> =
        wanted.iter().map(|tensor| json!({ "name": tensor.name, "dimensions": tensor.dimensions })).collect();
    super::print_json(&tensors)?;
    Ok(ExitCode::SUCCESS)
}
