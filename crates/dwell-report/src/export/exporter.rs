//! The places that a dataset can be made for.

use super::Dataset;
use super::hugging_face::HuggingFace;
use super::zenodo::Zenodo;

/// A place where datasets are published: what it wants beside the files that every dataset has.
pub trait Exporter: std::fmt::Debug + Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Its name in text.
    fn title(&self) -> &'static str;

    /// What `README.md` begins with, before its title.
    fn front_matter(&self, _dataset: &Dataset<'_>) -> String {
        String::new()
    }

    /// Files of its own: names and contents.
    fn files(&self, _dataset: &Dataset<'_>) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// Every place. A new one is a file beside this and a line here.
pub const EXPORTERS: [&dyn Exporter; 2] = [&HuggingFace, &Zenodo];
