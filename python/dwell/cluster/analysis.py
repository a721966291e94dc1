"""`dwell analyse` on every run of a results tree, on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dwell.cluster.outputs import MARK_FILE, Output, mark_of, open_output
from dwell.cluster.plan import Plan, PlannedRun, Splitting, plan_runs
from dwell.cluster.pool import Limits, Pool
from dwell.cluster.progress import Progress
from dwell.cluster.s3 import credentials_here
from dwell.cluster.sources import find_runs, open_source
from dwell.cluster.tasks import (
    Analysed,
    Failure,
    Settings,
    analyse_part,
    analyse_run,
    command_version,
    merge_parts,
)
from dwell.errors import UsageError

__all__ = ["Analysis", "RunAnalysis", "analyse", "explain"]

# Options of `dwell analyse` that are for several runs, that write no files, or that the tasks themselves pass.
_OPTIONS_REFUSED = {
    "--approximate",
    *("-o", "--output", "--force", "--json", "--experiment", "--include"),
    *("--part", "--part-output", "--parts", "--merge-parts", "--explain", "--memory-limit"),
}


@dataclass(frozen=True)
class RunAnalysis:
    """What became of one run."""

    name: str
    uri: str
    output: str | None
    """Where its files are; `None` if it failed."""
    warnings: tuple[str, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True)
class Analysis:
    """What became of all runs, in the order of their paths."""

    output: str
    runs: list[RunAnalysis] = field(default_factory=list)
    without_trace: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """Runs whose earlier analysis was kept (`resume`)."""

    @property
    def failed(self) -> list[RunAnalysis]:
        """The runs that could not be analysed."""
        return [run for run in self.runs if run.failure is not None]


def analyse(
    uri: str | os.PathLike[str],
    *,
    address: str | None = None,
    output: str | os.PathLike[str] | None = None,
    options: Sequence[str] = (),
    splitting: Splitting = Splitting(),
    limits: Limits = Limits(),
    force: bool = False,
    resume: bool = False,
    endpoint_url: str | None = None,
    forward_credentials: bool = False,
    scratch_dir: str | None = None,
    scratch_limit_bytes: int | None = None,
    show_progress: bool = False,
) -> Analysis:
    """Computes the metrics of every run below `uri` on a Ray cluster.

    `uri` is a run, a results directory or a model's folder that every node sees at the same path, or
    `s3://bucket/prefix`. `address` is that of the cluster, as for `ray.init`. The files of each run go to its folder in
    `output`, by default the URI with `-analysis` added, and equal those of `dwell analyse RUN -o DIR` with `options`.

    A run that cannot be analysed is in `failed` of the result, and the others go on.
    """
    _check_options(options)
    source = open_source(uri, endpoint_url, credentials_here() if forward_credentials else None)
    settings = Settings(
        source, command_version(), tuple(options), limits.memory_bytes, scratch_dir, scratch_limit_bytes
    )
    plan = plan_runs(source, find_runs(source), splitting)
    target = open_output(os.fspath(output) if output else f"{source.uri}-analysis", endpoint_url)
    plan, kept = _without_done(plan, target, settings, force, resume)
    if not plan.runs:
        return Analysis(target.uri, [], plan.without_trace, kept)
    with Pool(address, settings, limits) as pool:
        job = _Job(pool, plan, target, settings, show_progress)
        return Analysis(target.uri, job.run(), plan.without_trace, kept)


def explain(
    uri: str | os.PathLike[str],
    *,
    options: Sequence[str] = (),
    splitting: Splitting = Splitting(),
    limits: Limits = Limits(),
    endpoint_url: str | None = None,
) -> dict[str, Any]:
    """What `analyse` would do: its tasks, what they read and where they run. Needs no cluster."""
    _check_options(options)
    source = open_source(uri, endpoint_url, None)
    return plan_runs(source, find_runs(source), splitting).explain(tuple(options), limits.cpus_per_task)


class _Job:
    """An analysis that is going on."""

    def __init__(self, pool: Pool, plan: Plan, output: Output, settings: Settings, is_shown: bool) -> None:
        self._pool, self._plan, self._output, self._settings = pool, plan, output, settings
        self._progress = Progress(len(plan.runs), plan.tasks, is_shown)
        self._done: dict[int, RunAnalysis] = {}

    def run(self) -> list[RunAnalysis]:
        try:
            for index, planned in enumerate(self._plan.runs):
                self._submit(index, planned)
            while not self._pool.is_empty:
                self._settle()
        finally:
            self._progress.close()
        return [self._done[index] for index in range(len(self._plan.runs))]

    def _submit(self, index: int, planned: PlannedRun) -> None:
        """Submits the tasks of a run. The last one gives its result; others are told by `None`."""
        if planned.parts == 1:
            self._submit_task(index, analyse_run, planned.run)
            return
        parts = [
            self._submit_task(None, analyse_part, planned.run, number, planned.parts)
            for number in range(1, planned.parts + 1)
        ]
        self._submit_task(index, merge_parts, planned.run, *parts)

    def _submit_task(self, index: int | None, task: Any, *arguments: Any) -> Any:
        while self._pool.is_full:
            self._settle()
        return self._pool.submit(index, task, *arguments)

    def _settle(self) -> None:
        for index, reference in self._pool.wait():
            self._progress.task_done()
            if isinstance(index, int):
                self._finish(index, self._pool.result(reference))
        self._progress.show()

    def _finish(self, index: int, result: Analysed | Failure) -> None:
        run = self._plan.runs[index].run
        if isinstance(result, Failure):
            self._done[index] = RunAnalysis(run.name, run.uri, None, failure=result)
            self._progress.note(failure_text(self._done[index]))
        else:
            mark = mark_of(run.uri, self._settings.version, self._settings.options, result.files)
            self._output.write(run.name, {**result.files, MARK_FILE: mark})
            output = f"{self._output.uri}/{run.name}".rstrip("/")
            self._done[index] = RunAnalysis(run.name, run.uri, output, result.warnings)
        self._progress.run_done(is_failed=isinstance(result, Failure))


def failure_text(run: RunAnalysis) -> str:
    """Why a run has no analysis, as lines for standard error."""
    assert run.failure is not None
    return "\n".join([f"error: {run.uri}: {run.failure.message}", *(f"hint: {hint}" for hint in run.failure.hints)])


def _check_options(options: Sequence[str]) -> None:
    for option in options:
        if option.split("=")[0] in _OPTIONS_REFUSED:
            raise UsageError(f"an analysis on a cluster passes {option.split('=')[0]} itself, or has no such analysis")


def _without_done(
    plan: Plan, output: Output, settings: Settings, force: bool, resume: bool
) -> tuple[Plan, tuple[str, ...]]:
    """The plan without runs whose analysis is kept. One that would be replaced is an error, unless `force` says so."""
    left, kept = [], []
    for planned in plan.runs:
        name = planned.run.name
        output.check(name)
        mark = output.mark(name)
        if resume and _is_same(mark, settings):
            kept.append(name or planned.run.uri)
        elif mark is not None and not force and not resume:
            raise UsageError(
                f"the run has an analysis already: {output.uri}/{name}".rstrip("/"),
                ["replace it with --force, or keep those that are complete with --resume"],
            )
        else:
            left.append(planned)
    return Plan(plan.source, tuple(left), plan.without_trace), tuple(kept)


def _is_same(mark: Any, settings: Settings) -> bool:
    is_mark = isinstance(mark, dict)
    return is_mark and mark.get("dwell") == settings.version and mark.get("options") == list(settings.options)
