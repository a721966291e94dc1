//! Which collectors watch a run: those that are wanted, and in the place of each that is refused the first fallback that is not.

use dwell_events::CollectorName;
use dwell_metadata::{Collectors, Fallback, Refusal, RefusedAt, Substitute};

use crate::{Target, Wanted, collector};

/// When and why a collector is refused.
pub type Reason = (RefusedAt, String);

/// Collectors in the place of those that are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Those that watch.
    pub used: Vec<CollectorName>,
    /// Which takes the place of which.
    pub fallbacks: Vec<Fallback>,
    /// Every one that was tried and refused.
    pub refusals: Vec<Refusal>,
    /// Collectors that are refused without another in their place, and why.
    pub unreplaced: Vec<(CollectorName, String)>,
}

/// Chooses by what is refused. Fallbacks are only tried while one is needed.
pub fn choose(
    wanted: &[CollectorName],
    fallback: &[CollectorName],
    try_out: &mut dyn FnMut(CollectorName) -> Option<Reason>,
) -> Choice {
    let mut choice = Choice::default();
    for &name in wanted {
        let Some(reason) = choice.refusal_of(name, try_out) else {
            choice.uses(name);
            continue;
        };
        let instead = fallback.iter().copied().find(|&name| choice.refusal_of(name, try_out).is_none());
        match instead {
            Some(instead) => {
                choice.fallbacks.push(replaced(name, instead, reason));
                choice.uses(instead);
            }
            None => choice.unreplaced.push((name, reason)),
        }
    }
    choice
}

impl Choice {
    fn uses(&mut self, name: CollectorName) {
        if !self.used.contains(&name) {
            self.used.push(name);
        }
    }

    /// Tries a collector, each once.
    fn refusal_of(
        &mut self,
        name: CollectorName,
        try_out: &mut dyn FnMut(CollectorName) -> Option<Reason>,
    ) -> Option<String> {
        if self.used.contains(&name) {
            return None;
        }
        if let Some(known) = self.refusals.iter().find(|refusal| refusal.collector == name.name()) {
            return Some(known.reason.clone());
        }
        let (at, reason) = try_out(name)?;
        self.refusals.push(refusal(name, at, reason.clone()));
        Some(reason)
    }
}

/// That a collector was tried and cannot watch.
pub fn refusal(name: CollectorName, at: RefusedAt, reason: String) -> Refusal {
    Refusal { collector: name.name().to_owned(), at, reason }
}

/// That a collector watches in the place of another.
pub fn replaced(wanted: CollectorName, instead: CollectorName, reason: String) -> Fallback {
    Fallback { wanted: wanted.name().to_owned(), instead: instead.name().to_owned(), reason }
}

/// Why a collector cannot watch an engine, whatever the machine.
pub fn refused_by_engine(name: CollectorName, target: &Target<'_>) -> Option<Reason> {
    collector(name).cannot_watch(target).map(|reason| (RefusedAt::Engine, reason))
}

/// Fallbacks that may still take the place of a collector that cannot begin, with the settings that are wanted: those that neither
/// watch already nor were refused.
pub fn substitutes(
    fallback: &[CollectorName],
    used: &Collectors,
    refusals: &[Refusal],
    wanted: &Wanted<'_>,
) -> Vec<Substitute> {
    let is_left = |name: &&CollectorName| !refusals.iter().any(|refusal| refusal.collector == name.name());
    let substitute = |&name: &CollectorName| Substitute {
        collector: name.name().to_owned(),
        settings: used.settings(name).cloned().unwrap_or_else(|| collector(name).settings(wanted)),
    };
    fallback.iter().filter(is_left).map(substitute).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENSOR_OPS: CollectorName = CollectorName::TENSOR_OPS;
    const PROCESS: CollectorName = CollectorName::PROCESS;
    const ALLOC: CollectorName = CollectorName::of("alloc");
    const PAGES: CollectorName = CollectorName::of("pages");
    const ENERGY: CollectorName = CollectorName::of("energy");

    /// What is chosen where these are refused, and which were tried.
    fn chosen(
        wanted: &[CollectorName],
        fallback: &[CollectorName],
        refused: &[CollectorName],
    ) -> (Choice, Vec<CollectorName>) {
        let mut tried = Vec::new();
        let choice = choose(wanted, fallback, &mut |name| {
            tried.push(name);
            refused.contains(&name).then(|| (RefusedAt::Check, format!("no {}", name.name())))
        });
        (choice, tried)
    }

    fn fallen(choice: &Choice) -> Vec<(&str, &str)> {
        choice.fallbacks.iter().map(|fallback| (fallback.wanted.as_str(), fallback.instead.as_str())).collect()
    }

    #[test]
    fn all_that_are_wanted_are_used_where_they_work_and_no_fallback_is_tried() {
        let (choice, tried) = chosen(&[TENSOR_OPS, PROCESS], &[ALLOC], &[]);
        assert_eq!((choice.used, tried), (vec![TENSOR_OPS, PROCESS], vec![TENSOR_OPS, PROCESS]));
        assert!(choice.fallbacks.is_empty() && choice.refusals.is_empty());
    }

    #[test]
    fn the_first_fallback_that_works_is_taken_and_each_refusal_is_noted_once() {
        let (choice, tried) = chosen(&[TENSOR_OPS, PAGES], &[ENERGY, ALLOC, PROCESS], &[TENSOR_OPS, PAGES, ENERGY]);
        assert_eq!(choice.used, [ALLOC]);
        assert_eq!(fallen(&choice), [("tensor_ops", "alloc"), ("pages", "alloc")]);
        let refused: Vec<&str> = choice.refusals.iter().map(|refusal| refusal.collector.as_str()).collect();
        assert_eq!(refused, ["tensor_ops", "energy", "pages"]);
        assert_eq!(tried, [TENSOR_OPS, ENERGY, ALLOC, PAGES], "each is tried once, and none that is not needed");
    }

    #[test]
    fn a_collector_that_is_wanted_anyway_may_be_the_fallback() {
        let (choice, _) = chosen(&[TENSOR_OPS, PROCESS], &[PROCESS], &[TENSOR_OPS]);
        assert_eq!((choice.used.as_slice(), fallen(&choice)), (&[PROCESS][..], vec![("tensor_ops", "process")]));
    }

    #[test]
    fn without_a_fallback_that_works_it_is_said_which_are_missing() {
        let (choice, _) = chosen(&[TENSOR_OPS, PROCESS], &[PAGES], &[TENSOR_OPS, PAGES]);
        assert_eq!(choice.unreplaced, [(TENSOR_OPS, "no tensor_ops".to_owned())]);
        assert_eq!(choice.refusals.len(), 2);
    }

    #[test]
    fn what_was_refused_is_no_substitute() {
        let (choice, _) = chosen(&[TENSOR_OPS], &[PAGES, ALLOC, PROCESS], &[TENSOR_OPS, PAGES]);
        let used = crate::chosen(&choice.used, &Wanted::default());
        let left = substitutes(&[PAGES, ALLOC, PROCESS], &used, &choice.refusals, &Wanted::default());
        let names: Vec<&str> = left.iter().map(|substitute| substitute.collector.as_str()).collect();
        assert_eq!(names, ["alloc", "process"]);
        assert_eq!(left[1].settings["sample_interval_ms"], 100);
    }
}
