//! The program that runs in the browser.

use dwell_report::Viewer;

const VIEWER: Viewer = Viewer {
    script: include_str!("../../../viewer/dist/view.js"),
    style: include_str!("../../../viewer/dist/view.css"),
    noscript: "The view is drawn by a script; `dwell ls` and `dwell show` say the same in a terminal.",
};

/// The page, and the policy to send with it: the viewer may ask this server and nobody else.
pub(crate) struct ViewerPage {
    pub(crate) html: String,
    pub(crate) policy: String,
}

impl ViewerPage {
    pub(crate) fn new(title: &str) -> Self {
        let policy = format!("{}; connect-src 'self'", VIEWER.content_security_policy());
        let html = VIEWER.document(title, &policy, None);
        // A page cannot say this of itself.
        Self { html, policy: format!("{policy}; frame-ancestors 'none'") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_viewer_can_stand_in_the_page() {
        assert!(!VIEWER.script.to_lowercase().contains("</script") && !VIEWER.style.to_lowercase().contains("</style"));
        let page = ViewerPage::new("<results>");
        assert!(page.html.contains("<title>&lt;results&gt;</title>"));
        assert!(page.policy.contains("default-src 'none'") && page.policy.contains("connect-src 'self'"));
        assert!(!page.policy.contains("unsafe"));
    }
}
