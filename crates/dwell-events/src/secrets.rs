//! Keys, tokens and passwords in command lines, which are recorded without them.
//!
//! The rule hides too much rather than too little: whatever follows an option that names a secret is one.

use serde_json::Value;

/// What stands for a secret.
const MASK: &str = "***";

/// Option of dwell whose value is a word of another program's command line.
const CARRIER: &str = "--server-arg";
/// The same with its value behind it.
const CARRIER_WITH_VALUE: &str = "--server-arg=";

/// Options and variables whose name ends with one of these words carry a secret.
const SECRET_WORDS: [&str; 15] = [
    "key",
    "apikey",
    "token",
    "apitoken",
    "password",
    "passwd",
    "pass",
    "pwd",
    "passphrase",
    "secret",
    "auth",
    "authorization",
    "bearer",
    "credential",
    "credentials",
];
/// Short options of llama.cpp and curl that carry a secret.
const SHORT_SECRETS: [&str; 2] = ["-hft", "-u"];
/// Headers whose value is a secret, in small letters.
const SECRET_HEADERS: [&str; 5] = ["authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"];
/// Words that end the names of signatures, which open what they sign.
const SIGNATURES: [&str; 3] = ["signature", "-sig", "_sig"];
/// Words that end names in which words are not separated: `accessToken`, `privateKey`.
const JOINED_SECRETS: [&str; 6] = ["apikey", "accesskey", "secretkey", "privatekey", "token", "secret"];
/// How keys of well-known services begin.
const KEY_BEGINNINGS: [&str; 6] = ["sk-", "hf_", "ghp_", "github_pat_", "glpat-", "xoxb-"];
/// Shorter words are no keys, however they begin.
const LEAST_KEY_CHARS: usize = 16;

/// The words of a command line without the keys, tokens and passwords in it.
pub fn without_secrets(words: &[String]) -> Vec<String> {
    let mut is_secret = false;
    let masked = |word: &String| match word.strip_prefix(CARRIER_WITH_VALUE) {
        _ if word == CARRIER => word.clone(),
        Some(carried) => format!("{CARRIER_WITH_VALUE}{}", without_secret(carried, &mut is_secret)),
        None => without_secret(word, &mut is_secret),
    };
    words.iter().map(masked).collect()
}

/// A word that may be a secret because of the one before it, and may make the next one a secret.
fn without_secret(word: &str, is_secret: &mut bool) -> String {
    let follows_its_name = std::mem::replace(is_secret, names_a_secret(word));
    if follows_its_name || is_key(word) {
        return MASK.to_owned();
    }
    let pair = |separator| word.split_once(separator);
    match (pair('='), pair(':')) {
        (Some((name, value)), _) if names_a_secret(name) || is_variable_of_a_secret(name) || is_key(value) => {
            format!("{name}={MASK}")
        }
        (Some((name, value)), _) if name.starts_with('-') => format!("{name}={}", without_parts(value)),
        (_, Some((name, _))) if is_secret_header(name) => format!("{name}: {MASK}"),
        _ => without_parts(word),
    }
}

/// A word without the secrets that it has inside: before the host and in the query of an address, in JSON, in a header.
fn without_parts(word: &str) -> String {
    if let Some(masked) = without_json_secrets(word) {
        return masked;
    }
    let Some((scheme, rest)) = word.split_once("://") else { return without_header(word) };
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(authority_end);
    let rest = without_query_secrets(rest);
    match authority.rfind('@') {
        Some(at) => format!("{scheme}://{MASK}{}{rest}", &authority[at..]),
        None => format!("{scheme}://{authority}{rest}"),
    }
}

/// The path, query and fragment of an address without the values of parameters that name a secret.
fn without_query_secrets(rest: &str) -> String {
    let Some((path, query)) = rest.split_once('?') else { return rest.to_owned() };
    let masked = query.split_inclusive(['&', ';', '#']).map(|pair| match pair.split_once('=') {
        Some((name, value)) if names_a_secret_value(name) || is_key(value) => {
            let end = pair.chars().last().filter(|last| "&;#".contains(*last));
            format!("{name}={MASK}{}", end.map_or_else(String::new, String::from))
        }
        _ => pair.to_owned(),
    });
    format!("{path}?{}", masked.collect::<String>())
}

/// JSON without the values of fields that name a secret; `None` if it is no JSON or has none.
fn without_json_secrets(word: &str) -> Option<String> {
    word.trim_start().starts_with(['{', '[']).then_some(())?;
    let mut value: Value = serde_json::from_str(word).ok()?;
    mask_fields(&mut value).then(|| value.to_string())
}

/// Masks the values of fields that name a secret; whether there were any.
fn mask_fields(value: &mut Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter_mut().fold(false, |any, (name, value)| {
            let is_secret = !value.is_null() && (names_a_secret_value(name) || is_secret_header(name));
            if is_secret {
                *value = Value::from(MASK);
            }
            is_secret | mask_fields(value) | any
        }),
        Value::Array(items) => items.iter_mut().fold(false, |any, item| mask_fields(item) | any),
        Value::String(text) if is_key(text) => {
            *text = MASK.to_owned();
            true
        }
        _ => false,
    }
}

/// Parameters of addresses and fields of JSON also sign with a word of their own, and join words without a sign.
fn names_a_secret_value(name: &str) -> bool {
    let small = name.to_ascii_lowercase();
    ends_with_a_secret_word(name)
        || SIGNATURES.iter().any(|word| small.ends_with(word))
        || JOINED_SECRETS.iter().any(|word| small.ends_with(word))
}

