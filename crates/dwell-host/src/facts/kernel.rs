//! Settings of the kernel that change what is measured, and the C library.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use dwell_events::host::{KernelSettings, Sensor};

use crate::root::Root;

const VULNERABILITIES: &str = "sys/devices/system/cpu/vulnerabilities";

pub(super) fn settings(root: &Root) -> KernelSettings {
    KernelSettings {
        transparent_huge_pages: huge_page_mode(root),
        perf_event_paranoid: perf_event_paranoid(root),
        mitigations: mitigations(root),
    }
}

/// How much an ordinary user may measure.
pub(crate) fn perf_event_paranoid(root: &Root) -> Sensor<i32> {
    const PATH: &str = "proc/sys/kernel/perf_event_paranoid";
    Sensor::from_option(root.number(PATH), format!("there is no /{PATH}: the kernel has no perf events"))
}

/// The chosen one of `always [madvise] never`.
fn huge_page_mode(root: &Root) -> Sensor<String> {
    const PATH: &str = "sys/kernel/mm/transparent_hugepage/enabled";
    let mode = root.word(PATH).and_then(|text| {
        let (_, rest) = text.split_once('[')?;
        Some(rest.split_once(']')?.0.to_owned())
    });
    Sensor::from_option(mode, format!("/{PATH} does not tell: the kernel has no transparent huge pages"))
}

fn mitigations(root: &Root) -> Sensor<BTreeMap<String, String>> {
    let names = root.names(VULNERABILITIES);
    if names.is_empty() {
        return Sensor::not_available(format!("there is no /{VULNERABILITIES}"));
    }
    let fact = |name: String| root.word(&format!("{VULNERABILITIES}/{name}")).map(|text| (name, text));
    Sensor::Available(names.into_iter().filter_map(fact).filter(|(_, text)| text != "Not affected").collect())
}

/// The version of the running C library, which only it knows.
pub(super) fn glibc(root: &Root) -> Sensor<String> {
    if *root != Root::default() {
        return Sensor::not_available("the C library tells of the running machine only");
    }
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let version = output.map_err(|error| format!("starting getconf failed with {error}")).and_then(|output| {
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.trim().strip_prefix("glibc ").map(str::to_owned);
        version.ok_or_else(|| "getconf knows no GNU_LIBC_VERSION: the C library is another".to_owned())
    });
    version.into()
}
