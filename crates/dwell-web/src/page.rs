//! The page and its scripts, built from `web/` and part of this program.

/// A file beside `index.html`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageFile {
    /// Its name, which says its type.
    pub(crate) name: &'static str,
    pub(crate) content: &'static [u8],
}

/// Every file of the page.
pub(crate) const PAGE: &[PageFile] = include!(concat!(env!("OUT_DIR"), "/page_files.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_for_people_and_for_dwell_are_there_with_their_scripts() {
        let has = |name: &str| PAGE.iter().any(|file| file.name == name && !file.content.is_empty());
        for name in ["index.html", "page.js", "page.css", "run.html", "run.js", "hooks.js", "dwell-web.js"] {
            assert!(has(name), "{name}");
        }
    }
}
