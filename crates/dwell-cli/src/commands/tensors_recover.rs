//! `dwell tensors recover`: ends a stream whose writer was stopped.

use std::process::ExitCode;

use dwell_report::text::{bytes, counted};
use dwell_tensors::{Recovered, recover};

use crate::args::TensorsFileArgs;
use crate::messages::hinted;
use crate::output::print_result;

pub(crate) fn run(args: &TensorsFileArgs) -> anyhow::Result<ExitCode> {
    let recovered = recover(&args.file).map_err(hinted)?;
    if args.json {
        super::print_json(&recovered)?;
    } else {
        print_result(&recovered_text(&recovered))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn recovered_text(recovered: &Recovered) -> String {
    let content = format!(
        "{} and {} in {}",
        counted(recovered.packets, "tensor"),
        counted(recovered.tokens, "token"),
        if recovered.batches == 1 { "1 batch".to_owned() } else { format!("{} batches", recovered.batches) },
    );
    if recovered.was_finished {
        return format!("nothing to do: {content}\n");
    }
    let mut text = format!("{content}\n");
    if let Some(reason) = &recovered.reason {
        text.push_str(&format!("was       {reason}\n"));
    }
    if recovered.untold_packets > 0 {
        let untold = counted(recovered.untold_packets, "tensor");
        text.push_str(&format!("missing   {untold} that were dropped, of names that were not told in time\n"));
    }
    if let Some(tail) = &recovered.tail {
        text.push_str(&format!("cut off   {}, kept in {}\n", bytes(recovered.cut_bytes), tail.display()));
    }
    if let Some(tokens) = &recovered.tokens_file {
        text.push_str(&format!("tokens    {}\n", tokens.display()));
    }
    text
}
