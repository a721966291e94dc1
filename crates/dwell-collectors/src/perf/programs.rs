//! Which processes of a recording are those of the run: not dwell's own, which begin the others.

use std::collections::BTreeMap;

use dwell_decode::perf_data::Record;

/// Follows which program each process is.
pub struct Programs {
    /// dwell itself; none if its processes are part of the run.
    own: Option<String>,
    by_pid: BTreeMap<u32, Program>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    /// It has become another one, whose first mapping tells which.
    Begins,
    Own,
    Other,
}

impl Programs {
    /// Leaves out the processes of a program.
    pub fn other_than(own: Option<String>) -> Self {
        Self { own, by_pid: BTreeMap::new() }
    }

    /// Takes a record into account; samples change nothing.
    pub fn take(&mut self, record: &Record) {
        match record {
            Record::Comm(comm) if comm.is_exec => drop(self.by_pid.insert(comm.pid, Program::Begins)),
            // The stack may be mapped before the program.
            Record::Mapping(mapping) if mapping.name.starts_with('/') && self.is_unknown(mapping.pid) => {
                let is_own = self.own.as_ref() == Some(&mapping.name);
                self.by_pid.insert(mapping.pid, if is_own { Program::Own } else { Program::Other });
            }
            Record::Fork(relation) if relation.pid != relation.parent_pid => {
                if let Some(parent) = self.by_pid.get(&relation.parent_pid).copied() {
                    self.by_pid.insert(relation.pid, parent);
                }
            }
            _ => {}
        }
    }

    fn is_unknown(&self, pid: u32) -> bool {
        self.by_pid.get(&pid).is_none_or(|program| *program == Program::Begins)
    }

    /// Whether a process is part of the run now.
    pub fn has(&self, pid: u32) -> bool {
        self.by_pid.get(&pid) != Some(&Program::Own)
    }
}

#[cfg(test)]
mod tests {
    use dwell_decode::perf_data::{Comm, Mapping, Relation};

    use super::*;

    #[test]
    fn a_process_is_left_out_until_it_becomes_another_program() {
        let mut programs = Programs::other_than(Some("/bin/dwell".to_owned()));
        let exec = Record::Comm(Box::new(Comm { pid: 7, tid: 7, name: "x".to_owned(), is_exec: true }));
        let mapped = |name: &str| {
            let name = name.to_owned();
            Record::Mapping(Box::new(Mapping { pid: 7, start: 1, length: 1, file_offset: 0, name, build_id: None }))
        };
        programs.take(&exec);
        programs.take(&mapped("[stack]"));
        programs.take(&mapped("/bin/dwell"));
        programs.take(&mapped("/lib/libc.so.6"));
        assert!(!programs.has(7));
        programs.take(&Record::Fork(Relation { pid: 8, parent_pid: 7, tid: 8 }));
        assert!(!programs.has(8) && programs.has(9));
        programs.take(&exec);
        programs.take(&mapped("/bin/cat"));
        // A program may map dwell as any other file.
        programs.take(&mapped("/bin/dwell"));
        assert!(programs.has(7) && !programs.has(8));
    }
}
