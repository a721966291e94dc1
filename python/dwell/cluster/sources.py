"""Where runs are read from: a folder that every node sees, or a prefix of an S3-compatible store."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dwell.cluster.runs import Run, StoredFile, runs_among
from dwell.cluster.s3 import Credentials, S3Prefix, parse_s3
from dwell.cluster.scratch import Scratch
from dwell.errors import NotFoundError, StorageError

__all__ = ["Source", "fetched", "find_runs", "is_remote", "open_source"]

# A file of a run lies at most so many folders below the root of a tree: model, run, raw, programs.
_DEEPEST = 4


@dataclass(frozen=True)
class LocalFolder:
    """A folder on a file system that every node sees at the same path."""

    path: str

    @property
    def uri(self) -> str:
        return self.path

    def files(self) -> list[StoredFile]:
        if not os.path.isdir(self.path):
            raise NotFoundError(f"looking for runs found no such folder: {self.path!r}")
        return list(_walk(self.path, "", _DEEPEST))


Source = LocalFolder | S3Prefix


def open_source(uri: str | os.PathLike[str], endpoint_url: str | None, credentials: Credentials | None) -> Source:
    """The folder or prefix that a URI names."""
    text = os.fspath(uri)
    return parse_s3(text, endpoint_url, credentials) or LocalFolder(os.path.abspath(text.removeprefix("file://")))


def is_remote(source: Source) -> bool:
    """Whether runs have to be copied to a node before they are read."""
    return isinstance(source, S3Prefix)


def find_runs(source: Source) -> list[Run]:
    """The runs below a source, by path. A tree without any is an error."""
    runs = runs_among(source.uri, source.files())
    if not runs:
        raise NotFoundError(
            f"looking for runs found none: {source.uri!r}",
            ["name a run directory, a results directory or the folder of a model in one"],
        )
    return runs


@contextmanager
def fetched(source: Source, run: Run, files: Sequence[StoredFile], scratch: Scratch) -> Iterator[Path]:
    """A local folder with these files of a run, while the block lasts. Files in a folder are read where they are."""
    if isinstance(source, LocalFolder):
        yield _existing(run)
        return
    below = source.below(run.name)
    size_bytes = sum(file.size_bytes for file in files)
    with scratch.shared(_key(run, files), size_bytes, lambda folder: _download(below, run, files, folder)) as folder:
        yield folder / _folder_name(run)


def _existing(run: Run) -> Path:
    if not os.path.isdir(run.uri):
        raise NotFoundError(
            f"the node {socket.gethostname()} does not see the run: {run.uri!r}",
            ["mount the file system at the same path on every node, or use an S3-compatible store"],
        )
    return Path(run.uri)


def _download(source: S3Prefix, run: Run, files: Sequence[StoredFile], folder: Path) -> None:
    run_folder = folder / _folder_name(run)
    for file in files:
        to = run_folder / file.path
        source.download(file.path, to)
        found_bytes = to.stat().st_size
        if found_bytes != file.size_bytes:
            raise StorageError(
                f"downloading {source.uri}/{file.path} gave {found_bytes:,} bytes where {file.size_bytes:,} were listed; "
                "it was changed meanwhile"
            )


def _folder_name(run: Run) -> Path:
    """The last two names of a run: what its folders are called may say its model and id."""
    return Path(*run.uri.split("://")[-1].split("/")[-2:])


def _key(run: Run, files: Sequence[StoredFile]) -> str:
    """Other content has another key, so that nothing old is ever read."""
    told = "\n".join([run.uri, *(f"{file.path}\t{file.size_bytes}\t{file.tag}" for file in files)])
    return hashlib.sha256(told.encode()).hexdigest()


def _walk(root: str, below: str, deepest: int) -> Iterator[StoredFile]:
    for entry in sorted(os.scandir(os.path.join(root, below)), key=lambda entry: entry.name):
        path = f"{below}/{entry.name}" if below else entry.name
        if entry.is_dir(follow_symlinks=False):
            if deepest > 0:
                yield from _walk(root, path, deepest - 1)
        elif entry.is_file():
            found = entry.stat()
            yield StoredFile(path, found.st_size, str(found.st_mtime_ns))
