//! A vocabulary with which llama.cpp can cut any text: one token per byte.

use std::io::{self, Write};

use crate::writer::HeaderWriter;
use crate::{MetadataValue, ValueType};

/// `<unk>`, `<s>`, `</s>`, the 256 bytes and the space.
pub(crate) const LEAST_VOCABULARY: u32 = 3 + 256 + 1;
/// Arrays that [`write_arrays`] writes.
pub(crate) const ARRAYS: u64 = 3;

const FIRST_BYTE: u32 = 3;
const SPACE: u32 = FIRST_BYTE + 256;

/// The keys besides the arrays.
pub(crate) fn values() -> Vec<(String, MetadataValue)> {
    let values = [
        ("model", MetadataValue::Text("llama".to_owned())),
        ("pre", MetadataValue::Text("default".to_owned())),
        ("unknown_token_id", MetadataValue::U32(0)),
        ("bos_token_id", MetadataValue::U32(1)),
        ("eos_token_id", MetadataValue::U32(2)),
        ("add_bos_token", MetadataValue::Bool(true)),
        ("add_eos_token", MetadataValue::Bool(false)),
        // Otherwise a text would get a space in front, and its tokens would not be its bytes.
        ("add_space_prefix", MetadataValue::Bool(false)),
    ];
    values.into_iter().map(|(key, value)| (format!("tokenizer.ggml.{key}"), value)).collect()
}

/// Texts, scores and types of the tokens, without ever holding all of them.
pub(crate) fn write_arrays<W: Write>(header: &mut HeaderWriter<W>, vocabulary: u32) -> io::Result<()> {
    let count = vocabulary.into();
    header.array("tokenizer.ggml.tokens", ValueType::Text, count)?;
    (0..vocabulary).try_for_each(|id| header.text(&text(id)))?;
    header.array("tokenizer.ggml.scores", ValueType::F32, count)?;
    (0..vocabulary).try_for_each(|id| header.bytes(&score(id).to_le_bytes()))?;
    header.array("tokenizer.ggml.token_type", ValueType::I32, count)?;
    (0..vocabulary).try_for_each(|id| header.bytes(&token_type(id).to_le_bytes()))
}

fn text(id: u32) -> String {
    match id {
        0 => "<unk>".to_owned(),
        1 => "<s>".to_owned(),
        2 => "</s>".to_owned(),
        FIRST_BYTE..SPACE => format!("<0x{:02X}>", id - FIRST_BYTE),
        // llama.cpp turns spaces into this character before it looks for tokens; as bytes it would be three.
        SPACE => "\u{2581}".to_owned(),
        // No prefix of these is a token, so no text is ever cut into them; they are only generated.
        filler => format!("\u{2581}w{filler}"),
    }
}

fn score(id: u32) -> f32 {
    if id <= SPACE { 0.0 } else { (SPACE as f32) - (id as f32) }
}

/// Numbers of `llama_token_type`.
fn token_type(id: u32) -> i32 {
    const NORMAL: i32 = 1;
    const UNKNOWN: i32 = 2;
    const CONTROL: i32 = 3;
    const BYTE: i32 = 6;
    match id {
        0 => UNKNOWN,
        1 | 2 => CONTROL,
        FIRST_BYTE..SPACE => BYTE,
        _ => NORMAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_texts_of_their_own() {
        let texts: std::collections::BTreeSet<_> = (0..2000).map(text).collect();
        assert_eq!(texts.len(), 2000);
    }

    #[test]
    fn bytes_are_written_as_llama_cpp_looks_for_them() {
        assert_eq!(text(FIRST_BYTE), "<0x00>");
        assert_eq!(text(FIRST_BYTE + 10), "<0x0A>");
        assert_eq!(text(FIRST_BYTE + 255), "<0xFF>");
        assert_eq!(text(LEAST_VOCABULARY - 1), "\u{2581}");
    }
}
