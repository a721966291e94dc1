//! Which processes or control groups the programs take as chosen.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use dwell_host::Root;
use dwell_process::process_tree;

use crate::error::KernelError;
use crate::layout::NAME_BYTES;
use crate::programs::Chosen;

const CGROUP_ROOTS: [&str; 2] = ["sys/fs/cgroup/unified", "sys/fs/cgroup"];

/// What `filter` of the programs is set to.
pub(crate) fn filter_number(chosen: &Chosen) -> u32 {
    match chosen {
        Chosen::All => 0,
        Chosen::Process(_) => 1,
        Chosen::Cgroup(_) => 2,
        Chosen::Name(_) => 3,
    }
}

/// A name as the kernel keeps it: cut to 15 bytes and padded with zeros.
pub(crate) fn name_words(chosen: &Chosen) -> [u64; NAME_BYTES / 8] {
    let mut bytes = [0; NAME_BYTES];
    if let Chosen::Name(name) = chosen {
        let length = name.len().min(NAME_BYTES - 1);
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    }
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at * 8..at * 8 + 8]);
        u64::from_ne_bytes(word)
    };
    [word(0), word(1)]
}

/// Keys of what is chosen at this moment: a process with its descendants, or a control group with those in it.
pub(crate) fn members(chosen: &Chosen) -> Result<Vec<u64>, KernelError> {
    match chosen {
        Chosen::All | Chosen::Name(_) => Ok(Vec::new()),
        Chosen::Process(pid) => match process_tree(*pid) {
            tree if tree.is_empty() => Err(KernelError::NoSuchProcess { pid: *pid }),
            tree => Ok(tree.iter().map(|line| line.pid.into()).collect()),
        },
        Chosen::Cgroup(path) => cgroup_ids(&cgroup_folder(path)),
    }
}

/// Where a control group lies, given from the root of control groups or from `/`.
pub(crate) fn cgroup_folder(path: &str) -> PathBuf {
    let root = Root::default();
    let given = PathBuf::from(path);
    if given.is_absolute() && given.join("cgroup.procs").exists() {
        return given;
    }
    let below = path.trim_start_matches('/');
    let roots = CGROUP_ROOTS.map(|folder| root.path(folder));
    let found = roots.iter().find(|folder| folder.join("cgroup.controllers").exists()).unwrap_or(&roots[1]);
    found.join(below)
}

/// The numbers of a control group and of all groups in it: those of their folders.
fn cgroup_ids(folder: &Path) -> Result<Vec<u64>, KernelError> {
    let no_group = |source| KernelError::NoSuchCgroup { path: folder.to_owned(), source };
    // Any other folder has a number too, which no process would have.
    fs::metadata(folder.join("cgroup.procs")).map_err(no_group)?;
    let mut ids = vec![fs::metadata(folder).map_err(no_group)?.ino()];
    for entry in fs::read_dir(folder).map_err(no_group)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // One that was removed meanwhile is none of the group any more.
            ids.extend(cgroup_ids(&entry.path()).unwrap_or_default());
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_and_padded_as_the_kernel_does() {
        let words = name_words(&Chosen::Name("llama-server-with-a-long-name".to_owned()));
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(bytes, b"llama-server-wi\0");
    }

    #[test]
    fn a_process_is_chosen_with_its_tree_and_a_missing_one_is_an_error() {
        let own = std::process::id();
        assert!(members(&Chosen::Process(own)).is_ok_and(|keys| keys.contains(&own.into())));
        assert!(matches!(members(&Chosen::Process(u32::MAX)), Err(KernelError::NoSuchProcess { .. })));
        assert!(matches!(members(&Chosen::Cgroup("no/such".to_owned())), Err(KernelError::NoSuchCgroup { .. })));
    }

    #[test]
    fn a_folder_that_is_no_control_group_is_refused() {
        let refusal = cgroup_ids(Path::new("/proc/self"));
        assert!(matches!(refusal, Err(KernelError::NoSuchCgroup { .. })), "{refusal:?}");
    }
}