fn without_header(word: &str) -> String {
    match word.split_once(':') {
        Some((name, _)) if is_secret_header(name) => format!("{name}: {MASK}"),
        _ => word.to_owned(),
    }
}

fn names_a_secret(option: &str) -> bool {
    option.starts_with('-') && ends_with_a_secret_word(option) || SHORT_SECRETS.contains(&option)
}

/// Variables are set before a command: `env API_KEY=… program`.
fn is_variable_of_a_secret(name: &str) -> bool {
    let is_variable = !name.is_empty() && name.chars().all(|each| each.is_ascii_alphanumeric() || each == '_');
    is_variable && ends_with_a_secret_word(name)
}

fn ends_with_a_secret_word(name: &str) -> bool {
    let last = name.rsplit(['-', '_', '.']).next().unwrap_or_default().to_ascii_lowercase();
    SECRET_WORDS.contains(&last.as_str())
}

fn is_secret_header(name: &str) -> bool {
    SECRET_HEADERS.contains(&name.trim().to_ascii_lowercase().as_str())
}

fn is_key(word: &str) -> bool {
    word.chars().count() >= LEAST_KEY_CHARS && KEY_BEGINNINGS.iter().any(|beginning| word.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(words: &[&str]) -> Vec<String> {
        without_secrets(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    fn masked_text(text: &str) -> String {
        masked(&text.split(' ').collect::<Vec<_>>()).join(" ")
    }

    #[test]
    fn keys_are_masked_and_nothing_else_is() {
        for (given, kept) in [
            ("serve --api-key hush --max-tokens 64 --port 80", "serve --api-key *** --max-tokens 64 --port 80"),
            ("--hf-token=hush -hft hush -m m", "--hf-token=*** -hft *** -m m"),
            ("--apikey hush --auth hush --passwd hush", "--apikey *** --auth *** --passwd ***"),
            ("--api-key -hush --token --hush", "--api-key *** --token ***"),
            ("env VLLM_API_KEY=hush vllm --seed=1", "env VLLM_API_KEY=*** vllm --seed=1"),
            ("--auth --api-key hush", "--auth *** ***"),
            ("curl -u me:hush https://me:hush@host/v1", "curl -u *** https://***@host/v1"),
            ("--url=http://me:hush@host --ctx 8", "--url=http://***@host --ctx 8"),
            ("hf_0123456789abcdef --x sk-short", "*** --x sk-short"),
            ("http://host:80/a@b -t 2 tokens=5", "http://host:80/a@b -t 2 tokens=5"),
        ] {
            assert_eq!(masked_text(given), kept);
        }
    }

    #[test]
    fn keys_in_the_query_of_an_address_are_masked() {
        for (given, kept) in [
            ("http://h/v1?api_key=hush&x=1", "http://h/v1?api_key=***&x=1"),
            ("--url=https://me:hush@h/a?x=1&access_token=hush#top", "--url=https://***@h/a?x=1&access_token=***#top"),
            ("https://h/a?X-Amz-Signature=hush", "https://h/a?X-Amz-Signature=***"),
            ("https://h/a?accessToken=hush;b=2", "https://h/a?accessToken=***;b=2"),
            ("https://h/a?q=hf_0123456789abcdef", "https://h/a?q=***"),
            ("https://h/a?keys=5&tokens=8", "https://h/a?keys=5&tokens=8"),
        ] {
            assert_eq!(masked_text(given), kept);
        }
    }

    #[test]
    fn keys_in_json_are_masked_and_other_json_stays_as_it_is() {
        for (given, kept) in [
            (r#"{"api_key":"hush","n":1}"#, r#"{"api_key":"***","n":1}"#),
            (
                r#"--extra={"headers":[{"Authorization":"Bearer hush"}]}"#,
                r#"--extra={"headers":[{"Authorization":"***"}]}"#,
            ),
            (
                r#"{"a":"b=c","nested":{"clientSecret":1,"password":["hush"]}}"#,
                r#"{"a":"b=c","nested":{"clientSecret":"***","password":"***"}}"#,
            ),
            (r#"{ "max_tokens" : 8 }"#, r#"{ "max_tokens" : 8 }"#),
            (r#"{"token":null}"#, r#"{"token":null}"#),
        ] {
            assert_eq!(masked(&[given]), [kept]);
        }
    }

    #[test]
    fn headers_keep_their_name() {
        assert_eq!(masked(&["-H", "Authorization: Bearer hush"]), ["-H", "Authorization: ***"]);
        assert_eq!(masked(&["--header=X-API-Key: hush"]), ["--header=X-API-Key: ***"]);
        assert_eq!(masked(&["-H", "Accept: text/plain"]), ["-H", "Accept: text/plain"]);
    }

    #[test]
    fn keys_on_their_way_to_another_program_are_masked() {
        for (given, kept) in [
            ("--server-arg --api-key --server-arg hush -o x", "--server-arg --api-key --server-arg *** -o x"),
            ("--server-arg=--api-key --server-arg=hush -o x", "--server-arg=--api-key --server-arg=*** -o x"),
            ("--server-arg --api-key=hush -o x", "--server-arg --api-key=*** -o x"),
            ("--server-arg=--api-key=hush -o x", "--server-arg=--api-key=*** -o x"),
            ("--server-arg -ngl --server-arg 0", "--server-arg -ngl --server-arg 0"),
        ] {
            assert_eq!(masked_text(given), kept);
        }
    }
}
