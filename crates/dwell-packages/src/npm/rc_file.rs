//! `.npmrc`: lines of `key = value`, with variables of the environment.

/// The options of a file in their order; a repeated one counts as it was said last, a list (`key[]`) as all of it.
pub(super) fn options_in(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';', '[']));
    let mut options: Vec<(String, String)> = Vec::new();
    for line in lines {
        let (key, value) = line.split_once('=').unwrap_or((line, "true"));
        let (key, value) = (expanded(key.trim(), variable), expanded(&unquoted(value.trim()), variable));
        match key.strip_suffix("[]") {
            Some(key) => match options.iter_mut().find(|(known, _)| known == key) {
                Some((_, list)) => *list = format!("{list}\n{value}"),
                None => options.push((key.to_owned(), value)),
            },
            None => options.push((key, value)),
        }
    }
    options
}

/// A value without its quotes, or up to a comment.
fn unquoted(value: &str) -> String {
    let quote = value.chars().next().filter(|letter| matches!(letter, '"' | '\''));
    let within = quote.and_then(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
    match (quote, within) {
        (Some('"'), Some(_)) => serde_json::from_str(value).unwrap_or_else(|_| value.to_owned()),
        (_, Some(within)) => within.to_owned(),
        _ => until_comment(value),
    }
}

fn until_comment(value: &str) -> String {
    let mut kept = String::new();
    let mut letters = value.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '#' | ';' => break,
            '\\' if letters.peek().is_some_and(|next| matches!(next, '#' | ';' | '\\')) => kept.extend(letters.next()),
            letter => kept.push(letter),
        }
    }
    kept.trim_end().to_owned()
}

/// With `${NAME}` replaced; as npm does, an unset variable stays as it is, and `${NAME?}` is then empty.
fn expanded(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> String {
    let Some((before, rest)) = text.split_once("${") else { return text.to_owned() };
    let Some((name, after)) = rest.split_once('}') else { return text.to_owned() };
    let value = match name.strip_suffix('?') {
        Some(name) => variable(name).unwrap_or_default(),
        None => variable(name).unwrap_or_else(|| format!("${{{name}}}")),
    };
    format!("{before}{value}{}", expanded(after, variable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_npm_reads_them() {
        let text = "; comment\n# too\n\nregistry = https://a.example/npm/ ; mirror\r\nstrict-ssl=false\noffline\n\
                    @my:registry=https://b.example\n//b.example/:_authToken=${TOKEN}x\nkept=${UNSET}|${UNSET?}|\n\
                    ca[]=\"one\\ntwo\"\nca[]='three'\nproxy=a\\;b\n[section]\n";
        let found = options_in(text, &|name| (name == "TOKEN").then(|| "secret".to_owned()));
        let found: Vec<(&str, &str)> = found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(
            found,
            [
                ("registry", "https://a.example/npm/"),
                ("strict-ssl", "false"),
                ("offline", "true"),
                ("@my:registry", "https://b.example"),
                ("//b.example/:_authToken", "secretx"),
                ("kept", "${UNSET}||"),
                ("ca", "one\ntwo\nthree"),
                ("proxy", "a;b"),
            ]
        );
    }
}
