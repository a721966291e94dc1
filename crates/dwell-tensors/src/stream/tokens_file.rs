//! The tokens of a capture beside its stream, for programs that want nothing else.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dwell_files::write_json_atomically;
use serde::Serialize;

use crate::{TensorsError, TokenMark};

#[derive(Serialize)]
struct TokensFile<'a> {
    total_tokens: usize,
    tokens: &'a [TokenMark],
    capture_duration_seconds: f64,
}

/// `X_tokens.json` for `X.tensors` and `X.stream`; any other name keeps its suffix.
pub fn tokens_path(stream: &Path) -> PathBuf {
    let is_ours = stream.extension().is_some_and(|suffix| suffix == "tensors" || suffix == "stream");
    let stem = if is_ours { stream.with_extension("") } else { stream.to_path_buf() };
    let mut name = stem.into_os_string();
    name.push("_tokens.json");
    PathBuf::from(name)
}

/// Writes the tokens, if there are any.
pub(crate) fn write(stream: &Path, tokens: &[TokenMark], duration: Duration) -> Result<(), TensorsError> {
    if tokens.is_empty() {
        return Ok(());
    }
    let content = TokensFile { total_tokens: tokens.len(), tokens, capture_duration_seconds: duration.as_secs_f64() };
    Ok(write_json_atomically(&tokens_path(stream), &content)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_tokens_is_never_the_stream() {
        let of = |stream: &str| tokens_path(Path::new(stream)).to_string_lossy().into_owned();
        assert_eq!(of("a/run.tensors"), "a/run_tokens.json");
        assert_eq!(of("run.stream"), "run_tokens.json");
        assert_eq!(of("run"), "run_tokens.json");
        assert_eq!(of("run.v2"), "run.v2_tokens.json");
        assert_eq!(of("run_tokens.json"), "run_tokens.json_tokens.json");
    }
}
