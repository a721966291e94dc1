"""What an analysis does before it does anything: its runs, tasks and bytes."""

from __future__ import annotations

import json
import math
import subprocess
from dataclasses import dataclass
from typing import Any

from dwell.cluster.progress import bytes_text
from dwell.cluster.runs import Run
from dwell.cluster.sources import Source, is_remote
from dwell.command import error_of, find_command
from dwell.errors import UsageError

__all__ = ["Plan", "PlannedRun", "Splitting", "explained_text", "plan_runs"]

_PARTS_MAX = 64


@dataclass(frozen=True)
class Splitting:
    """Which runs are split by address, and into how many parts."""

    above_bytes: int = 4 << 30
    """Size of the trace above which a run is split. Every part reads all rows, so splitting pays for long runs only."""
    parts: int | None = None
    """Parts of a split run; by default one for each `above_bytes` of its trace."""

    def __post_init__(self) -> None:
        if self.above_bytes < 1 or (self.parts is not None and not 1 <= self.parts <= _PARTS_MAX):
            raise UsageError(f"a run is split into 1 to {_PARTS_MAX} parts, above a size of 1 byte or more: {self}")

    def parts_of(self, trace_bytes: int) -> int:
        if trace_bytes <= self.above_bytes:
            return 1
        return self.parts or min(_PARTS_MAX, math.ceil(trace_bytes / self.above_bytes))


@dataclass(frozen=True)
class PlannedRun:
    """A run that is to be analysed."""

    run: Run
    parts: int

    @property
    def tasks(self) -> int:
        return self.parts + 1 if self.parts > 1 else 1


@dataclass(frozen=True)
class Plan:
    """All runs of an analysis."""

    source: Source
    runs: tuple[PlannedRun, ...]
    without_trace: tuple[str, ...]
    """Runs without accesses, for which there is nothing to compute."""

    @property
    def tasks(self) -> int:
        return sum(planned.tasks for planned in self.runs)

    def explain(self, options: tuple[str, ...], cpus_per_task: float) -> dict[str, Any]:
        """The plan as a JSON value, with what each run makes tasks read."""
        rows = [_explained(self.source, planned, options) for planned in self.runs]
        return {
            "source": self.source.uri,
            "runs": rows,
            "without_trace": list(self.without_trace),
            "tasks": self.tasks,
            "read_bytes": sum(row["read_bytes"] for row in rows),
            "scratch_bytes": max((row["scratch_bytes"] for row in rows), default=0),
            "where": _where(self.source, cpus_per_task),
        }


def plan_runs(source: Source, runs: list[Run], splitting: Splitting) -> Plan:
    """The plan for these runs."""
    planned = tuple(PlannedRun(run, splitting.parts_of(run.trace_bytes)) for run in runs if run.trace_bytes is not None)
    without = tuple(run.name or run.uri for run in runs if run.trace_bytes is None)
    return Plan(source, planned, without)


def explained_text(explained: dict[str, Any]) -> str:
    """The plan for people."""
    lines = [
        f"source   {explained['source']}",
        f"runs     {len(explained['runs'])} to analyse, {len(explained['without_trace'])} without a trace",
        f"tasks    {explained['tasks']}",
        f"reads    {bytes_text(explained['read_bytes'])} at most",
        f"scratch  {bytes_text(explained['scratch_bytes'])} for the largest run, on the node that reads it",
        f"where    {explained['where']}",
        "",
    ]
    names = [row["run"] for row in explained["runs"]]
    width = max(map(len, ["run", *names]))
    lines.append(f"{'run':<{width}}  {'tasks':>5}  {'parts':>5}  {'reads':>9}")
    for row in explained["runs"]:
        lines.append(f"{row['run']:<{width}}  {row['tasks']:>5}  {row['parts']:>5}  {bytes_text(row['read_bytes']):>9}")
    return "\n".join(lines) + "\n"


def _explained(source: Source, planned: PlannedRun, options: tuple[str, ...]) -> dict[str, Any]:
    run = planned.run
    size_bytes = sum(file.size_bytes for file in run.files_for_analysis())
    told: dict[str, Any] = {
        "run": run.name or run.uri,
        "tasks": planned.tasks,
        "parts": planned.parts,
        "trace_bytes": run.trace_bytes,
        # Nodes keep what they downloaded for the next part; at worst every part is on a node of its own.
        "read_bytes": size_bytes * planned.parts,
        "scratch_bytes": size_bytes if is_remote(source) else 0,
    }
    # The command looks into the trace to tell. For every run of a large tree that would take minutes.
    if planned.parts > 1 and not is_remote(source):
        command = _explanation_of(run.uri, planned.parts, options)
        told |= {"read_bytes": sum(part["column_bytes"] for part in command["parts"]), "command": command}
    return told


def _explanation_of(run: str, parts: int, options: tuple[str, ...]) -> Any:
    """What `dwell analyse --explain` says about a run in so many parts."""
    words = [find_command(), "analyse", run, "--explain", "--parts", str(parts), "--json", *options]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise error_of(done.stderr, f"`dwell analyse --explain` exited with {done.returncode}")
    return json.loads(done.stdout)


def _where(source: Source, cpus_per_task: float) -> str:
    cpus = f"any node with {cpus_per_task:g} free {'CPU' if cpus_per_task == 1 else 'CPUs'}"
    if is_remote(source):
        return f"{cpus} that reaches the store; runs are downloaded to its scratch folder"
    return f"{cpus} that sees {source.uri} at this path; files are read in place"
