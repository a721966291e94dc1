//! `dwell model info`: what a model file holds and needs.

use std::process::ExitCode;

use dwell_gguf::{GgufFile, InfoOptions, MemoryRequest, ModelInfo};

use crate::args::InfoArgs;
use crate::messages::hinted;
use crate::model_cache;

pub(crate) fn run(args: &InfoArgs) -> anyhow::Result<ExitCode> {
    let model = model_cache::resolve(Some(&args.file))?;
    let file = GgufFile::open(&model.path).map_err(hinted)?;
    let memory = MemoryRequest::new(args.context_length, args.kv_type.kv_type());
    let info = ModelInfo::new(&file, &InfoOptions { memory, list_tensors: args.tensors }).map_err(hinted)?;
    if args.json {
        super::print_json(&info)?;
    } else {
        print!("{info}");
    }
    Ok(ExitCode::SUCCESS)
}
