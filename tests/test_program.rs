//! A test program that is also started as another program: the observer starts its own binary as the worker, with a
//! hidden command, and the binary of a test is the test program. Such a program has `harness = false` in its manifest
//! and calls [`run_tests`] unless it was started with the hidden command. Its output is that of Rust's own harness.

use std::panic::catch_unwind;
use std::process::ExitCode;

/// A test: its name and what it does.
pub type Test = (&'static str, fn());

/// Names functions as tests.
macro_rules! tests {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name as fn())),*] };
}
pub(crate) use tests;

/// Runs those whose names contain the word that was given, one after the other.
pub fn run_tests(tests: &[Test]) -> ExitCode {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let chosen: Vec<&Test> = tests.iter().filter(|(name, _)| name.contains(&wanted)).collect();
    println!("\nrunning {} tests", chosen.len());
    let failed = chosen.iter().filter(|test| !passes(test)).count();
    let (passed, left_out) = (chosen.len() - failed, tests.len() - chosen.len());
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {left_out} filtered out\n"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(101) }
}

fn passes(&(name, test): &&Test) -> bool {
    let has_passed = catch_unwind(test).is_ok();
    println!("test {name} ... {}", if has_passed { "ok" } else { "FAILED" });
    has_passed
}
