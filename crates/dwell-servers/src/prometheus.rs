//! The text format of Prometheus: one figure per line, with labels.

use std::collections::BTreeMap;

use crate::ServerError;
use crate::http::{HttpClient, HttpError};

/// Where servers publish their figures.
const PATH: &str = "/metrics";

/// Most figures that are taken from one page; a server has some hundreds.
const MOST_FIGURES: usize = 50_000;

/// Endings of the names of figures that say nothing over time and are many: the steps of histograms, times of creation.
const LEFT_OUT_ENDINGS: [&str; 2] = ["_bucket", "_created"];

/// Why a page of figures could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrometheusError {
    /// A line is none of the format.
    #[error("reading line {line} of a page of figures found {found}, and {needed} was needed")]
    Malformed {
        /// Number of the line, from 1.
        line: usize,
        /// What was found.
        found: String,
        /// What was needed.
        needed: &'static str,
    },
    /// The page is larger than any page should be.
    #[error("reading a page of figures found more than {MOST_FIGURES} of them")]
    TooMany,
}

/// All figures of a page by name and labels, as they are written: `name` or `name{label="value",…}`.
pub fn parse_prometheus(text: &str) -> Result<BTreeMap<String, f64>, PrometheusError> {
    let mut figures = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let malformed = |(found, needed): Fault| PrometheusError::Malformed {
            line: index + 1,
            found: format!("{found:?}"),
            needed,
        };
        let (name, value) = figure(line).map_err(malformed)?;
        if figures.insert(name, value).is_some() {
            return Err(malformed((line.to_owned(), "each figure once")));
        }
        if figures.len() > MOST_FIGURES {
            return Err(PrometheusError::TooMany);
        }
    }
    Ok(figures)
}

