//! The comparison of both.

use std::collections::BTreeMap;

use crate::bytes::{ByteSet, Touched};
use crate::claims::{claimed, computations, regions};
use crate::common::Run;
use crate::witness::Seen;

/// Compares, step by step and area by area, what the trace claims with what valgrind saw.
pub fn compare(name: &str, run: &Run, seen: &Seen) {
    let (steps, compute_buffers) = computations(run);
    assert_eq!(steps.len(), seen.windows.len(), "{name}: computations recorded and seen by valgrind");
    let claimed = claimed(run);
    assert!(claimed.in_graphs.len() >= 3, "{name}: a prompt and two decoded tokens at least");
    let of_type = |region_type: &'static str| (region_type, regions(run, region_type));
    let kept: Vec<Area> = [of_type("kv_cache"), of_type("recurrent_state")]
        .into_iter()
        .filter(|(_, ranges)| !ranges.is_empty())
        .collect();
    assert!(!kept.is_empty(), "{name}: something is kept of the tokens");
    let areas: Vec<Area> =
        [of_type("weight"), ("compute", compute_buffers.clone())].into_iter().chain(kept.iter().cloned()).collect();
    let observed = in_graphs(&steps, seen);
    compare_steps(name, &claimed.in_graphs, &observed, &areas, |area, what| area != "weight" || what == "loads");
    print_traffic(name, &claimed.in_graphs, &observed, &areas);
    let compute = [("compute between graphs", compute_buffers)];
    compare_steps(
        name,
        &claimed.around_graphs,
        &around_graphs(&steps, seen, &claimed.around_graphs),
        &compute,
        |_, _| true,
    );
    let mut stored = seen.after.stores.clone();
    seen.before.iter().for_each(|touched| stored.extend(&touched.stores));
    for (area, ranges) in &kept {
        assert!(compare_bytes(&format!("{name}: {area} between graphs"), &claimed.cleared, &stored, ranges) > 0);
    }
}

/// What valgrind saw the computations of each step touch.
fn in_graphs(steps: &[u32], seen: &Seen) -> BTreeMap<u32, Touched> {
    let mut observed: BTreeMap<u32, Touched> = BTreeMap::new();
    for (&step, window) in steps.iter().zip(&seen.windows) {
        observed.entry(step).or_default().extend(&window.touched());
    }
    observed
}

/// Stores that valgrind saw before the graphs of each step, and loads after them. Before the first graph and after the last, the
/// program keeps other data in the same memory; there, only the bytes that the trace claims are compared. Loads by the recorder
/// itself, which reads inputs to learn the rows and cells they name, are left out.
fn around_graphs(steps: &[u32], seen: &Seen, claimed: &BTreeMap<u32, Touched>) -> BTreeMap<u32, Touched> {
    let mut observed: BTreeMap<u32, Touched> = BTreeMap::new();
    let mut first = seen.before.first().cloned().unwrap_or_default();
    first.stores.keep(claimed.values().next().map(|touched| &touched.stores));
    let mut last = seen.after.clone();
    last.loads.keep(claimed.values().next_back().map(|touched| &touched.loads));
    let after = seen.before.iter().skip(1).chain([&last]);
    let before = [&first].into_iter().chain(seen.before.iter().skip(1));
    for ((&step, before), after) in steps.iter().zip(before).zip(after) {
        let touched = observed.entry(step).or_default();
        touched.stores.extend(&before.stores);
        touched.loads.extend(&after.loads);
    }
    let mut inputs = ByteSet::default();
    claimed.values().for_each(|touched| inputs.extend(&touched.stores));
    for (step, touched) in &mut observed {
        let mut results = touched.loads.clone();
        results.keep(claimed.get(step).map(|claimed| &claimed.loads));
        touched.loads.leave_out(&inputs);
        touched.loads.extend(&results);
    }
    observed
}

type Area = (&'static str, Vec<(u64, u64)>);

fn compare_steps(
    name: &str,
    claimed: &BTreeMap<u32, Touched>,
    observed: &BTreeMap<u32, Touched>,
    areas: &[Area],
    must_touch: impl Fn(&str, &str) -> bool,
) {
    assert_eq!(claimed.keys().collect::<Vec<_>>(), observed.keys().collect::<Vec<_>>(), "{name}: steps");
    for (step, claimed) in claimed {
        for (area, ranges) in areas {
            let pairs =
                [("loads", &claimed.loads, &observed[step].loads), ("stores", &claimed.stores, &observed[step].stores)];
            for (what, claimed, observed) in pairs {
                let subject = format!("{name}: step {step}, {area} {what}");
                let both = compare_bytes(&subject, claimed, observed, ranges);
                assert!(both > 0 || !must_touch(area, what), "{subject}: nothing to compare");
            }
        }
    }
}

/// Prints, for the prompt and for the last token, how often instructions load and store what the rows say, and how much of all that they load and
/// store the trace covers: what docs/collectors/tensor_ops.md states is from here.
fn print_traffic(name: &str, claimed: &BTreeMap<u32, Touched>, observed: &BTreeMap<u32, Touched>, areas: &[Area]) {
    let steps = [("prompt", claimed.iter().next()), ("token", claimed.iter().next_back())];
    for (kind, (step, claimed)) in steps.into_iter().filter_map(|(kind, step)| Some((kind, step?))) {
        print_step(&format!("{name}, {kind}"), claimed, &observed[step], areas);
    }
}

fn print_step(name: &str, claimed: &Touched, observed: &Touched, areas: &[Area]) {
    let directions = [("loaded", &claimed.loaded, &observed.loaded), ("stored", &claimed.stored, &observed.stored)];
    for (what, claimed, observed) in directions {
        for (area, ranges) in areas {
            let (rows, moved) = (claimed.in_ranges(ranges).bytes, observed.in_ranges(ranges).bytes);
            if rows > 0 {
                println!("{name}: {area}: {rows} B of rows {what} {:.2} times", moved as f64 / rows as f64);
            }
        }
        let (covered, total) = (observed.in_lines_of(claimed), observed.total());
        let share = |part: u64, all: u64| part as f64 / all as f64 * 100.0;
        println!(
            "{name}: in the trace are {:.1} % of the bytes and {:.1} % of the lines {what}",
            share(covered.bytes, total.bytes),
            share(covered.lines, total.lines)
        );
    }
}

/// Checks that both sets have the same bytes of the ranges, and says how many.
pub fn compare_bytes(subject: &str, claimed: &ByteSet, observed: &ByteSet, ranges: &[(u64, u64)]) -> u64 {
    let difference = claimed.compare(observed, ranges);
    assert!(
        difference.only_here == 0 && difference.only_there == 0,
        "{subject}: {} bytes agree, {} claimed only (first {:x?}), {} observed only (first {:x?}) of {ranges:x?}",
        difference.both,
        difference.only_here,
        difference.first_only_here,
        difference.only_there,
        difference.first_only_there,
    );
    difference.both
}
