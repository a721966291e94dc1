//! The licence of a dataset: one, as an SPDX expression.

use std::collections::BTreeSet;

use spdx::identifiers::{EXCEPTIONS, LICENSES};
use spdx::{Expression, ParseMode};

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

/// What Zenodo calls a licence that its list does not have.
const ZENODO_OTHER: &str = "other-open";

/// The list of SPDX as it is: names in use, and those that were replaced, which old experiments may have.
const MODE: ParseMode = ParseMode { allow_deprecated: true, ..ParseMode::STRICT };

/// An SPDX expression: a licence, or several joined by AND, OR and WITH.
pub(super) struct Licence {
    pub(super) name: String,
    /// The licences in it that are in the list of SPDX.
    listed: Vec<&'static str>,
}

impl Licence {
    /// The licence that was given, or the one that every run carries.
    pub(super) fn choose(given: Option<&str>, runs: &[&RunResults]) -> Result<Self, ReportError> {
        if let Some(name) = given {
            return Self::checked(name);
        }
        let of_runs: BTreeSet<String> = runs.iter().filter_map(|run| licence_of(run)).map(with_listed_case).collect();
        let mut names = of_runs.iter();
        let licence = match (names.next(), names.next()) {
            (None, _) => return Err(ReportError::NoLicence),
            (Some(name), None) => Self::checked(name)?,
            _ => {
                return Err(ReportError::SeveralLicences { found: of_runs.into_iter().collect() });
            }
        };
        // What is under no licence may not be published under that of others by silence.
        let without: Vec<&&RunResults> = runs.iter().filter(|run| licence_of(run).is_none()).collect();
        match without.first() {
            None => Ok(licence),
            Some(run) => Err(ReportError::RunWithoutLicence {
                without: without.len(),
                runs: runs.len(),
                licence: licence.name,
                run: run.path.clone(),
            }),
        }
    }

    fn checked(text: &str) -> Result<Self, ReportError> {
        let name = with_listed_case(text);
        // They say that nothing is known or granted, which is no licence to publish under.
        if ["NOASSERTION", "NONE"].contains(&name.to_uppercase().as_str()) {
            return Err(ReportError::NotALicence {
                found: text.to_owned(),
                reason: "it grants nothing".to_owned(),
                nearest: None,
            });
        }
        let expression = Expression::parse_mode(&name, MODE).map_err(|error| ReportError::NotALicence {
            found: text.to_owned(),
            reason: error.reason.to_string(),
            nearest: nearest(text),
        })?;
        let ids = expression.requirements().filter_map(|found| found.req.license.id());
        Ok(Self { listed: ids.map(|id| id.name).collect(), name })
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

    /// Zenodo's name of the licence: one of its list, which has no expressions.
    pub(super) fn zenodo(&self) -> String {
        if self.is_one_listed() { self.name.to_lowercase() } else { ZENODO_OTHER.to_owned() }
    }

    /// Whether the expression is one licence of the list.
    pub(super) fn is_one_listed(&self) -> bool {
        self.listed == [self.name.as_str()]
    }

    /// The licence as Markdown, with links to what can be read.
    pub(super) fn markdown(&self) -> String {
        if self.is_one_listed() {
            return format!("[{}]({})", self.name, address(&self.name));
        }
        let links: Vec<String> = self.listed.iter().map(|name| format!("[{name}]({})", address(name))).collect();
        [vec![format!("`{}`", self.name)], links].concat().join(" · ")
    }

    /// Content of `LICENSE.txt`.
    pub(super) fn text(&self) -> String {
        let texts: String = self.listed.iter().map(|name| format!("{name}: {}\n", address(name))).collect();
        format!(
            "SPDX-License-Identifier: {}\n\nThe data in this folder are published under the licence {}.\n{texts}",
            self.name, self.name,
        )
    }
}

/// The licence as the list of SPDX writes it; an error if it is none that something can be published under.
pub fn spdx_licence(text: &str) -> Result<String, ReportError> {
    Licence::checked(text).map(|licence| licence.name)
}

fn licence_of(run: &RunResults) -> Option<&str> {
    run.metadata.experiment.as_ref()?.about.licence.as_deref().filter(|licence| !licence.trim().is_empty())
}

/// Where the text of a listed licence can be read.
fn address(name: &str) -> String {
    format!("https://spdx.org/licenses/{name}.html")
}

fn listed_names() -> impl Iterator<Item = &'static str> {
    LICENSES.iter().map(|licence| licence.name).chain(EXCEPTIONS.iter().map(|exception| exception.name))
}