/// The figures that a server publishes now, without those that say nothing over time; `None` if it publishes none.
pub(crate) fn published(client: &HttpClient) -> Result<Option<BTreeMap<String, f64>>, ServerError> {
    match client.get_text(PATH) {
        Ok(page) => Ok(Some(figures_over_time(parse_prometheus(&page)?))),
        // Servers publish only if they were told to.
        Err(HttpError::Status { status: 404 | 501, .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The figures that are worth keeping over time: numbers, without the steps of histograms.
pub(crate) fn figures_over_time(figures: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let is_kept = |name: &str| {
        let bare = name.split('{').next().unwrap_or(name);
        !LEFT_OUT_ENDINGS.iter().any(|ending| bare.ends_with(ending))
    };
    figures.into_iter().filter(|(name, value)| value.is_finite() && is_kept(name)).collect()
}

/// The labels of the first figure with this name.
pub(crate) fn labels_of(figures: &BTreeMap<String, f64>, name: &str) -> Option<BTreeMap<String, String>> {
    let with_labels = format!("{name}{{");
    let key = figures.keys().find(|key| key.starts_with(&with_labels))?;
    let inside = key.strip_prefix(&with_labels)?.strip_suffix('}')?;
    let (mut labels, mut rest) = (BTreeMap::new(), inside);
    while !rest.is_empty() {
        let (label, value, after) = label(rest).ok()?;
        labels.insert(label.to_owned(), unescaped(value));
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    Some(labels)
}

/// What was found, and what was needed.
type Fault = (String, &'static str);

fn figure(line: &str) -> Result<(String, f64), Fault> {
    let name_end = line.find(|character: char| !is_name(character)).unwrap_or(line.len());
    let (name, rest) = line.split_at(name_end);
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return Err((beginning(line), "the name of a figure"));
    }
    let rest = rest.trim_start();
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => labels(inside)?,
        None => (String::new(), rest),
    };
    let mut words = rest.split_whitespace();
    let word = words.next().unwrap_or_default();
    let value = word.parse().map_err(|_| (beginning(word), "a number"))?;
    // A time in milliseconds and an example of the figure may follow.
    match words.next() {
        None | Some("#") => {}
        Some(time) if time.parse::<f64>().is_ok() => {}
        Some(other) => return Err((beginning(other), "a time or the end of the line")),
    }
    Ok((format!("{name}{labels}"), value))
}

/// The labels up to the closing brace, in braces and without spaces between them, and what follows.
fn labels(inside: &str) -> Result<(String, &str), Fault> {
    let (mut written, mut rest) = (Vec::new(), inside.trim_start());
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            let labels = if written.is_empty() { String::new() } else { format!("{{{}}}", written.join(",")) };
            return Ok((labels, after));
        }
        let (name, value, after) = label(rest)?;
        written.push(format!("{name}=\"{value}\""));
        let after = after.trim_start();
        rest = match after.strip_prefix(',') {
            Some(after) => after.trim_start(),
            None if after.starts_with('}') => after,
            None => return Err((beginning(after), "a comma or a closing brace")),
        };
    }
}

/// `name="value"`, the value still escaped, and what follows.
fn label(text: &str) -> Result<(&str, &str, &str), Fault> {
    let needed = "a label with its value";
    let (name, rest) = text.split_once('=').ok_or_else(|| (beginning(text), needed))?;
    let (name, rest) = (name.trim(), rest.trim_start());
    let value = rest.strip_prefix('"').ok_or_else(|| (beginning(rest), needed))?;
    if name.is_empty() || !name.chars().all(is_name) {
        return Err((beginning(name), "the name of a label"));
    }
    let mut is_escaped = false;
    let end = value.find(|character| {
        let is_end = character == '"' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        is_end
    });
    let end = end.ok_or_else(|| (beginning(value), "a closing quotation mark"))?;
    Ok((name, &value[..end], &value[end + 1..]))
}

fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_' || character == ':'
}

fn unescaped(value: &str) -> String {
    let (mut text, mut characters) = (String::new(), value.chars());
    while let Some(character) = characters.next() {
        match (character, character == '\\') {
            (_, true) => match characters.next() {
                Some('n') => text.push('\n'),
                Some(escaped) => text.push(escaped),
                None => text.push('\\'),
            },
            (plain, false) => text.push(plain),
        }
    }
    text
}

fn beginning(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn figures_labels_times_and_examples_are_read() {
        let page = "# HELP http_requests_total The total.\n# TYPE http_requests_total counter\n\
            http_requests_total{method=\"post\",code=\"200\"} 1027 1395066363000\n\
            http_requests_total { method = \"get\" , code=\"400\", } 3\r\n\
            \n   # a comment\nplain 1.5e-3\nrpc{le=\"0.1\"} 4 # {trace_id=\"a\"} 0.09 1520879607.789\n\
            empty{} -7\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.25\n# EOF\n";
        let figures = parse_prometheus(page).unwrap();
        let expected = [
            ("empty", -7.0),
            ("http_requests_total{method=\"get\",code=\"400\"}", 3.0),
            ("http_requests_total{method=\"post\",code=\"200\"}", 1027.0),
            ("plain", 1.5e-3),
            ("rpc{le=\"0.1\"}", 4.0),
            ("vllm:kv_cache_usage_perc{engine=\"0\"}", 0.25),
        ];
        assert_eq!(figures, expected.map(|(name, value)| (name.to_owned(), value)).into());
    }

    #[test]
    fn values_that_are_no_numbers_are_read_and_not_kept_over_time() {
        let figures = parse_prometheus("a NaN\nb +Inf\nc -Inf\nd 1\nd_bucket{le=\"1\"} 1\nd_created 9\n").unwrap();
        assert!(figures["a"].is_nan() && figures["b"] == f64::INFINITY && figures["c"] == f64::NEG_INFINITY);
        assert_eq!(figures_over_time(figures).into_keys().collect::<Vec<_>>(), ["d"]);
    }

    #[test]
    fn labels_are_found_again_without_their_escapes() {
        let page = r#"path{file="C:\\D\"x\"",note="two\nlines",tail="a}b,c"} 1"#;
        let labels = labels_of(&parse_prometheus(page).unwrap(), "path").unwrap();
        assert_eq!(labels["file"], r#"C:\D"x""#);
        assert_eq!(labels["note"], "two\nlines");
        assert_eq!(labels["tail"], "a}b,c");
        assert_eq!(labels_of(&parse_prometheus(page).unwrap(), "pat"), None);
    }

    #[test]
    fn what_is_no_figure_is_refused_with_its_line() {
        for (line, message) in [
            ("<html>", "reading line 2 of a page of figures found \"<html>\", and the name of a figure was needed"),
            ("9lives 1", "reading line 2 of a page of figures found \"9lives 1\", and the name of a figure was needed"),
            ("a one", "reading line 2 of a page of figures found \"one\", and a number was needed"),
            ("a", "reading line 2 of a page of figures found \"\", and a number was needed"),
            ("a{b} 1", "reading line 2 of a page of figures found \"b} 1\", and a label with its value was needed"),
            (
                "a{b=\"x} 1",
                "reading line 2 of a page of figures found \"x} 1\", and a closing quotation mark was needed",
            ),
            ("a{b=\"x\" c=\"y\"} 1", "found \"c=\\\"y\\\"} 1\", and a comma or a closing brace was needed"),
            ("a 1 soon", "found \"soon\", and a time or the end of the line was needed"),
            ("ok 2", "found \"ok 2\", and each figure once was needed"),
        ] {
            let error = parse_prometheus(&format!("ok 1\n{line}\n")).unwrap_err().to_string();
            assert!(error.contains(message), "{line}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z{}=\",\\\\ \n#0-9.+NaIf]{0,80}") {
            let _ = parse_prometheus(&text);
        }

        #[test]
        fn what_is_written_is_read(value in any::<f64>(), label in "[^\\\\\"\n\r]{0,12}") {
            let figures = parse_prometheus(&format!("name{{label=\"{label}\"}} {value:e}")).unwrap();
            let read = figures[&format!("name{{label=\"{label}\"}}")];
            prop_assert!(read == value || (read.is_nan() && value.is_nan()));
        }
    }
}
