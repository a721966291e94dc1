//! What this library knows of the process, all of it under one lock, which is free in a forked child.

use std::collections::BTreeMap;

use crate::call_sites::Reached;
use crate::callbacks::ProgramCallback;
use crate::elf;
use crate::fork_lock::ForkLock;
use crate::ggml_library::LibraryFunctions;
use crate::recording::Process;
use crate::source::Source;

/// Nothing that calls the loader may be done while it is locked: a constructor of a library that is being loaded may call
/// a stand-in.
pub(crate) static STATE: ForkLock<State> = ForkLock::new(State {
    process: Process::new(),
    reached: Vec::new(),
    sources: Vec::new(),
    callbacks: BTreeMap::new(),
});

/// What this library knows. What the lists point to is never freed, because threads use it without the lock.
pub(crate) struct State {
    /// Whether and where this process is recorded.
    pub(crate) process: Process,
    reached: Vec<&'static Reached>,
    sources: Vec<&'static Source>,
    /// By backend.
    pub(crate) callbacks: BTreeMap<usize, &'static ProgramCallback>,
}

impl State {
    /// The source of a ggml library, which is the same for all calls into that library.
    pub(crate) fn source_of(&mut self, library: LibraryFunctions, generation: u64) -> &'static Source {
        let unloads = elf::unloads(generation);
        let is_it = |source: &&&Source| source.library.is_same(&library);
        if let Some(source) = self.sources.iter().find(is_it) {
            source.found_again(unloads);
            return source;
        }
        let source: &'static Source = Box::leak(Box::new(Source::new(library, unloads)));
        self.sources.push(source);
        source
    }

    /// What calls reach, kept for good. What is the same is kept once, so that a program that loads and unloads a library
    /// again and again does not grow.
    pub(crate) fn reached_by(&mut self, reached: Reached) -> &'static Reached {
        if let Some(known) = self.reached.iter().find(|known| known.is_same(&reached)) {
            return known;
        }
        let reached: &'static Reached = Box::leak(Box::new(reached));
        self.reached.push(reached);
        reached
    }
}
