//! `dwell model info`: what a model file holds and needs.

use std::process::ExitCode;

use dwell_gguf::{InfoOptions, MemoryRequest, ModelInfo};

use crate::args::InfoArgs;
use crate::messages::hinted;
use crate::output::print_result;
use crate::{model_cache, model_file};

pub(crate) fn run(args: &InfoArgs) -> anyhow::Result<ExitCode> {
    let model = model_cache::resolve(Some(&args.file))?;
    let file = model_file::open(&model.path)?;
    let memory = MemoryRequest::new(args.context_length, args.kv_type);
    let info = ModelInfo::new(&file, &InfoOptions { memory, list_tensors: args.tensors }).map_err(hinted)?;
    if args.json {
        super::print_json(&info)?;
    } else {
        print_result(&info.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}
