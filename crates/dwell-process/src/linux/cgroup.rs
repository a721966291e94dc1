//! Memory of control groups.

use std::fs;
use std::path::PathBuf;

use super::parse::number;
use super::proc_dir::ProcDir;
use super::proc_file::ProcFile;

/// Which group a process is in: an index into [`Cgroups`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CgroupId(usize);

/// The groups that watched processes are in.
pub(crate) struct Cgroups {
    hierarchy: Option<Hierarchy>,
    groups: Vec<Cgroup>,
}

struct Cgroup {
    path: String,
    file: ProcFile,
    /// What it said in the present sample.
    bytes: Option<Option<u64>>,
}

/// Where the groups that account for memory are mounted.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    mount_point: String,
    /// Path of the group that is mounted there.
    root: String,
    is_version_1: bool,
}

impl Cgroups {
    pub(crate) fn new() -> Self {
        let hierarchy = fs::read_to_string("/proc/self/mountinfo").ok().and_then(|text| Hierarchy::of(&text));
        Self { hierarchy, groups: Vec::new() }
    }

    pub(crate) fn begin_sample(&mut self) {
        self.groups.iter_mut().for_each(|group| group.bytes = None);
    }

    /// The group of a process; none for the root of all groups, whose memory is not accounted.
    pub(crate) fn group_of(&mut self, dir: &ProcDir, buffer: &mut Vec<u8>) -> Option<CgroupId> {
        let hierarchy = self.hierarchy.as_ref()?;
        let text = dir.file("cgroup").ok()?;
        let text = String::from_utf8_lossy(text.read(buffer).ok()?);
        let path = hierarchy.path_in(&text)?;
        if let Some(known) = self.groups.iter().position(|group| group.path == path) {
            return Some(CgroupId(known));
        }
        let file = ProcFile::open(&hierarchy.usage_file(path)?).ok()?;
        self.groups.push(Cgroup { path: path.to_owned(), file, bytes: None });
        Some(CgroupId(self.groups.len() - 1))
    }

    /// What a group uses now. Asked again within a sample, it says the same.
    pub(crate) fn bytes(&mut self, id: CgroupId, buffer: &mut Vec<u8>) -> Option<u64> {
        let group = &mut self.groups[id.0];
        *group.bytes.get_or_insert_with(|| number(group.file.read(buffer).ok()?))
    }

    /// What these groups use together. A group within another is part of it.
    pub(crate) fn total_bytes(&mut self, mut ids: Vec<CgroupId>, buffer: &mut Vec<u8>) -> Option<u64> {
        ids.sort_unstable();
        ids.dedup();
        let is_within = |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
        let path = |id: &CgroupId| self.groups[id.0].path.as_str();
        let outermost: Vec<CgroupId> =
            ids.iter().filter(|inner| !ids.iter().any(|outer| is_within(path(inner), path(outer)))).copied().collect();
        outermost.into_iter().map(|id| self.bytes(id, buffer)).sum()
    }
}

impl Hierarchy {
    /// The one that accounts for memory: version 1's if it has the controller, else version 2's.
    fn of(mountinfo: &str) -> Option<Self> {
        let find = |is_version_1: bool| {
            mountinfo.lines().find_map(|line| {
                let (mount, kind) = line.split_once(" - ")?;
                let mut kind = kind.split(' ');
                let is_wanted = match (kind.next()?, is_version_1) {
                    ("cgroup", true) => kind.next_back()?.split(',').any(|option| option == "memory"),
                    ("cgroup2", false) => true,
                    _ => false,
                };
                let mut mount = mount.split(' ').skip(3).map(str::to_owned);
                let (root, mount_point) = (mount.next()?, mount.next()?);
                is_wanted.then_some(Self { mount_point, root, is_version_1 })
            })
        };
        find(true).or_else(|| find(false))
    }

    /// The path in a `/proc/<pid>/cgroup`, whose lines are `number:controllers:path`.
    fn path_in<'a>(&self, text: &'a str) -> Option<&'a str> {
        text.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let is_wanted = match self.is_version_1 {
                true => controllers.split(',').any(|name| name == "memory"),
                false => controllers.is_empty(),
            };
            is_wanted.then_some(path)
        })
    }

    fn usage_file(&self, path: &str) -> Option<PathBuf> {
        // Version 1 gives the root a figure, which is the whole machine's; version 2 gives it none.
        if self.is_version_1 && path == "/" {
            return None;
        }
        let below = path.strip_prefix(self.root.trim_end_matches('/'))?.trim_start_matches('/');
        // A group outside of what this process may see.
        if below.starts_with("..") {
            return None;
        }
        let name = if self.is_version_1 { "memory.usage_in_bytes" } else { "memory.current" };
        Some(PathBuf::from(&self.mount_point).join(below).join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION_1: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const CONTAINER: &str = "35 31 0:32 /docker/ab /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n";

    #[test]
    fn the_first_version_is_taken_where_it_accounts_for_memory() {
        let hierarchy = Hierarchy::of(VERSION_1).unwrap();
        let of_process = "5:devices:/\n4:memory:/jobs/one\n1:cpu:/\n0::/other\n";
        assert_eq!(hierarchy.path_in(of_process), Some("/jobs/one"));
        let file = hierarchy.usage_file("/jobs/one").unwrap();
        assert_eq!(file.to_str(), Some("/sys/fs/cgroup/memory/jobs/one/memory.usage_in_bytes"));
        assert_eq!(hierarchy.usage_file("/"), None, "that would be the whole machine");
    }

    #[test]
    fn a_group_that_is_mounted_in_a_container_is_found_below_its_mount_point() {
        let hierarchy = Hierarchy::of(CONTAINER).unwrap();
        assert_eq!(hierarchy.path_in("0::/docker/ab/inner\n"), Some("/docker/ab/inner"));
        let file = |path| hierarchy.usage_file(path);
        assert_eq!(file("/docker/ab/inner").unwrap().to_str(), Some("/sys/fs/cgroup/inner/memory.current"));
        assert_eq!(file("/docker/ab").unwrap().to_str(), Some("/sys/fs/cgroup/memory.current"));
        assert_eq!((file("/elsewhere"), file("/docker/ab/../x")), (None, None));
    }
}
