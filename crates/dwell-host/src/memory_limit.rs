//! How much memory this process may have: the machine's, or less where a control group sets a limit.

use std::path::Path;

use crate::meminfo::Meminfo;
use crate::root::Root;

/// Memory that programs on this machine may have, and what of it is free now; the limit of a container counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// All that there is.
    pub total_bytes: u64,
    /// What is free now.
    pub available_bytes: u64,
}

impl MemoryLimit {
    /// The limit of this machine; none if it does not say.
    pub fn read() -> Option<Self> {
        Self::read_at(&Root::default())
    }

    /// The same from a tree of files of the kernel.
    pub fn read_at(root: &Root) -> Option<Self> {
        let meminfo = Meminfo::read(root);
        let machine = Self {
            total_bytes: *meminfo.bytes("MemTotal").available()?,
            available_bytes: *meminfo.bytes("MemAvailable").available()?,
        };
        Some(group_limits(root).into_iter().fold(machine, Self::tighter_of))
    }

    fn tighter_of(self, other: Self) -> Self {
        Self {
            total_bytes: self.total_bytes.min(other.total_bytes),
            available_bytes: self.available_bytes.min(other.available_bytes),
        }
    }
}

/// Limits of this process's group and of all that it is in: each of them holds.
fn group_limits(root: &Root) -> Vec<MemoryLimit> {
    let groups = root.text("proc/self/cgroup").unwrap_or_default();
    groups.lines().filter_map(group_of).flat_map(|group| limits_of(root, &group)).collect()
}

/// Where the files of a group are, and what they are called.
struct Group {
    mount: &'static str,
    path: String,
    limit_file: &'static str,
    use_file: &'static str,
}

/// From a line of `/proc/self/cgroup`: `0::/path` is of version 2, `4:memory:/path` of version 1.
fn group_of(line: &str) -> Option<Group> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let (mount, limit_file, use_file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max", "memory.current"),
        names if names.split(',').any(|name| name == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
        }
        _ => return None,
    };
    Some(Group { mount, path: path.to_owned(), limit_file, use_file })
}

fn limits_of(root: &Root, group: &Group) -> Vec<MemoryLimit> {
    let limit_in = |path: &Path| {
        let number = |name: &str| root.number::<u64>(&format!("{}{}/{name}", group.mount, path.display()));
        // Without a limit version 2 says `max`; version 1 gives a number beyond any memory.
        let total_bytes = number(group.limit_file)?;
        Some(MemoryLimit { total_bytes, available_bytes: total_bytes.saturating_sub(number(group.use_file)?) })
    };
    Path::new(&group.path).ancestors().filter_map(limit_in).collect()
}
