//! The folder that is served, and the only way to a run in it.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use axum::http::StatusCode;
use dwell_report::ResultsList;
use dwell_store::{RunDir, TreeKind, tree_kind};

use crate::error::{ApiError, ViewError};

/// Lists the runs and experiments below a folder.
pub(crate) type Lister = Box<dyn Fn(&Path) -> ResultsList + Send + Sync>;

/// Name of the folder itself where it is a run.
pub(crate) const ITSELF: &str = ".";

/// How deep the folders of a run go: `raw/programs`.
const RUN_DEPTH: usize = 3;

/// How long a run may have a folder and no state.
const LONGEST_BEGINNING: Duration = Duration::from_secs(2);

/// The folder that is served.
pub(crate) struct Tree {
    root: PathBuf,
    list: Lister,
}

impl Tree {
    pub(crate) fn open(root: &Path, list: Lister) -> Result<Self, ViewError> {
        let failed = |source| ViewError::Folder { path: root.to_owned(), source };
        let root = root.canonicalize().and_then(|root| fs::read_dir(&root).map(|_| root)).map_err(failed)?;
        Ok(Self { root, list })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Its name, as shown.
    pub(crate) fn name(&self) -> String {
        self.root
            .file_name()
            .map_or_else(|| self.root.display().to_string(), |name| name.to_string_lossy().into_owned())
    }

    pub(crate) fn is_run(&self) -> bool {
        matches!(tree_kind(&self.root), Ok(TreeKind::Run))
    }

    /// Every run and experiment in it.
    pub(crate) fn list(&self) -> ResultsList {
        (self.list)(&self.root)
    }

    /// How a folder below the root is called in the API.
    pub(crate) fn name_of(&self, path: &Path) -> String {
        match path.strip_prefix(&self.root) {
            Ok(below) if below.as_os_str().is_empty() => ITSELF.to_owned(),
            Ok(below) => below.to_string_lossy().into_owned(),
            Err(_) => path.to_string_lossy().into_owned(),
        }
    }

    /// The run of a name.
    pub(crate) fn run(&self, name: &str) -> Result<RunDir, ApiError> {
        let folder = self.folder(name)?;
        self.check_run(&folder)?;
        RunDir::open(&folder).map_err(|error| match is_new(&folder) {
            // Its state is written a moment after its folder is made.
            true => ApiError::new(StatusCode::SERVICE_UNAVAILABLE, format!("the run {name:?} is just beginning"))
                .hint("ask again in a moment"),
            false => error.into(),
        })
    }

    /// Refuses a run with files that are not its own.
    pub(crate) fn check_run(&self, folder: &Path) -> Result<(), ApiError> {
        let real = folder.canonicalize().map_err(|_| ApiError::not_found(format!("there is no run {folder:?}")))?;
        if !real.starts_with(&self.root) {
            return Err(outside(folder));
        }
        check_files(&real, &self.root, RUN_DEPTH)
    }

    /// The folder of a name, which lies in the tree whatever the name is.
    fn folder(&self, name: &str) -> Result<PathBuf, ApiError> {
        let below = Path::new(name);
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        if name.is_empty() || name.contains('\0') || !below.components().all(is_plain) {
            return Err(ApiError::bad_request(format!("{name:?} is not the path of a run below the viewed folder")));
        }
        let missing = |_| ApiError::not_found(format!("there is no run {name:?}"));
        let path = self.root.join(below).canonicalize().map_err(missing)?;
        if path.starts_with(&self.root) { Ok(path) } else { Err(outside(&path)) }
    }
}

/// Whether a folder was changed within the last seconds.
fn is_new(folder: &Path) -> bool {
    let changed = fs::metadata(folder).and_then(|found| found.modified()).ok();
    changed.and_then(|changed| changed.elapsed().ok()).is_some_and(|age| age < LONGEST_BEGINNING)
}

/// Refuses a run of which a file is a link that leaves the tree, or no file at all: a pipe would never end.
fn check_files(folder: &Path, root: &Path, depth: usize) -> Result<(), ApiError> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        if kind.is_dir() {
            if depth > 0 {
                check_files(&path, root, depth - 1)?;
            }
            continue;
        }
        // Only links lead elsewhere; finding the real path of every file of thousands of runs would take seconds.
        let is_ordinary = if kind.is_symlink() {
            // A link that leads nowhere is as good as none.
            let Ok(real) = path.canonicalize() else { continue };
            if !real.starts_with(root) {
                return Err(outside(&path));
            }
            fs::metadata(&real).is_ok_and(|found| found.is_file() || found.is_dir())
        } else {
            kind.is_file()
        };
        if !is_ordinary {
            return Err(ApiError::unreadable(format!("this is no ordinary file: {path:?}")));
        }
    }
    Ok(())
}

