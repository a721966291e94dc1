//! Paths tell the names of users and machines. In published metadata only the file name is left of them.

use serde_json::Value;

/// Folders that are the same on every machine.
const COMMON: [&str; 9] = ["/sys/", "/proc/", "/dev/", "/etc/", "/usr/", "/lib/", "/lib64/", "/bin/", "/opt/"];

/// What may stand before a path in a text.
const BEFORE_PATH: [char; 10] = [' ', '=', ':', ',', '"', '\'', '(', '[', '\t', '\n'];

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

/// The text with every absolute path shortened, and how many there were.
pub(super) fn shortened(text: &str) -> (String, usize) {
    let (option, value) = option_and_value(text);
    // All of it may be one path, with blanks in the names of its folders.
    if let Some(name) = file_name_of(value).filter(|_| !value.contains('\n')) {
        return (format!("{option}{name}"), 1);
    }
    let mut result = String::with_capacity(text.len());
    let mut count = 0;
    for piece in text.split_inclusive(BEFORE_PATH) {
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
    }
    (result, count)
}

/// `--model=` and what follows it, of an argument like that.
fn option_and_value(text: &str) -> (&str, &str) {
    match text.find('=').filter(|&at| text.starts_with("--") && !text[..at].contains(' ')) {
        Some(at) => text.split_at(at + 1),
        None => ("", text),
    }
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
    fn a_line_of_a_log_keeps_all_but_the_folders() {
        let line = "loaded meta data from /home/ann/my/m.gguf (version GGUF V3)\n";
        assert_eq!(shortened(line), ("loaded meta data from m.gguf (version GGUF V3)\n".to_owned(), 1));
        assert_eq!(shortened("/home/ann/run.sh: line 3: killed\n"), ("run.sh: line 3: killed\n".to_owned(), 1));
    }

    #[test]
    fn a_path_is_shortened_wherever_it_stands_and_other_text_stays() {
        let mut value = json!({
            "command_line": ["/home/ann/bin/dwell", "run", "--model=/home/Ann B/m.gguf", "-o", "~/out/", "1/2"],
            "options": {"model": "/home/Ann B/my models/m.gguf"},
            "failure": "opening \"/srv/secret/x.gguf\": no such file",
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
