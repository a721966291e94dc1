//! The names of the collectors: in options, files and columns.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use Use::{ByDefault, IfAsked, OfEngines};

/// What a collector is used for; each includes those before it.
#[derive(Clone, Copy)]
enum Use {
    /// Every run, unless others are chosen.
    ByDefault,
    /// Runs for which somebody chooses it.
    IfAsked,
    /// The same, and only if an engine runs the model that publishes what the collector gathers.
    OfEngines,
}

/// Every collector. What each does is in the crate dwell-collectors, one file each; a test compares the two lists.
const COLLECTORS: [(&str, Use); 10] = [
    ("tensor_ops", ByDefault),
    ("process", ByDefault),
    ("kv_events", OfEngines),
    ("pressure", ByDefault),
    ("browser", OfEngines),
    ("pages", IfAsked),
    ("alloc", IfAsked),
    ("energy", IfAsked),
    ("page_faults", IfAsked),
    ("perf_mem", IfAsked),
];

/// Name of a collector: the value of `--collect` and of `collectors.use`, the `source` in tables, the name of its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CollectorName(u8);

impl CollectorName {
    /// Every access of every computed graph.
    pub const TENSOR_OPS: Self = Self::of("tensor_ops");
    /// Memory, CPU, faults and I/O of the processes.
    pub const PROCESS: Self = Self::of("process");
    /// What a server publishes of its KV blocks.
    pub const KV_EVENTS: Self = Self::of("kv_events");

    /// What a page in a browser knows of its memory.
    pub const BROWSER: Self = Self::of("browser");

    /// All names, in the order in which collectors are begun and listed.
    pub const NAMES: &'static [&'static str] = &names_for::<{ count_for(OfEngines) }>(OfEngines);

    /// Names of those that watch a run unless others are chosen.
    pub const BY_DEFAULT: &'static [&'static str] = &names_for::<{ count_for(ByDefault) }>(ByDefault);

    /// Names of those that can watch any program.
    pub const OF_PROGRAMS: &'static [&'static str] = &names_for::<{ count_for(IfAsked) }>(IfAsked);

    /// The collector with this name, which must be one: for constants.
    ///
    /// # Panics
    ///
    /// If there is none, which a constant shows when it is compiled.
    pub const fn of(name: &str) -> Self {
        let mut index = 0;
        while index < COLLECTORS.len() {
            if is_same(COLLECTORS[index].0, name) {
                return Self(index as u8);
            }
            index += 1;
        }
        panic!("there is no collector of this name")
    }

    /// The collector with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|collector| collector.name() == name)
    }

    /// Every collector, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..COLLECTORS.len() as u8).map(Self)
    }

    /// The name.
    pub fn name(self) -> &'static str {
        COLLECTORS[usize::from(self.0)].0
    }
}

impl Serialize for CollectorName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for CollectorName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::from_name(&name).ok_or_else(|| de::Error::unknown_variant(&name, Self::NAMES))
    }
}

const fn is_for(index: usize, wanted: Use) -> bool {
    COLLECTORS[index].1 as u8 <= wanted as u8
}

const fn count_for(wanted: Use) -> usize {
    let (mut index, mut count) = (0, 0);
    while index < COLLECTORS.len() {
        count += is_for(index, wanted) as usize;
        index += 1;
    }
    count
}

const fn names_for<const COUNT: usize>(wanted: Use) -> [&'static str; COUNT] {
    let mut names = [""; COUNT];
    let (mut index, mut count) = (0, 0);
    while index < COLLECTORS.len() {
        if is_for(index, wanted) {
            names[count] = COLLECTORS[index].0;
            count += 1;
        }
        index += 1;
    }
    names
}

/// Equality of texts in constants, where `==` cannot be used yet.
const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_its_collector_and_back() {
        let names: Vec<&str> = CollectorName::all().map(CollectorName::name).collect();
        assert_eq!(names, CollectorName::NAMES);
        assert_eq!(CollectorName::from_name("process"), Some(CollectorName::PROCESS));
        assert_eq!(CollectorName::from_name("proces"), None);
        assert_eq!(CollectorName::KV_EVENTS.name(), "kv_events");
    }

    #[test]
    fn what_is_used_by_default_is_a_part_of_all() {
        assert!(CollectorName::BY_DEFAULT.starts_with(&["tensor_ops", "process"]));
        assert!(CollectorName::BY_DEFAULT.iter().all(|name| CollectorName::NAMES.contains(name)));
        assert!(!CollectorName::BY_DEFAULT.contains(&"kv_events"));
        assert!(CollectorName::OF_PROGRAMS.contains(&"pages") && !CollectorName::OF_PROGRAMS.contains(&"kv_events"));
    }
}
