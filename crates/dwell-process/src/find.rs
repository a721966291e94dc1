use crate::error::ProcessError;
use crate::system;

/// A process that was found by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundProcess {
    /// Process id.
    pub pid: u32,
    /// Short name of its program.
    pub name: String,
    /// The words it was started with, with spaces between them.
    pub command_line: String,
}

impl FoundProcess {
    fn is_called(&self, text_in_small_letters: &str) -> bool {
        let has = |found: &str| found.to_lowercase().contains(text_in_small_letters);
        has(&self.name) || has(&self.command_line)
    }
}

/// Short name of the program that a process runs, if it is there.
pub fn process_name(pid: u32) -> Option<String> {
    system::name(pid)
}

/// The processes whose name or command line contains this text, in any case.
///
/// Never this process nor its parents: the shell that was told to look for a name has the name in its own command line.
/// Nor others that look for the same: those that run this program with the same first argument.
pub fn find_processes(text: &str) -> Result<Vec<FoundProcess>, ProcessError> {
    let text = text.to_lowercase();
    let own_pid = std::process::id();
    let parents = system::parents_of_this_process();
    let all = system::list()?;
    let first_words =
        |process: &FoundProcess| process.command_line.split(' ').take(2).map(str::to_owned).collect::<Vec<_>>();
    let own_words = all.iter().find(|process| process.pid == own_pid).map(first_words);
    let is_another = |process: &FoundProcess| {
        process.pid != own_pid && !parents.contains(&process.pid) && own_words.as_ref() != Some(&first_words(process))
    };
    let mut found: Vec<FoundProcess> =
        all.into_iter().filter(|process| is_another(process) && process.is_called(&text)).collect();
    found.sort_by_key(|process| process.pid);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_in_any_case_in_either_place() {
        let process =
            FoundProcess { pid: 1, name: "python3".to_owned(), command_line: "python3 -m vLLM.entrypoints".to_owned() };
        assert!(process.is_called("vllm") && process.is_called("python3") && process.is_called("3 -m v"));
        assert!(!process.is_called("ollama"));
    }
}
