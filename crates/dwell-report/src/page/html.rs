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
    let noscript = "This report is drawn by the script that it holds; the numbers are in metrics.csv beside it.";
    let viewer = Viewer { script: SCRIPT, style: STYLE, noscript };
    let policy = viewer.content_security_policy();
    viewer.document(page.title(), &policy, Some(&json))
}

/// A program that draws in a browser, with its style.
pub struct Viewer {
    /// What runs.
    pub script: &'static str,
    /// How it looks.
    pub style: &'static str,
    /// What is shown where no script may run.
    pub noscript: &'static str,
}

impl Viewer {
    /// One file that holds the viewer and, as JSON, what it shows.
    pub fn document(&self, title: &str, policy: &str, json: Option<&str>) -> String {
        let Viewer { script, style, noscript } = self;
        let data = |json| format!("<script type=\"application/json\" id=\"page\">{}</script>\n", inert(json));
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <title>{}</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>{style}</style>\n</head>\n<body>\n<main id=\"dwell\"></main>\n\
             <noscript>{noscript}</noscript>\n{}<script>{script}</script>\n</body>\n</html>\n",
            escaped(title),
            json.map_or_else(String::new, data),
        )
    }

    /// Only the viewer runs and styles; images come from the page itself; nothing is fetched.
    pub fn content_security_policy(&self) -> String {
        format!(
            "default-src 'none'; script-src '{}'; style-src '{}'; img-src data: blob:; base-uri 'none'; form-action 'none'",
            hash_source(self.script),
            hash_source(self.style)
        )
    }
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
