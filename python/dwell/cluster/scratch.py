"""Temporary files of tasks on a node: bounded, shared between tasks that read the same run, and not left behind.

Every entry is a folder with a lock file, on which its users hold a lock. The kernel drops those of a killed process,
so the next one can tell what is in use from what was left. `ledger` is locked while entries are made, found or removed,
and never during a download.

```
dwell-cluster-<uid>/ledger
dwell-cluster-<uid>/<key>/lock      reserved bytes, as text; locked exclusively while filled, shared while used
dwell-cluster-<uid>/<key>/whole     exists once all files are there
dwell-cluster-<uid>/<key>/files/
```
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dwell.errors import StorageError

__all__ = ["Scratch"]

_POLL_S = 0.1


class Scratch:
    """The scratch folder of a node, of which tasks reserve bytes before they write."""

    def __init__(self, root: str | None = None, limit_bytes: int | None = None) -> None:
        self._root = Path(root or tempfile.gettempdir()) / f"dwell-cluster-{os.getuid()}"
        self._limit_bytes = limit_bytes

    @contextmanager
    def private(self, reserved_bytes: int) -> Iterator[Path]:
        """An empty folder for one task, removed afterwards."""
        with self._filled(uuid.uuid4().hex, reserved_bytes, lambda _: None, is_kept=False) as folder:
            yield folder

    @contextmanager
    def shared(self, key: str, reserved_bytes: int, fill: Callable[[Path], None]) -> Iterator[Path]:
        """A folder that `fill` has filled, now or for an earlier task with the same key. It stays for later tasks until
        its space is needed or `sweep` is called."""
        with self._filled(key, reserved_bytes, fill, is_kept=True) as folder:
            yield folder

    def sweep(self, wait_s: float = 0.0) -> None:
        """Removes what no task uses, also what killed processes left. Waits so long for tasks that are ending."""
        end_s = time.monotonic() + wait_s
        while self._root.is_dir():
            with self._ledger():
                self._evict()
                is_clean = not self._entries()
            if is_clean or time.monotonic() >= end_s:
                return
            time.sleep(_POLL_S)

    @contextmanager
    def _filled(self, key: str, reserved_bytes: int, fill: Callable[[Path], None], is_kept: bool) -> Iterator[Path]:
        entry = self._root / key
        lock = self._enter(entry, reserved_bytes)
        try:
            if not (entry / "whole").exists():
                self._fill(entry, lock, fill)
            yield entry / "files"
        finally:
            with self._ledger():
                if is_kept and (entry / "whole").exists():
                    os.close(lock)
                else:
                    _remove(entry, lock)

    def _fill(self, entry: Path, lock: int, fill: Callable[[Path], None]) -> None:
        fill(entry / "files")
        # From exclusive to shared is not one step; nobody may come between.
        with self._ledger():
            (entry / "whole").touch()
            fcntl.flock(lock, fcntl.LOCK_SH)

    def _enter(self, entry: Path, reserved_bytes: int) -> int:
        """Waits until the entry can be used or made; returns the descriptor that holds its lock."""
        while True:
            with self._ledger():
                lock = self._try_to_use(entry)
                if lock is None and not entry.exists() and self._has_room(reserved_bytes):
                    lock = _make(entry, reserved_bytes)
            if lock is not None:
                return lock
            time.sleep(_POLL_S)

    def _try_to_use(self, entry: Path) -> int | None:
        lock = _locked(entry, fcntl.LOCK_SH)
        if lock is None or (entry / "whole").exists():
            return lock
        # The process that filled it was killed.
        _remove(entry, lock)
        return None

    def _has_room(self, needed_bytes: int) -> bool:
        free_bytes = shutil.disk_usage(self._root).free
        limit_bytes = self._limit_bytes
        if limit_bytes is None:
            # Half of the disk is left to others.
            limit_bytes = (free_bytes + self._reserved_bytes()) // 2
        if needed_bytes > limit_bytes:
            raise StorageError(
                f"a task needs {needed_bytes:,} bytes of scratch on its node, and the limit is {limit_bytes:,}: "
                f"{str(self._root)!r}",
                ["name a larger folder with --scratch DIR, or raise --scratch-limit"],
            )
        if self._reserved_bytes() + needed_bytes > limit_bytes:
            self._evict()
        return self._reserved_bytes() + needed_bytes <= limit_bytes

    def _reserved_bytes(self) -> int:
        return sum(_reserved(entry) for entry in self._entries())

    def _evict(self) -> None:
        for entry in self._entries():
            lock = _locked(entry, fcntl.LOCK_EX)
            if lock is not None:
                _remove(entry, lock)

    def _entries(self) -> list[Path]:
        return [entry for entry in self._root.iterdir() if entry.is_dir()]

    @contextmanager
    def _ledger(self) -> Iterator[None]:
        _make_own_folder(self._root)
        with open(self._root / "ledger", "w") as ledger:
            fcntl.flock(ledger, fcntl.LOCK_EX)
            yield


def _make(entry: Path, reserved_bytes: int) -> int:
    """Makes an entry and locks it. It gets its name last: a process may be killed at any point."""
    made = Path(tempfile.mkdtemp(dir=entry.parent))
    (made / "files").mkdir()
    lock = os.open(made / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.write(lock, str(reserved_bytes).encode())
    fcntl.flock(lock, fcntl.LOCK_EX)
    made.rename(entry)
    return lock


def _reserved(entry: Path) -> int:
    try:
        return int((entry / "lock").read_text() or 0)
    except FileNotFoundError:
        return 0


def _locked(entry: Path, how: int) -> int | None:
    """The descriptor of an entry's lock; `None` if there is no entry or others hold it."""
    if not entry.is_dir():
        return None
    lock = os.open(entry / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _remove(entry: Path, lock: int) -> None:
    shutil.rmtree(entry)
    os.close(lock)


def _make_own_folder(root: Path) -> None:
    """Makes the folder; refuses one that another user has put at a name that everybody knows."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise StorageError(
            f"the scratch folder belongs to another user or is a link: {str(root)!r}", ["name one with --scratch DIR"]
        )
