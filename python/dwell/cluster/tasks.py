"""What runs in the workers.

A task reads a run and returns bytes. It writes nothing outside its scratch folder, so it can be repeated at any time.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from dwell.cluster.runs import Run, StoredFile
from dwell.cluster.scratch import Scratch
from dwell.cluster.sources import Source, fetched, fetched_without_rows
from dwell.command import error_of, find_command
from dwell.errors import DwellError

__all__ = [
    "Analysed",
    "Called",
    "Failure",
    "Interrupted",
    "Part",
    "Settings",
    "analyse_part",
    "analyse_run",
    "call_with_run",
    "command_version",
    "merge_parts",
    "sweep",
]

Result = TypeVar("Result")
Fetch = Callable[[Source, Run, Sequence[StoredFile], Scratch], AbstractContextManager[Path]]

# How often a task looks whether it was cancelled while the command computes.
_POLL_S = 0.05
_PR_SET_PDEATHSIG = 1
# What else a task writes: what the command prints, and its files.
_OUTPUT_BYTES = 16 << 20


class Interrupted(Exception):
    """The command was killed, as when a machine has no memory left. Ray tries again, on another node if it can."""


@dataclass(frozen=True)
class Settings:
    """What all tasks of a job have in common."""

    source: Source
    version: str
    options: tuple[str, ...] = ()
    memory_bytes: int | None = None
    scratch_dir: str | None = None
    scratch_limit_bytes: int | None = None

    def memory_limit(self) -> list[str]:
        """The option of the command, which parts do not have: a run is split to need less."""
        return [] if self.memory_bytes is None else ["--memory-limit", str(self.memory_bytes)]

    def scratch(self) -> Scratch:
        return Scratch(self.scratch_dir, self.scratch_limit_bytes)


@dataclass(frozen=True)
class Failure:
    """Why a run has no result; it would fail again."""

    message: str
    hints: tuple[str, ...] = ()
    traceback: str = ""


@dataclass(frozen=True)
class Analysed:
    """The files of one run's analysis."""

    files: dict[str, bytes]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """The accumulators of the addresses of one part."""

    content: bytes = field(repr=False)


@dataclass(frozen=True)
class Called:
    """What a user's function returned."""

    value: Any


def analyse_run(settings: Settings, run: Run) -> Analysed | Failure:
    """`dwell analyse` on one run."""
    return _told(lambda: _analysed(settings, run, ()))


def analyse_part(settings: Settings, run: Run, number: int, count: int) -> Part | Failure:
    """The accumulators of one of `count` parts."""
    return _told(lambda: _part(settings, run, number, count))


def merge_parts(settings: Settings, run: Run, *parts: Part | Failure) -> Analysed | Failure:
    """The analysis of a run from the accumulators of all its parts."""
    failure = next((part for part in parts if isinstance(part, Failure)), None)
    if failure is not None:
        return failure
    return _told(lambda: _analysed(settings, run, [part.content for part in parts if isinstance(part, Part)]))


def call_with_run(settings: Settings, run: Run, function: Callable[[Path], Any]) -> Called | Failure:
    """A user's function with the local path of a run."""
    return _told(lambda: _called(settings, run, function))


def sweep(settings: Settings, wait_s: float) -> None:
    """Removes scratch files of this node that no task uses."""
    settings.scratch().sweep(wait_s)


def _told(work: Callable[[], Result]) -> Result | Failure:
    """Errors that would come again are values: Ray repeats a task that raises only if it was interrupted."""
    try:
        return work()
    except DwellError as error:
        return Failure(error.message, tuple(error.hints))
    except OSError as error:
        return Failure(str(error))


def _analysed(settings: Settings, run: Run, parts: Sequence[bytes]) -> Analysed:
    reserved_bytes = _OUTPUT_BYTES + sum(map(len, parts))
    fetch = fetched_without_rows if parts else fetched
    with _prepared(settings, run, reserved_bytes, fetch) as (path, folder):
        way = _written_parts(folder, parts) if parts else settings.memory_limit()
        return _run_analysis(path, folder, [*settings.options, *way])


def _run_analysis(run: Path, folder: Path, options: Sequence[str]) -> Analysed:
    written = folder / "written"
    warnings = _dwell(["analyse", str(run), "-o", str(written), *options], folder)
    return Analysed({path.name: path.read_bytes() for path in sorted(written.iterdir())}, warnings)


def _written_parts(folder: Path, parts: Sequence[bytes]) -> list[str]:
    """The arguments that name the parts, after they were written to files."""
    paths = [folder / f"part-{number}" for number in range(len(parts))]
    for path, content in zip(paths, parts, strict=True):
        path.write_bytes(content)
    return ["--merge-parts", *map(str, paths)]


def _part(settings: Settings, run: Run, number: int, count: int) -> Part:
    # Accumulators are smaller than the rows that they are made of.
    reserved_bytes = _OUTPUT_BYTES + (run.trace_bytes or 0) // count
    with _prepared(settings, run, reserved_bytes) as (path, folder):
        output = folder / "part"
        part = ["--part", f"{number}/{count}", "--part-output", str(output)]
        _dwell(["analyse", str(path), *settings.options, *part], folder)
        return Part(output.read_bytes())


@contextmanager
def _prepared(settings: Settings, run: Run, reserved_bytes: int, fetch: Fetch = fetched) -> Iterator[tuple[Path, Path]]:
    """The local path of a run, and a folder of the task's own."""
    _check_version(settings)
    scratch = settings.scratch()
    files = run.files_for_analysis()
    with fetch(settings.source, run, files, scratch) as path, scratch.private(reserved_bytes) as folder:
        yield path, folder


def _called(settings: Settings, run: Run, function: Callable[[Path], Any]) -> Called | Failure:
    with fetched(settings.source, run, run.files, settings.scratch()) as path:
        try:
            return Called(function(path))
        except Exception as error:
            return Failure(f"{type(error).__name__}: {error}", traceback=traceback.format_exc())


def _dwell(arguments: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Runs the command; returns its warnings."""
    with open(folder / "stderr", "w+b") as stderr:
        process = subprocess.Popen(
            [find_command(), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            # Where it sorts rows that are in no order.
            env=os.environ | {"TMPDIR": str(folder)},
            preexec_fn=_die_with_parent,
        )
        status = _wait(process)
        stderr.seek(0)
        said = stderr.read().decode(errors="replace")
    if status < 0:
        raise Interrupted(f"`dwell {' '.join(arguments)}` was killed by {signal.Signals(-status).name}")
    # 1 means that there is a result, and something about it to know.
    if status not in (0, 1):
        raise error_of(said, f"`dwell analyse` exited with {status}")
    return tuple(line for line in said.splitlines() if line.startswith("warning: "))


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Waits in short steps: Ray cancels a task by an exception, which a blocked system call would not see."""
    try:
        while True:
            try:
                return process.wait(timeout=_POLL_S)
            except subprocess.TimeoutExpired:
                continue
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


# Found in advance: between fork and exec nothing may take a lock, because another thread may have held it.
_prctl = ctypes.CDLL(None).prctl


def _die_with_parent() -> None:
    """A worker may be killed at any time, and its command must not go on alone."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _check_version(settings: Settings) -> None:
    found = command_version()
    if found != settings.version:
        raise DwellError(
            f"this node has {found}, and the analysis was started by {settings.version}",
            ["install the same version of dwell on every node"],
        )


@lru_cache
def command_version() -> str:
    """What `dwell --version` prints on this node."""
    done = subprocess.run([find_command(), "--version"], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()
