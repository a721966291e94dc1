//! Activations of a trained model that reads a text.

use std::io::Write;
use std::process::Command;

use anyhow::{Context, ensure};
use tempfile::{NamedTempFile, TempPath};

use crate::trial::dwell;

/// English that is long enough for a prompt of some 500 tokens.
const TEXT: &str = include_str!("../../../LICENSE-APACHE");
const TEXT_BYTES: usize = 2200;

/// A tensor stream that is removed with this value.
pub(crate) struct Activations {
    stream: TempPath,
}

impl Activations {
    pub(crate) fn path(&self) -> &std::path::Path {
        &self.stream
    }
}

/// Captures what the default model computes while it reads: every layer's residual, attention and MLP, and the logits.
pub(crate) fn capture() -> anyhow::Result<Activations> {
    let stream = NamedTempFile::with_suffix(".tensors").context("making a file for activations")?.into_temp_path();
    let mut prompt = NamedTempFile::new().context("making a file for the prompt")?;
    let text = TEXT.get(..TEXT_BYTES).context("cutting the text")?;
    prompt.write_all(text.as_bytes()).context("writing the prompt")?;
    let output = Command::new(dwell()?)
        .args(["capture", "--force", "--phase", "prompt", "--max-tokens", "1", "--all-positions", "--codec", "none"])
        .args(["--chat-template", "off", "--tensors", "residual,attention,mlp,logits", "--prompt-file"])
        .arg(prompt.path())
        .arg("--output")
        .arg(&stream)
        .output()
        .context("starting dwell")?;
    ensure!(output.status.success(), "dwell capture failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(Activations { stream })
}
