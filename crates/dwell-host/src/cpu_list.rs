//! Lists of processors as the kernel writes them, such as `0-3,8`.

use crate::root::Root;

/// Processors are numbered from 0; no kernel has more.
const MAX_CPUS: u32 = 8192;

/// How many processors a list names; none if it is no such list.
pub(crate) fn count(list: &str) -> Option<u32> {
    let count_of = |(first, last): (u32, u32)| last.checked_sub(first)?.checked_add(1);
    ranges(list).map(|range| count_of(range?)).sum()
}

/// The processors that a list names; none if it is no such list.
pub(crate) fn members(list: &str) -> Option<Vec<u32>> {
    let mut members = Vec::new();
    for range in ranges(list) {
        let (first, last) = range.filter(|(first, last)| first <= last && *last < MAX_CPUS)?;
        members.extend(first..=last);
    }
    Some(members)
}

/// Processors that are switched on; only the first one if the kernel does not say.
pub fn online_cpus(root: &Root) -> Vec<u32> {
    let list = root.word("sys/devices/system/cpu/online");
    list.and_then(|list| members(&list)).unwrap_or_else(|| vec![0])
}

fn ranges(list: &str) -> impl Iterator<Item = Option<(u32, u32)>> + '_ {
    list.trim().split(',').map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::{count, members};

    #[test]
    fn ranges_and_single_processors_are_counted() {
        assert_eq!(count("0\n"), Some(1));
        assert_eq!(count("0-3,8,10-11"), Some(7));
        assert_eq!(count(""), None);
        assert_eq!(count("3-0"), None);
        assert_eq!(count("a-b"), None);
    }

    #[test]
    fn ranges_and_single_processors_are_listed() {
        assert_eq!(members("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        assert_eq!(members("3-0"), None);
        assert_eq!(members("0-4000000000"), None);
    }
}
