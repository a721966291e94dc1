//! Feeds the target that `DWELL_FUZZ_TARGET` names; see `scripts/fuzz.sh`.

#![no_main]

use std::sync::LazyLock;

use dwell_fuzz::Target;
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&'static Target> = LazyLock::new(|| {
    let name = std::env::var("DWELL_FUZZ_TARGET").unwrap_or_default();
    dwell_fuzz::target(&name).unwrap_or_else(|| {
        let names: Vec<&str> = dwell_fuzz::ALL.iter().map(|target| target.name).collect();
        panic!("DWELL_FUZZ_TARGET is {name:?}, and must be one of {}", names.join(", "))
    })
});

fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));
