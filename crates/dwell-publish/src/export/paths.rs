//! Paths tell the names of users and machines. In published metadata only the file name is left of them.

use serde_json::Value;

/// Folders that are the same on every machine.
const COMMON: [&str; 9] = ["/sys/", "/proc/", "/dev/", "/etc/", "/usr/", "/lib/", "/lib64/", "/bin/", "/opt/"];

/// What may stand before a path in a text.
const BEFORE_PATH: [char; 8] = [' ', '=', ':', ',', '"', '\'', '(', '\n'];

/// Shortens every absolute path in the texts of a JSON value to its file name; counts them. What the model was told to
/// do is left alone: it is data.
pub(super) fn shorten_paths(value: &mut Value) -> usize {
    match value {
        Value::String(text) => {
            let (shortened, count) = shortened(text);
            *text = shortened;
            count
        }
        Value::Array(items) => items.iter_mut().map(shorten_paths).sum(),
        Value::Object(fields) => {
            let fields = fields.iter_mut().filter(|(key, _)| *key != "actions");
            fields.map(|(_, value)| shorten_paths(value)).sum()
        }
        _ => 0,
    }
}

fn shortened(text: &str) -> (String, usize) {
    let mut result = String::with_capacity(text.len());
    let mut count = 0;
    let mut words = text.split_inclusive(BEFORE_PATH);
    words.by_ref().for_each(|piece| {
        let ending = piece.chars().last().filter(|last| BEFORE_PATH.contains(last));
        let word = ending.map_or(piece, |last| &piece[..piece.len() - last.len_utf8()]);
        match file_name_of(word) {
            Some(name) => {
                result.push_str(name);
                count += 1;
            }
            None => result.push_str(word),
        }
        result.extend(ending);
    });
    (result, count)
}

/// The file name of a path that may tell something; none for any other text.
fn file_name_of(word: &str) -> Option<&str> {
    let is_path = (word.starts_with('/') || word.starts_with("~/")) && !word.starts_with("//");
    let is_common = COMMON.iter().any(|folder| word.starts_with(folder));
    let name = word.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty());
    name.filter(|_| is_path && !is_common)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_is_shortened_wherever_it_stands_and_other_text_stays() {
        let mut value = json!({
            "command_line": ["/home/ann/bin/dwell", "run", "--model=/home/ann/m.gguf", "-o", "~/out/", "1/2"],
            "options": {"model": "/root/.cache/dwell/m.gguf"},
            "failure": "opening \"/work/secret/x.gguf\": no such file",
            "sensor": "/sys/class/thermal/thermal_zone0",
            "actions": [{"text": "What is in /home/ann/notes.txt?"}],
            "reference": "https://example.org/a/b",
        });
        assert_eq!(shorten_paths(&mut value), 5);
        assert_eq!(
            value,
            json!({
                "command_line": ["dwell", "run", "--model=m.gguf", "-o", "out", "1/2"],
                "options": {"model": "m.gguf"},
                "failure": "opening \"x.gguf\": no such file",
                "sensor": "/sys/class/thermal/thermal_zone0",
                "actions": [{"text": "What is in /home/ann/notes.txt?"}],
                "reference": "https://example.org/a/b",
            })
        );
    }
}
