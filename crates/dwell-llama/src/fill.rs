//! Prompts of an exact number of tokens.

use crate::EngineError;
use crate::tokenizer::Tokenizer;

/// Tokens of a prompt that has this many: the text's tokens are repeated, and the last repetition is cut.
///
/// `wrapped` is the text in its chat template, or the text itself. The model's first token and what the chat template puts around the text are there once and count.
pub(crate) fn filled(
    tokenizer: &Tokenizer<'_>,
    text: &str,
    wrapped: &str,
    is_start: bool,
    wanted: usize,
) -> Result<Vec<i32>, EngineError> {
    // Templates hold the text as it is or trimmed, so that it is always found.
    let (before, after) = wrapped.rsplit_once(text).or_else(|| wrapped.rsplit_once(text.trim())).unwrap_or_default();
    let mut tokens = tokenizer.tokenize(before, is_start)?;
    let body = tokenizer.tokenize(text, false)?;
    let end = tokenizer.tokenize(after, false)?;
    let around = tokens.len() + end.len();
    match wanted.checked_sub(around) {
        Some(room) if room > 0 && !body.is_empty() => {
            tokens.extend(body.iter().cycle().take(room));
            tokens.extend(end);
            Ok(tokens)
        }
        _ => Err(EngineError::FillTooShort { wanted, around, text: body.len() }),
    }
}
