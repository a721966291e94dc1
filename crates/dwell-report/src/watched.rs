//! How a run was watched, in words: what was refused, how each table was obtained, how far collectors agree.

use std::collections::BTreeMap;

use dwell_metadata::{Agreement, CollectorUse, TableOrigin};

use crate::numbers::count;

/// Each collector that was tried and refused: when, why, and what takes its place.
pub(crate) fn refusal_lines(collectors: &CollectorUse) -> Vec<String> {
    let line = |refusal: &dwell_metadata::Refusal| {
        let fallback = collectors.fallbacks.iter().find(|fallback| fallback.wanted == refusal.collector);
        let instead = fallback.map_or_else(String::new, |fallback| format!(", {} takes its place", fallback.instead));
        format!("{} {}{instead}: {}", refusal.collector, refusal.at.words(), refusal.reason)
    };
    collectors.refusals.iter().map(line).collect()
}

/// For each basis the tables that have rows, by their source, such as `exact: tokens (engine), trace (tensor_ops)`.
pub(crate) fn basis_lines(tables: &BTreeMap<String, TableOrigin>) -> Vec<String> {
    let mut by_basis: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for (name, origin) in tables.iter().filter(|(_, origin)| origin.rows > 0) {
        by_basis.entry(&origin.basis).or_default().entry(&origin.source).or_default().push(name);
    }
    let line = |(basis, by_source): (&str, BTreeMap<&str, Vec<&str>>)| {
        let of_source = |(source, names): (&&str, &Vec<&str>)| format!("{} ({source})", names.join(", "));
        format!("{basis}: {}", by_source.iter().map(of_source).collect::<Vec<_>>().join(", "))
    };
    by_basis.into_iter().map(line).collect()
}

/// How far two collectors agree.
pub(crate) fn agreement_line(agreement: &Agreement) -> String {
    let Agreement { about, first, second, both, first_only, second_only, .. } = agreement;
    let share = agreement.share().map_or_else(|| "–".to_owned(), |share| format!("{:.2} %", share * 100.0));
    format!(
        "{first} and {second} on {share} of {about}: {} in both, {} only in {first}, {} only in {second}",
        count(*both),
        count(*first_only),
        count(*second_only),
    )
}

#[cfg(test)]
mod tests {
    use dwell_metadata::{Fallback, Refusal, RefusedAt};

    use super::*;

    #[test]
    fn a_refusal_says_when_why_and_what_takes_the_place() {
        let refusal =
            |collector: &str, at, reason: &str| Refusal { collector: collector.into(), at, reason: reason.into() };
        let fallback = Fallback { wanted: "alloc".into(), instead: "process".into(), reason: "no room".into() };
        let collectors = CollectorUse {
            fallbacks: vec![fallback],
            refusals: vec![
                refusal("alloc", RefusedAt::Begin, "no room"),
                refusal("energy", RefusedAt::Check, "no meter"),
            ],
            ..CollectorUse::default()
        };
        let expected =
            ["alloc could not begin, process takes its place: no room", "energy does not work here: no meter"];
        assert_eq!(refusal_lines(&collectors), expected);
    }

    #[test]
    fn tables_with_rows_are_told_by_basis_and_source() {
        let origin = |rows, basis: &str, source: &str| TableOrigin { rows, basis: basis.into(), source: source.into() };
        let tables = [
            ("trace", origin(0, "none", "tensor_ops")),
            ("memory", origin(3, "sampled", "process")),
            ("pressure", origin(3, "sampled", "pressure")),
            ("tokens", origin(1, "exact", "engine")),
            ("loss", origin(1, "exact", "engine")),
        ];
        let tables = tables.map(|(name, origin)| (name.to_owned(), origin)).into();
        let expected = ["exact: loss, tokens (engine)", "sampled: pressure (pressure), memory (process)"];
        assert_eq!(basis_lines(&tables), expected);
    }
}
