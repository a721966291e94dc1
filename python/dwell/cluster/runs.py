"""The runs of a results tree, told by the files in it. The rules are those of `dwell analyse`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Run", "StoredFile", "runs_among"]

# A folder with one of these is a run. dwell writes the first; runs of other programs have at least one of the others.
_MARKS = ("raw/STATE", "metadata.json", "trace.parquet")
_EXPERIMENTS = "experiments"


@dataclass(frozen=True)
class StoredFile:
    """A file of a run or of a tree."""

    path: str
    """Relative to the run or the tree, with slashes."""
    size_bytes: int
    tag: str
    """Changes when the content changes."""


@dataclass(frozen=True)
class Run:
    """One run directory."""

    name: str
    """Its path below the URI that was asked about; empty if that is the run itself."""
    uri: str
    files: tuple[StoredFile, ...]

    @property
    def trace_bytes(self) -> int | None:
        """Size of `trace.parquet`; `None` if there is none, and so nothing to analyse."""
        return next((file.size_bytes for file in self.files if file.path == "trace.parquet"), None)

    def files_for_analysis(self) -> tuple[StoredFile, ...]:
        """What `dwell analyse` reads: the tables and the small files beside them, and the state of the run."""
        return tuple(file for file in self.files if _is_for_analysis(file.path))


def runs_among(root_uri: str, files: Iterable[StoredFile]) -> list[Run]:
    """The runs below a root, by path, of all files below it."""
    listed = list(files)
    folders = _run_folders(file.path for file in listed)
    by_folder: dict[str, list[StoredFile]] = {folder: [] for folder in folders}
    for file in listed:
        for folder in _enclosing(file.path):
            if folder in by_folder and _is_plain(file.path):
                below = file.path[len(folder) + 1 :] if folder else file.path
                by_folder[folder].append(StoredFile(below, file.size_bytes, file.tag))
    root = root_uri.rstrip("/")
    return [Run(folder, f"{root}/{folder}" if folder else root, tuple(by_folder[folder])) for folder in folders]


def _run_folders(paths: Iterable[str]) -> list[str]:
    marked = {folder for path in paths for folder in _marked_by(path)}
    if "" in marked:
        return [""]
    visible = {folder for folder in marked if not any(part.startswith(".") for part in folder.split("/"))}
    shallow = {folder for folder in visible if "/" not in folder}
    deep = {folder for folder in visible if folder.count("/") == 1 and _is_model(folder.split("/")[0], shallow)}
    return sorted(shallow | deep, key=lambda folder: folder.split("/"))


def _is_model(folder: str, runs: set[str]) -> bool:
    return folder != _EXPERIMENTS and folder not in runs


def _marked_by(path: str) -> Iterable[str]:
    for mark in _MARKS:
        if path == mark:
            yield ""
        elif path.endswith(f"/{mark}"):
            yield path[: -len(mark) - 1]


def _enclosing(path: str) -> Iterable[str]:
    """The folders around a file that may be runs: the root, and two levels below it."""
    parts = path.split("/")[:-1]
    return ("/".join(parts[:depth]) for depth in range(min(len(parts), 2) + 1))


def _is_plain(path: str) -> bool:
    """Whether a path stays below its root: keys of an object store may have any text."""
    return all(part not in ("", ".", "..") and "\0" not in part for part in path.split("/"))


def _is_for_analysis(path: str) -> bool:
    return path == "raw/STATE" or ("/" not in path and path.endswith((".parquet", ".json", ".csv")))
