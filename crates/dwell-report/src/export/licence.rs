//! The licence of a dataset: one, named by its SPDX name.

use std::collections::BTreeSet;

use crate::ReportError;
use crate::run_results::RunResults;

/// Licences that Hugging Face knows by the lower-case SPDX name.
const HUGGING_FACE: [&str; 15] = [
    "apache-2.0",
    "mit",
    "cc0-1.0",
    "cc-by-4.0",
    "cc-by-sa-4.0",
    "cc-by-nc-4.0",
    "cc-by-nc-sa-4.0",
    "cc-by-nd-4.0",
    "cc-by-nc-nd-4.0",
    "odbl",
    "pddl",
    "bsd-2-clause",
    "bsd-3-clause",
    "gpl-3.0",
    "unlicense",
];

/// An SPDX name.
pub(super) struct Licence {
    pub(super) name: String,
}

impl Licence {
    /// The licence that was given, or the one that the runs carry.
    pub(super) fn choose(given: Option<&str>, runs: &[&RunResults]) -> Result<Self, ReportError> {
        if let Some(name) = given {
            return Self::checked(name);
        }
        let of_runs: BTreeSet<&str> =
            runs.iter().filter_map(|run| run.metadata.experiment.as_ref()?.about.licence.as_deref()).collect();
        let mut names = of_runs.iter();
        match (names.next(), names.next()) {
            (None, _) => Err(ReportError::NoLicence),
            (Some(name), None) => Self::checked(name),
            _ => Err(ReportError::SeveralLicences { found: of_runs.into_iter().map(str::to_owned).collect() }),
        }
    }

    /// SPDX names are of letters, digits, `.`, `-` and `+`.
    fn checked(name: &str) -> Result<Self, ReportError> {
        let is_name = name.starts_with(|letter: char| letter.is_ascii_alphanumeric())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-+".contains(letter));
        if is_name {
            Ok(Self { name: name.to_owned() })
        } else {
            Err(ReportError::NotALicence { found: name.to_owned() })
        }
    }

    /// The lines of the front matter of a dataset card.
    pub(super) fn front_matter(&self) -> String {
        let lower = self.name.to_lowercase();
        if HUGGING_FACE.contains(&lower.as_str()) {
            format!("license: {lower}\n")
        } else {
            format!("license: other\nlicense_name: {lower}\nlicense_link: LICENSE.txt\n")
        }
    }

    /// Where the licence can be read.
    pub(super) fn address(&self) -> String {
        format!("https://spdx.org/licenses/{}.html", self.name)
    }

    /// Content of `LICENSE.txt`.
    pub(super) fn text(&self) -> String {
        format!(
            "SPDX-License-Identifier: {}\n\nThe data in this folder are published under the licence {}.\nIts text: {}\n",
            self.name,
            self.name,
            self.address()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(licence: Option<&str>) -> RunResults {
        let json = serde_json::json!({"experiment": {"licence": licence}});
        RunResults { metadata: serde_json::from_value(json).unwrap(), ..RunResults::default() }
    }

    #[test]
    fn one_licence_is_needed_and_the_given_one_counts() {
        let (by, zero, none) = (run(Some("CC-BY-4.0")), run(Some("CC0-1.0")), run(None));
        let name = |given, runs: &[&RunResults]| Licence::choose(given, runs).map(|licence| licence.name);
        assert_eq!(name(None, &[&by, &none]).unwrap(), "CC-BY-4.0");
        assert_eq!(name(Some("MIT"), &[&by, &zero]).unwrap(), "MIT");
        assert!(matches!(name(None, &[&none]), Err(ReportError::NoLicence)));
        assert!(matches!(name(None, &[&by, &zero]), Err(ReportError::SeveralLicences { .. })));
        assert!(matches!(name(Some("free for all"), &[&by]), Err(ReportError::NotALicence { .. })));
    }
}
