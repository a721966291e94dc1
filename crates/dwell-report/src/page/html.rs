//! One file with the viewer and what it shows: no network, nothing executed but the viewer.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use super::Page;

/// The viewer, built from `viewer/`.
const SCRIPT: &str = include_str!("../../../../viewer/dist/report.js");
const STYLE: &str = include_str!("../../../../viewer/dist/report.css");

/// The page as one file.
pub fn report_html(page: &Page) -> String {
    let json = serde_json::to_string(page).unwrap_or_default();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main id=\"dwell\"></main>\n\
         <noscript>This report is drawn by the script that it holds; the numbers are in metrics.csv beside it.</noscript>\n\
         <script type=\"application/json\" id=\"page\">{}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        policy(),
        escaped(page.title()),
        inert(&json),
    )
}

/// Only the viewer runs and styles; images come from the page itself.
fn policy() -> String {
    format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data: blob:; base-uri 'none'; form-action 'none'",
        hash_source(SCRIPT),
        hash_source(STYLE)
    )
}

fn hash_source(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text.as_bytes())))
}

/// Text that markup cannot begin in.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// JSON in which no tag can begin or end: all texts of a run are in it, whoever wrote them.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_run_can_end_the_data_or_begin_a_script() {
        let hostile = serde_json::to_string("</script><script>alert(1)</script><!--").unwrap();
        let inert = inert(&hostile);
        assert!(!inert.contains('<'), "{inert}");
        assert_eq!(serde_json::from_str::<String>(&inert).unwrap(), "</script><script>alert(1)</script><!--");
        assert_eq!(escaped("<b title=\"&\">"), "&lt;b title=&quot;&amp;&quot;&gt;");
    }

    #[test]
    fn the_viewer_can_stand_in_the_page() {
        assert!(!SCRIPT.to_lowercase().contains("</script"), "the script would end itself");
        assert!(!STYLE.to_lowercase().contains("</style"), "the style would end itself");
    }
}
