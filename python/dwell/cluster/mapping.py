"""Any function over every run of a tree, on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from dwell.cluster.pool import Limits, Pool
from dwell.cluster.runs import Run
from dwell.cluster.s3 import credentials_here
from dwell.cluster.sources import find_runs, open_source
from dwell.cluster.tasks import Called, Failure, Settings, call_with_run
from dwell.errors import DwellError

__all__ = ["MappedRun", "map_runs"]

Value = TypeVar("Value")

# Results that wait for an earlier run, for each task in flight.
_AHEAD = 4


@dataclass(frozen=True)
class MappedRun(Generic[Value]):
    """What a function returned for one run, or why it did not."""

    name: str
    uri: str
    value: Value | None = None
    failure: Failure | None = None

    def result(self) -> Value:
        """The value; raises if there is none."""
        if self.failure is not None:
            raise DwellError(f"{self.uri}: {self.failure.message}", self.failure.hints)
        return self.value  # type: ignore[return-value]


def map_runs(
    function: Callable[[Path], Value],
    uri: str | os.PathLike[str],
    *,
    address: str | None = None,
    limits: Limits = Limits(),
    endpoint_url: str | None = None,
    forward_credentials: bool = False,
    scratch_dir: str | None = None,
    scratch_limit_bytes: int | None = None,
) -> Iterator[MappedRun[Value]]:
    """Calls a function with the path of every run directory below `uri`, on a Ray cluster, and gives the results in the
    order of the runs.

    The path is local to the node: runs of a store are downloaded, all files of them. The function and what it returns
    are pickled. If it raises, the error is in `failure` of its run, and the others go on.
    """
    credentials = credentials_here() if forward_credentials else None
    source = open_source(uri, endpoint_url, credentials)
    runs = find_runs(source)
    settings = Settings(source, "", scratch_dir=scratch_dir, scratch_limit_bytes=scratch_limit_bytes)
    return _mapped(function, runs, Pool(address, settings, limits))


def _mapped(function: Callable[[Path], Value], runs: list[Run], pool: Pool) -> Iterator[MappedRun[Value]]:
    with pool:
        results: dict[int, Called | Failure] = {}
        submitted = 0
        for index, run in enumerate(runs):
            while index not in results:
                while submitted < len(runs) and not pool.is_full and submitted - index < _AHEAD * pool.in_flight_max:
                    pool.submit(submitted, call_with_run, runs[submitted], function)
                    submitted += 1
                results.update(
                    (done, pool.result(reference)) for done, reference in pool.wait() if isinstance(done, int)
                )
            yield _mapped_run(run, results.pop(index))


def _mapped_run(run: Run, result: Called | Failure) -> MappedRun[Value]:
    if isinstance(result, Failure):
        return MappedRun(run.name, run.uri, failure=result)
    return MappedRun(run.name, run.uri, value=result.value)
