use serde::{Deserialize, Serialize};

/// What an experiment is and whose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// Name; a folder name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Version of the experiment.
    pub version: String,
    /// Authors.
    pub authors: Vec<String>,
    /// Their institution.
    pub institution: String,
    /// Paper that it belongs to: a DOI, an address or a title.
    pub paper_ref: String,
    /// Licence of the published data, an SPDX identifier where there is one.
    pub licence: Option<String>,
}
