//! How often the processor slowed itself down because it was hot, from the counters of Intel processors.

use std::collections::BTreeMap;

use dwell_events::host::Sensor;

use crate::kept_file::KeptFile;
use crate::root::Root;

const CPUS: &str = "sys/devices/system/cpu";

/// The counters of all processors with their first values.
///
/// An event reaches all threads of a core, and that of a package all its processors, each of which counts it. So the
/// events of a core are those of its thread that counted most, and likewise for packages.
pub(crate) struct ThrottleWatch {
    state: Result<Vec<Counter>, String>,
}

struct Counter {
    file: KeptFile,
    /// The core or package whose events it counts.
    scope: String,
    first: i64,
}

impl ThrottleWatch {
    pub(crate) fn begin(root: &Root) -> Self {
        let counters: Result<Vec<Counter>, String> = root
            .numbered(CPUS, "cpu")
            .iter()
            .flat_map(|cpu| [("core", cpu), ("package", cpu)])
            .filter_map(|(kind, cpu)| Counter::begin(root, kind, cpu).transpose())
            .collect();
        let state = counters.and_then(|counters| match counters.is_empty() {
            true => Err(format!(
                "no processor in /{CPUS} has thermal_throttle: Intel's have it, outside of virtual machines"
            )),
            false => Ok(counters),
        });
        Self { state }
    }

    /// Events since the begin.
    pub(crate) fn end(self) -> Sensor<u64> {
        let events = self.state.and_then(|counters| {
            let mut by_scope: BTreeMap<&str, u64> = BTreeMap::new();
            for counter in &counters {
                let grown = counter.file.number()?.saturating_sub(counter.first);
                let most = by_scope.entry(&counter.scope).or_default();
                // Less than before: the processor was switched off and on meanwhile.
                *most = (*most).max(u64::try_from(grown).unwrap_or(0));
            }
            Ok(by_scope.values().sum())
        });
        events.into()
    }
}

impl Counter {
    /// Nothing if the processor has no such counter.
    fn begin(root: &Root, kind: &str, cpu: &str) -> Result<Option<Self>, String> {
        let path = format!("{CPUS}/{cpu}/thermal_throttle/{kind}_throttle_count");
        if !root.exists(&path) {
            return Ok(None);
        }
        let fact = |name: &str| root.word(&format!("{CPUS}/{cpu}/topology/{name}"));
        let place = match kind {
            "package" => fact("physical_package_id"),
            _ => fact("core_cpus_list").or_else(|| fact("thread_siblings_list")),
        };
        let file = KeptFile::open(root.path(&path))?;
        let first = file.number()?;
        Ok(Some(Self { file, scope: format!("{kind} {}", place.unwrap_or_else(|| cpu.to_owned())), first }))
    }
}
