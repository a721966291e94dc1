//! `dwell model make`: a small model with random weights.

use std::process::ExitCode;

use dwell_files::staging_path;
use dwell_gguf::{MakeArchitecture, MakePlan, MakeSpec, Overwrite, WeightType, make_staged};

use crate::args::{ArchitectureArg, MakeArgs, WeightTypeArg};
use crate::interruption::Interruption;
use crate::messages::hinted;
use crate::new_output::check_file_in_folder;
use crate::output::{print_result, unprinted};
use crate::terminal::byte_bar;

pub(crate) fn run(args: &MakeArgs) -> anyhow::Result<ExitCode> {
    let plan = MakePlan::new(spec(args)).map_err(hinted)?;
    check_file_in_folder(&args.file, args.force)?;
    let staging = staging_path(&args.file);
    Interruption::listen()?.writing_begins(staging.clone());
    let overwrite = if args.force { Overwrite::Allow } else { Overwrite::Refuse };
    let bar = byte_bar("writing", plan.file_bytes());
    let made = make_staged(&plan, &args.file, &staging, overwrite, &mut |bytes| bar.set_position(bytes));
    bar.finish_and_clear();
    made.map_err(hinted)?;
    print_result(&format!("{}\n", args.file.display())).map_err(|error| unprinted(&error, &args.file))?;
    Ok(ExitCode::SUCCESS)
}

fn spec(args: &MakeArgs) -> MakeSpec {
    MakeSpec {
        architecture: match args.architecture {
            ArchitectureArg::Llama => MakeArchitecture::Llama,
            ArchitectureArg::Gemma3 => MakeArchitecture::Gemma3,
        },
        layers: args.layers,
        embedding: args.embedding,
        heads: args.heads,
        kv_heads: args.kv_heads,
        head_dim: args.head_size,
        feed_forward: args.feed_forward,
        vocabulary: args.vocabulary,
        context: args.context,
        experts: args.experts,
        experts_used: args.experts_used,
        tied_output: args.tied,
        weight_type: match args.weight_type {
            WeightTypeArg::F32 => WeightType::F32,
            WeightTypeArg::F16 => WeightType::F16,
            WeightTypeArg::Q8_0 => WeightType::Q8_0,
            WeightTypeArg::Q4_0 => WeightType::Q4_0,
            WeightTypeArg::Q4_1 => WeightType::Q4_1,
            WeightTypeArg::Q4K => WeightType::Q4_K,
        },
        window: args.window,
        seed: args.seed,
    }
}