fn outside(path: &Path) -> ApiError {
    ApiError::not_found(format!("this is a link out of the viewed folder: {path:?}"))
        .hint("view the folder that it leads to")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use std::os::unix::fs::symlink;

    use super::*;

    fn tree(root: &Path) -> Tree {
        Tree::open(root, Box::new(|_| ResultsList::default())).unwrap()
    }

    #[test]
    fn only_what_lies_in_the_folder_is_opened() {
        let (place, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        RunDir::create(place.path(), "tiny", "a").unwrap();
        RunDir::create(elsewhere.path(), "tiny", "secret").unwrap();
        symlink(elsewhere.path().join("tiny/secret"), place.path().join("tiny/linked")).unwrap();
        symlink(place.path().join("tiny/a"), place.path().join("tiny/within")).unwrap();
        let tree = tree(place.path());
        assert_eq!(tree.run("tiny/a").unwrap().run_id(), "a");
        assert_eq!(tree.run("tiny/within").unwrap().run_id(), "a", "a link within the tree is as good as a folder");
        let outside = elsewhere.path().join("tiny/secret").display().to_string();
        for name in ["tiny/linked", "../x", "tiny/../../x", "/etc", "", "tiny/none", "tiny/a\0", &outside] {
            assert!(tree.run(name).is_err(), "{name:?}");
        }
        assert_eq!(tree.name_of(&tree.root().join("tiny/a")), "tiny/a");
        assert_eq!(tree.name_of(tree.root()), ".");
    }

    #[test]
    fn a_run_with_files_from_elsewhere_or_with_a_pipe_is_refused() {
        let (place, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let run = RunDir::create(place.path(), "tiny", "a").unwrap();
        let table = run.path().join("trace.parquet");
        fs::write(elsewhere.path().join("secret"), "secret").unwrap();
        symlink(elsewhere.path().join("secret"), &table).unwrap();
        assert!(tree(place.path()).run("tiny/a").is_err());
        fs::remove_file(&table).unwrap();
        symlink(elsewhere.path(), place.path().join("tiny/linked")).unwrap();
        assert!(tree(place.path()).check_run(&place.path().join("tiny/linked")).is_err(), "a folder from elsewhere");
        rustix::fs::mknodat(rustix::fs::CWD, &table, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(tree(place.path()).run("tiny/a").is_err());
        fs::remove_file(&table).unwrap();
        assert!(tree(place.path()).run("tiny/a").is_ok());
    }

    #[test]
    fn a_folder_without_a_state_is_a_run_that_begins_or_none() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("tiny/a");
        fs::create_dir_all(&folder).unwrap();
        let said = || tree(place.path()).run("tiny/a").err().map(|error| error.to_string()).unwrap();
        assert!(said().contains("just beginning"), "{}", said());
        let long_ago = std::time::SystemTime::now() - 10 * LONGEST_BEGINNING;
        fs::File::open(&folder).unwrap().set_modified(long_ago).unwrap();
        assert!(said().contains("no run here"), "{}", said());
    }
}
