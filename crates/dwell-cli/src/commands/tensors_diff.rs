//! `dwell tensors diff`: whether two streams hold the same tensors.

use std::process::ExitCode;

use dwell_report::text::{count, counted};
use dwell_tensors::{DiffReport, TensorDiff, TensorKey, diff};

use super::tensors;
use crate::args::TensorsDiffArgs;
use crate::messages::{EXIT_WITH_LOSS, hinted};
use crate::output::print_result;

pub(crate) fn run(args: &TensorsDiffArgs) -> anyhow::Result<ExitCode> {
    let (first, second) = (tensors::open(&args.first)?, tensors::open(&args.second)?);
    let report = diff(&first, &second, args.tolerance).map_err(hinted)?;
    if args.json {
        super::print_json(&report)?;
    } else {
        print_result(&report_text(&report))?;
    }
    let code = tensors::exit_code(&[&first, &second]);
    Ok(if report.is_same() { code } else { ExitCode::from(EXIT_WITH_LOSS) })
}

fn report_text(report: &DiffReport) -> String {
    let mut text = String::new();
    for tensor in &report.different {
        text.push_str(&format!("different  {}: {}\n", key_text(&tensor.key), difference_text(tensor)));
    }
    let lists = [("first only", &report.only_in_first), ("second only", &report.only_in_second)];
    for (what, keys) in lists {
        keys.iter().for_each(|key| text.push_str(&format!("{what:<11} {}\n", key_text(key))));
    }
    text.push_str(&format!(
        "{} compared: {} equal, {} within the tolerance, {} different; largest difference {:.2e}\n",
        counted(report.compared, "tensor"),
        count(report.equal),
        count(report.within_tolerance),
        count(report.different.len() as u64),
        report.max_abs_diff,
    ));
    text
}

fn key_text(key: &TensorKey) -> String {
    let token = key.token_index.map_or_else(String::new, |index| format!(" token {index}"));
    let occurrence = if key.occurrence == 0 { String::new() } else { format!(" no. {}", key.occurrence + 1) };
    format!("{} step {}{token}{occurrence}", key.name, key.step)
}

fn difference_text(tensor: &TensorDiff) -> String {
    match (&tensor.reason, tensor.max_abs_diff, tensor.mse) {
        (Some(reason), ..) => reason.clone(),
        (None, Some(largest), Some(mse)) => format!("by {largest:.2e} at most, MSE {mse:.2e}"),
        _ => "not comparable".to_owned(),
    }
}
