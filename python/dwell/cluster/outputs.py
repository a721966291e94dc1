"""Where the files of an analysis go.

Those of a run appear together: a folder is renamed when it is complete, and on a store `analysis.json`, which lists the
others with their SHA-256, is written last.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dwell.cluster.s3 import S3Prefix, parse_s3
from dwell.errors import StorageError, UsageError

__all__ = ["MARK_FILE", "Output", "mark_of", "open_output"]

MARK_FILE = "analysis.json"
_PARTIAL_PREFIX = ".partial-"


def mark_of(run_uri: str, version: str, options: tuple[str, ...], files: dict[str, bytes]) -> bytes:
    """Content of `analysis.json`: how the files beside it were computed, and what they are."""
    listed = [
        {"path": path, "size_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for path, content in sorted(files.items())
    ]
    mark = {"run": run_uri, "dwell": version, "options": list(options), "files": listed}
    return (json.dumps(mark, indent=2) + "\n").encode()


@dataclass(frozen=True)
class LocalOutput:
    """A folder. Only this process writes to it: workers need not see it."""

    root: str

    @property
    def uri(self) -> str:
        return self.root

    def mark(self, name: str) -> Any | None:
        """What `analysis.json` of a run says; `None` if there is none."""
        try:
            return _parsed((self._folder(name) / MARK_FILE).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def check(self, name: str) -> None:
        """Refuses to replace a folder that is not an analysis."""
        folder = self._folder(name)
        if folder.exists() and not (folder / MARK_FILE).exists() and any(folder.iterdir()):
            raise UsageError(
                f"the folder for an analysis has other files: {str(folder)!r}", ["name another one with --output"]
            )

    def write(self, name: str, files: dict[str, bytes]) -> None:
        """Writes the files of a run, replacing earlier ones together."""
        folder = self._folder(name)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            partial = Path(tempfile.mkdtemp(prefix=_PARTIAL_PREFIX, dir=folder.parent))
            try:
                _fill(partial / "new", files)
                _put_in_place(partial, folder)
            finally:
                shutil.rmtree(partial)
        except OSError as error:
            raise StorageError(f"writing the analysis of a run failed: {error.strerror}: {str(folder)!r}") from error

    def _folder(self, name: str) -> Path:
        return Path(self.root, name) if name else Path(self.root)


@dataclass(frozen=True)
class S3Output:
    """A prefix of a store."""

    prefix: S3Prefix

    @property
    def uri(self) -> str:
        return self.prefix.uri

    def mark(self, name: str) -> Any | None:
        content = self.prefix.below(name).read(MARK_FILE)
        return None if content is None else _parsed(content)

    def check(self, name: str) -> None:
        """Objects with other names stay."""

    def write(self, name: str, files: dict[str, bytes]) -> None:
        below = self.prefix.below(name)
        # Without its list, an analysis that is being replaced does not look whole.
        below.remove(MARK_FILE)
        for path in sorted(files, key=lambda path: (path == MARK_FILE, path)):
            below.write(path, files[path])


Output = LocalOutput | S3Output


def open_output(uri: str, endpoint_url: str | None) -> Output:
    """The folder or prefix that a URI names."""
    prefix = parse_s3(uri, endpoint_url)
    return S3Output(prefix) if prefix else LocalOutput(os.path.abspath(uri.removeprefix("file://")))


def _fill(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir()
    for path, content in files.items():
        with open(folder / path, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def _put_in_place(partial: Path, folder: Path) -> None:
    """Renames `new` to the folder. Between the two renames there is no analysis, never half of one."""
    if folder.exists():
        folder.rename(partial / "old")
    (partial / "new").rename(folder)


def _parsed(content: bytes) -> Any | None:
    try:
        return json.loads(content)
    except ValueError:
        return None
