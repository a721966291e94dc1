//! One file per command.

pub(crate) mod analyse;
pub(crate) mod model_info;
pub(crate) mod model_make;
pub(crate) mod model_pull;
pub(crate) mod recover;
pub(crate) mod run;
pub(crate) mod verify;

use anyhow::Context;
use serde::Serialize;

use crate::args::{DefinitionsArg, KvTypeArg, MetricsArgs};
use crate::output::print_result;
use dwell_analysis::{Definitions, Options, SuitabilityThresholds};
use dwell_events::engine::KvType;

impl MetricsArgs {
    /// What the arguments mean to the analysis.
    pub(crate) fn options(&self) -> Options {
        Options {
            definitions: match self.definitions {
                DefinitionsArg::Dwell => Definitions::Dwell,
                DefinitionsArg::MrmTrace => Definitions::MrmTrace,
            },
            thresholds: SuitabilityThresholds {
                high_write_once: self.high_write_once,
                high_retention_s: self.high_retention_secs,
                medium_write_once: self.medium_write_once,
                medium_retention_s: self.medium_retention_secs,
            },
            ..Options::default()
        }
    }
}

impl KvTypeArg {
    /// The type that the argument names.
    pub(crate) fn kv_type(self) -> KvType {
        match self {
            KvTypeArg::F16 => KvType::F16,
            KvTypeArg::Q8_0 => KvType::Q8_0,
            KvTypeArg::Q4_0 => KvType::Q4_0,
        }
    }
}

/// Prints a value as JSON on standard output.
pub(crate) fn print_json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value).context("writing JSON")?;
    print_result(&format!("{text}\n"))
}
