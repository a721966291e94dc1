//! All processes of the machine.

use std::fs;

use super::parse;
use crate::error::ProcessError;
use crate::find::FoundProcess;
use crate::relation::Relation;
use crate::tree::ProcessLine;

/// Every process that can be seen, with its parent.
pub(crate) fn relations() -> Vec<Relation> {
    ids().into_iter().filter_map(|pid| Some(Relation { pid, parent: parent(pid)? })).collect()
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
    let command_line = words(pid);
    (!command_line.is_empty()).then_some(())?;
    Some(FoundProcess { pid, name: name(pid)?, command_line: command_line.join(" ") })
}

/// What the system says of one process.
pub(crate) fn line(pid: u32) -> Option<ProcessLine> {
    Some(ProcessLine { pid, parent: parent(pid)?, name: name(pid)?, command_line: words(pid) })
}

/// The command line of a process; empty if it has none, or is gone.
fn words(pid: u32) -> Vec<String> {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    if words.is_empty() {
        return Vec::new();
    }
    let words = words.strip_suffix(b"\0").unwrap_or(&words).split(|&byte| byte == 0);
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Ids of all processes that can be seen.
pub(crate) fn ids() -> Vec<u32> {
    pids().unwrap_or_default()
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
