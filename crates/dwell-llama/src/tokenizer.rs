//! From text to tokens and back.

use std::ffi::c_char;

use llama_cpp_sys_2 as sys;

use crate::EngineError;
use crate::chat_template::fill_template;
use crate::coverage::Coverage;
use crate::model::Model;
use crate::utf8::Utf8Assembler;

/// llama.cpp's LLAMA_TOKEN_NULL.
const NO_TOKEN: i32 = -1;

/// Cuts text into the tokens of a model and tells their texts.
#[derive(Debug)]
pub(crate) struct Tokenizer<'model> {
    model: &'model Model,
    coverage: Option<Coverage>,
}

impl<'model> Tokenizer<'model> {
    pub(crate) fn new(model: &'model Model) -> Tokenizer<'model> {
        Tokenizer { model, coverage: Coverage::of(model) }
    }

    /// Cuts a text into tokens. At the start of a sequence the model's first token is put in front, if it wants
    /// one and the text does not begin with it.
    pub(crate) fn tokenize(&self, text: &str, is_start: bool) -> Result<Vec<i32>, EngineError> {
        if let Some(coverage) = &self.coverage {
            coverage.check(text)?;
        }
        let mut tokens = self.tokenize_plain(text)?;
        if let Some(first) = self.first_token()
            && is_start
            && tokens.first() != Some(&first)
        {
            tokens.insert(0, first);
        }
        Ok(tokens)
    }

    fn tokenize_plain(&self, text: &str) -> Result<Vec<i32>, EngineError> {
        let too_long = || EngineError::TextTooLong { bytes: text.len() };
        let text_bytes = i32::try_from(text.len()).map_err(|_| too_long())?;
        let mut tokens = vec![0; text.len() + 1];
        loop {
            let capacity = i32::try_from(tokens.len()).map_err(|_| too_long())?;
            // SAFETY: text and tokens are as long as said. Special tokens are not added by llama.cpp: it aborts
            // where the model wants one that it does not define.
            let count = unsafe {
                sys::llama_tokenize(
                    self.model.vocabulary(),
                    text.as_ptr().cast(),
                    text_bytes,
                    tokens.as_mut_ptr(),
                    capacity,
                    false,
                    true,
                )
            };
            match usize::try_from(count) {
                Ok(count) => {
                    tokens.truncate(count);
                    return Ok(tokens);
                }
                // A negative count is the room that is needed; the most negative one means that it overflowed.
                Err(_) if count == i32::MIN => return Err(too_long()),
                Err(_) => tokens.resize(count.unsigned_abs() as usize, 0),
            }
        }
    }

    /// The token that the model wants at the beginning of a text.
    pub(crate) fn first_token(&self) -> Option<i32> {
        let vocabulary = self.model.vocabulary();
        // SAFETY: the vocabulary belongs to the loaded model.
        let (is_wanted, token) =
            unsafe { (sys::llama_vocab_get_add_bos(vocabulary), sys::llama_vocab_bos(vocabulary)) };
        (is_wanted && token != NO_TOKEN).then_some(token)
    }

    /// Whether a token says that the text is at its end.
    pub(crate) fn is_end(&self, token: i32) -> bool {
        // SAFETY: the vocabulary belongs to the loaded model; llama.cpp looks the token up.
        unsafe { sys::llama_vocab_is_eog(self.model.vocabulary(), token) }
    }

    /// Bytes of a token, not necessarily whole characters. Special tokens have a text too.
    pub(crate) fn piece(&self, token: i32) -> Vec<u8> {
        let mut bytes = vec![0u8; 32];
        loop {
            let capacity = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
            let start = bytes.as_mut_ptr().cast::<c_char>();
            // SAFETY: the buffer is as long as said; the token is one of the vocabulary.
            let count = unsafe { sys::llama_token_to_piece(self.model.vocabulary(), token, start, capacity, 0, true) };
            match usize::try_from(count) {
                Ok(count) => {
                    bytes.truncate(count);
                    return bytes;
                }
                Err(_) => bytes.resize(count.unsigned_abs() as usize, 0),
            }
        }
    }

    /// Tokens with their texts; a character that several tokens make up comes with the last of them.
    pub(crate) fn with_texts(&self, tokens: &[i32]) -> Vec<(i32, String)> {
        let mut assembler = Utf8Assembler::default();
        let mut texts: Vec<_> = tokens.iter().map(|&id| (id, assembler.push(&self.piece(id)))).collect();
        if let Some((_, text)) = texts.last_mut() {
            text.push_str(&assembler.finish());
        }
        texts
    }

    /// Wraps a text as the message of a user, with the beginning of the answer after it.
    pub(crate) fn wrap_in_chat_template(&self, text: &str) -> Result<String, EngineError> {
        fill_template(self.model.chat_template().ok_or(EngineError::NoChatTemplate)?, text)
    }
}