/// The text with names written as the list writes them: SPDX compares them without regard to case.
fn with_listed_case(text: &str) -> String {
    let word = |word: &str| {
        let name = word.trim_matches(['(', ')', '+']);
        let listed = listed_names().find(|listed| listed.eq_ignore_ascii_case(name));
        listed.map_or_else(|| word.to_owned(), |listed| word.replace(name, listed))
    };
    text.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// The listed licence with the most similar name.
fn nearest(text: &str) -> Option<String> {
    /// From which likeness on two names may be meant to be the same. Chosen: typing errors, not other licences.
    const LIKENESS_MIN: f64 = 0.75;
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(&name.to_lowercase(), &text.to_lowercase());
    let names = LICENSES.iter().map(|licence| (likeness(licence.name), licence.name));
    let best = names.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(likeness, _)| *likeness >= LIKENESS_MIN).map(|(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn run(id: &str, licence: Option<&str>) -> RunResults {
        let json = serde_json::json!({"run_id": id, "experiment": {"licence": licence}});
        RunResults { path: PathBuf::from(id), metadata: serde_json::from_value(json).unwrap(), ..RunResults::default() }
    }

    fn chosen(given: Option<&str>, runs: &[&RunResults]) -> Result<String, ReportError> {
        Licence::choose(given, runs).map(|licence| licence.name)
    }

    #[test]
    fn one_licence_is_needed_and_the_given_one_counts() {
        let (by, zero, none) = (run("a", Some("CC-BY-4.0")), run("b", Some("CC0-1.0")), run("c", None));
        assert_eq!(chosen(None, &[&by, &by]).unwrap(), "CC-BY-4.0");
        assert_eq!(chosen(Some("MIT"), &[&by, &zero, &none]).unwrap(), "MIT");
        assert!(matches!(chosen(None, &[&none]), Err(ReportError::NoLicence)));
        assert!(matches!(chosen(None, &[&by, &zero]), Err(ReportError::SeveralLicences { .. })));
    }

    #[test]
    fn a_run_without_a_licence_is_not_taken_under_that_of_another() {
        let (by, none, empty) = (run("a", Some("CC-BY-4.0")), run("c", None), run("d", Some(" ")));
        let error = chosen(None, &[&by, &none, &empty]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "exporting a dataset found 2 of 3 runs without a licence, and the others are under CC-BY-4.0: \"c\""
        );
        let hints = dwell_events::Hint::hints(&error);
        assert!(hints[0].contains("--licence 'CC-BY-4.0'"), "{hints:?}");
    }

    #[test]
    fn only_expressions_of_listed_names_are_licences() {
        let good = [
            ("CC-BY-4.0", "CC-BY-4.0"),
            ("cc-by-4.0", "CC-BY-4.0"),
            ("MIT OR Apache-2.0", "MIT OR Apache-2.0"),
            (
                "(MIT AND CC0-1.0) OR apache-2.0 WITH llvm-exception",
                "(MIT AND CC0-1.0) OR Apache-2.0 WITH LLVM-exception",
            ),
            ("GPL-3.0", "GPL-3.0"),
            ("LicenseRef-lab", "LicenseRef-lab"),
        ];
        for (text, name) in good {
            assert_eq!(chosen(Some(text), &[]).unwrap(), name);
        }
        for text in ["free for all", "CC-BY", "CC-BY-4", "MIT OR", "MIT Apache-2.0", "MIT WITH Apache-2.0", "(MIT", ""]
        {
            assert!(matches!(chosen(Some(text), &[]), Err(ReportError::NotALicence { .. })), "{text}");
        }
        let error = chosen(Some("CC-BY-4"), &[]).unwrap_err();
        assert!(dwell_events::Hint::hints(&error)[0].contains("`--licence CC-BY-4.0`"), "{error:?}");
    }

    #[test]
    fn an_expression_is_written_as_each_place_can_take_it() {
        let one = Licence::checked("CC-BY-4.0").unwrap();
        assert_eq!((one.front_matter().as_str(), one.zenodo().as_str()), ("license: cc-by-4.0\n", "cc-by-4.0"));
        assert_eq!(one.markdown(), "[CC-BY-4.0](https://spdx.org/licenses/CC-BY-4.0.html)");
        let two = Licence::checked("MIT OR CC0-1.0").unwrap();
        assert_eq!(two.zenodo(), "other-open");
        assert!(two.front_matter().starts_with("license: other\nlicense_name: mit or cc0-1.0\n"));
        assert!(
            two.text().ends_with(
                "MIT: https://spdx.org/licenses/MIT.html\nCC0-1.0: https://spdx.org/licenses/CC0-1.0.html\n"
            )
        );
    }
}
