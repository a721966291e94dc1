//! All processes of the machine.

use std::fs;

use super::parse;
use crate::error::ProcessError;
use crate::find::FoundProcess;
use crate::relation::Relation;

/// Every process that can be seen, with its parent.
pub(super) fn relations() -> Vec<Relation> {
    pids().into_iter().flatten().filter_map(|pid| Some(Relation { pid, parent: parent(pid)? })).collect()
}

/// The parents of this process, nearest first.
pub(crate) fn parents_of_this_process() -> Vec<u32> {
    let parents = std::iter::successors(parent(std::process::id()), |&pid| parent(pid));
    parents.take_while(|&pid| pid > 0).collect()
}

/// Every program that can be seen. Kernel threads have no command line and are no programs.
pub(crate) fn list() -> Result<Vec<FoundProcess>, ProcessError> {
    let pids = pids().map_err(|source| ProcessError::NoList { source })?;
    Ok(pids.into_iter().filter_map(describe).collect())
}

fn describe(pid: u32) -> Option<FoundProcess> {
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok().filter(|words| !words.is_empty())?;
    let words = words.strip_suffix(b"\0").unwrap_or(&words).split(|&byte| byte == 0);
    let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
    Some(FoundProcess { pid, name: name(pid)?, command_line: words.join(" ") })
}

/// Short name of a process.
pub(crate) fn name(pid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}

fn pids() -> std::io::Result<Vec<u32>> {
    let entries = fs::read_dir("/proc")?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

fn parent(pid: u32) -> Option<u32> {
    parse::stat(&fs::read(format!("/proc/{pid}/stat")).ok()?).map(|stat| stat.parent)
}
