"""Where runs are read from: a folder that every node sees, or a prefix of an S3-compatible store."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dwell.cluster.runs import Run, StoredFile, runs_among
from dwell.cluster.s3 import Credentials, S3Prefix, parse_s3
from dwell.cluster.scratch import Scratch
from dwell.errors import NotFoundError, StorageError

__all__ = ["Source", "fetched", "fetched_without_rows", "find_runs", "is_remote", "open_source"]

# A file of a run lies at most so many folders below the root of a tree: model, run, raw, programs.
_DEEPEST = 4
_PARQUET_END_BYTES = 8
# Reserved for the footer of a long trace: about 100 bytes for each column of each row group.
_FOOTER_BYTES = 64 << 20
# The command compares files of up to 8 MiB with the manifest, all bytes of them.
_LONG_TRACE_BYTES = 8 << 20


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
Download = Callable[[S3Prefix, StoredFile, Path], None]


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
    else:
        size_bytes = sum(file.size_bytes for file in files)
        with _downloaded(source, run, files, _download, scratch, size_bytes) as folder:
            yield folder


@contextmanager
def fetched_without_rows(source: Source, run: Run, files: Sequence[StoredFile], scratch: Scratch) -> Iterator[Path]:
    """The same, with the footer alone of a long trace, which tells traces apart: parts are merged without rows."""
    if isinstance(source, LocalFolder) or not any(_is_long_trace(file) for file in files):
        with fetched(source, run, files, scratch) as folder:
            yield folder
    else:
        size_bytes = sum(_FOOTER_BYTES if _is_long_trace(file) else file.size_bytes for file in files)
        with _downloaded(source, run, files, _download_footer, scratch, size_bytes) as folder:
            yield folder


@contextmanager
def _downloaded(
    source: S3Prefix, run: Run, files: Sequence[StoredFile], download: Download, scratch: Scratch, size_bytes: int
) -> Iterator[Path]:
    def fill(folder: Path) -> None:
        for file in files:
            to = folder / _folder_name(run) / file.path
            to.parent.mkdir(parents=True, exist_ok=True)
            download(source.below(run.name), file, to)

    with scratch.shared(_key(download.__name__, run, files), size_bytes, fill) as folder:
        yield folder / _folder_name(run)


def _existing(run: Run) -> Path:
    if not os.path.isdir(run.uri):
        raise NotFoundError(
            f"the node {socket.gethostname()} does not see the run: {run.uri!r}",
            ["mount the file system at the same path on every node, or use an S3-compatible store"],
        )
    return Path(run.uri)


def _download(source: S3Prefix, file: StoredFile, to: Path) -> None:
    source.download(file.path, to)
    found_bytes = to.stat().st_size
    if found_bytes != file.size_bytes:
        raise StorageError(
            f"downloading {source.uri}/{file.path} gave {found_bytes:,} bytes where {file.size_bytes:,} were listed; "
            "it was changed meanwhile"
        )


def _download_footer(source: S3Prefix, file: StoredFile, to: Path) -> None:
    """Downloads a file; of a long trace its footer alone, at the end of a file that is as long and otherwise a hole."""
    if not _is_long_trace(file):
        _download(source, file, to)
        return
    # A Parquet file ends with the length of its footer and 4 bytes of magic.
    end = source.read_end(file.path, _PARQUET_END_BYTES)
    footer_bytes = int.from_bytes(end[:4], "little") + _PARQUET_END_BYTES
    footer = source.read_end(file.path, min(footer_bytes, file.size_bytes))
    with open(to, "wb") as written:
        written.seek(file.size_bytes - len(footer))
        written.write(footer)


def _is_long_trace(file: StoredFile) -> bool:
    return file.path == "trace.parquet" and file.size_bytes > _LONG_TRACE_BYTES


def _folder_name(run: Run) -> Path:
    """The last two names of a run: what its folders are called may say its model and id."""
    return Path(*run.uri.split("://")[-1].split("/")[-2:])


def _key(what: str, run: Run, files: Sequence[StoredFile]) -> str:
    """Other content has another key, so that nothing old is ever read."""
    told = "\n".join([what, run.uri, *(f"{file.path}\t{file.size_bytes}\t{file.tag}" for file in files)])
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
