//! The page and its scripts.

/// A file beside `index.html`.
#[derive(Clone, Copy, Debug)]
pub struct PageFile {
    /// Its name, which says its type.
    pub name: &'static str,
    /// Its content.
    pub content: &'static [u8],
}

/// The files of the page.
#[derive(Clone, Copy, Debug)]
pub struct Page(pub &'static [PageFile]);
