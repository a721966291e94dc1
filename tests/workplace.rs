//! A folder for a test, with models of known shape. The tests of several crates take this file in, and add what they do
//! in it.

use std::path::{Path, PathBuf};

use dwell_gguf::{MakePlan, MakeSpec, Overwrite, make};

/// A folder of its own for a test, removed when it ends.
pub struct Workplace {
    dir: tempfile::TempDir,
}

impl Workplace {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a model with random weights.
    pub fn model(&self, spec: MakeSpec) -> PathBuf {
        let path = self.path().join("model.gguf");
        make(&MakePlan::new(spec).unwrap(), &path, Overwrite::Allow, &mut |_| {}).unwrap();
        path
    }
}
