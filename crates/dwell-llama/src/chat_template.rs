//! Chat templates, filled as llama.cpp fills those that it recognises. No model is needed.

use std::ffi::{CStr, CString, c_char};

use llama_cpp_sys_2 as sys;

use crate::EngineError;

/// Characters of an unknown template that go into the error message.
const TEMPLATE_START_CHARACTERS: usize = 60;

/// A text as the message of a user in a model's chat template, with the beginning of the answer after it: what the embedded
/// engine computes for a prompt.
pub fn fill_chat_template(template: &str, text: &str) -> Result<String, EngineError> {
    let start = || EngineError::UnknownChatTemplate { start: start_of(template) };
    fill_template(&CString::new(template).map_err(|_| start())?, text)
}

pub(crate) fn fill_template(template: &CStr, text: &str) -> Result<String, EngineError> {
    let content = CString::new(text).map_err(|error| EngineError::PromptHoldsNul { offset: error.nul_position() })?;
    let message = sys::llama_chat_message { role: c"user".as_ptr(), content: content.as_ptr() };
    let mut wrapped = vec![0u8; text.len() * 2 + 256];
    loop {
        let capacity = i32::try_from(wrapped.len()).map_err(|_| EngineError::TextTooLong { bytes: text.len() })?;
        let start = wrapped.as_mut_ptr().cast::<c_char>();
        // SAFETY: template, role and content are NUL-terminated; the buffer is as long as said.
        let count =
            unsafe { sys::llama_chat_apply_template(template.as_ptr(), &raw const message, 1, true, start, capacity) };
        let Ok(count) = usize::try_from(count) else {
            return Err(EngineError::UnknownChatTemplate { start: start_of(&template.to_string_lossy()) });
        };
        if count <= wrapped.len() {
            wrapped.truncate(count);
            return Ok(String::from_utf8_lossy(&wrapped).into_owned());
        }
        wrapped.resize(count, 0);
    }
}

fn start_of(template: &str) -> String {
    template.chars().take(TEMPLATE_START_CHARACTERS).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn a_template_that_llama_cpp_knows_is_filled_without_a_model() {
        let template = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + \
                        '<|im_end|>' + '\\n'}}{% endfor %}";
        let expected = "<|im_start|>user\nHello\n you<|im_end|>\n<|im_start|>assistant\n";
        assert_eq!(fill_chat_template(template, "Hello\n you").unwrap(), expected);
        let long = "word ".repeat(1_000);
        assert!(fill_chat_template(template, &long).unwrap().contains(long.trim_end()));
    }

    #[test]
    fn any_other_template_is_refused_with_its_beginning() {
        let error = fill_chat_template("{{ nobody knows me }}", "Hello").unwrap_err();
        assert!(error.to_string().contains("nobody knows me"), "{error}");
        assert!(fill_chat_template("a\0b", "Hello").is_err());
    }
}
