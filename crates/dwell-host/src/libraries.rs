//! Libraries of dwell that are loaded into other programs.

use std::fs::File;
use std::os::fd::IntoRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A library by a path that `LD_PRELOAD` can name: where the variable says, beside the program where it was built, in `lib/dwell`
/// where it is installed.
pub fn library_for_programs(variable: &str, name: &str) -> Option<PathBuf> {
    let given = std::env::var_os(variable).map(PathBuf::from);
    let program = std::env::current_exe().ok()?;
    let folder = program.parent()?;
    let usual = [folder.join(name), folder.join("../lib/dwell").join(name)];
    given.into_iter().chain(usual).find(|path| path.is_file()).map(loadable)
}

/// A path of the library that `LD_PRELOAD` can name.
///
/// The loader takes spaces and colons for the end of a path and expands dollar signs, and there is no way to quote them.
/// Such a library is opened, and named by its descriptor, for as long as this process lives.
fn loadable(library: PathBuf) -> PathBuf {
    if !library.as_os_str().as_bytes().iter().any(|byte| b" :$".contains(byte)) {
        return library;
    }
    match File::open(&library) {
        Ok(file) => PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.into_raw_fd())),
        // The program goes on without it, and the run says that it was not loaded.
        Err(_) => library,
    }
}
