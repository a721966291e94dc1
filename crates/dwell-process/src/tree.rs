//! A process with all its descendants, at one moment.

use crate::system;

/// A process, as the system lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessLine {
    /// Process id.
    pub pid: u32,
    /// The process that began it.
    pub parent: u32,
    /// Short name of its program.
    pub name: String,
    /// The words it was started with; none for one that has ended and has not been waited for.
    pub command_line: Vec<String>,
}

/// Ids of all processes that can be seen.
pub fn process_ids() -> Vec<u32> {
    system::ids()
}

/// A process, if it is there.
pub fn process_line(pid: u32) -> Option<ProcessLine> {
    system::line(pid)
}

/// A process and everything that it started, the process first; empty if it is not there.
pub fn process_tree(root: u32) -> Vec<ProcessLine> {
    let relations = system::relations();
    let mut pids: Vec<u32> = vec![root];
    let mut next = 0;
    while let Some(&parent) = pids.get(next) {
        pids.extend(relations.iter().filter(|relation| relation.parent == parent).map(|relation| relation.pid));
        next += 1;
    }
    // One that ended since the list was made has no line.
    let tree: Vec<ProcessLine> = pids.into_iter().filter_map(process_line).collect();
    if tree.first().is_some_and(|line| line.pid == root) { tree } else { Vec::new() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_its_root_first_and_its_children_after() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let tree = process_tree(std::process::id());
        let found = tree.iter().find(|line| line.pid == child.id()).cloned();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(tree[0].pid, std::process::id());
        let found = found.unwrap();
        assert_eq!(found.parent, std::process::id());
        assert!(process_tree(child.id()).is_empty(), "an ended process has no tree");
        assert!(process_ids().contains(&std::process::id()));
    }
}
