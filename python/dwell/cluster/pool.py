"""Tasks on a Ray cluster: a bounded number in flight, repeated if their worker dies, ended when nobody waits."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from dwell.cluster.tasks import Failure, Interrupted, Settings, sweep
from dwell.errors import DwellError, UsageError

__all__ = ["Limits", "Pool"]

# How long tasks may take to end after they were cancelled, and nodes to say that they removed scratch files.
_GRACE_S = 10.0
_WAIT_S = 0.2


@dataclass(frozen=True)
class Limits:
    """How much a job may ask of a cluster."""

    in_flight: int | None = None
    """Tasks that are submitted and not done. By default twice as many as the cluster can run at once."""
    cpus_per_task: float = 1.0
    memory_bytes: int | None = None
    """Memory that a task reserves on its node; a run that is not split is analysed within it."""
    retries: int = 3
    """How often a task is repeated whose worker or node died."""

    def __post_init__(self) -> None:
        if (self.in_flight is not None and self.in_flight < 1) or self.cpus_per_task < 0 or self.retries < 0:
            raise UsageError(f"limits of tasks must be positive: {self}")


class Pool:
    """A connection to a cluster, and the tasks that run there. Leaving the block ends what still runs."""

    def __init__(self, address: str | None, settings: Settings, limits: Limits) -> None:
        self._ray = _import_ray()
        self._settings = settings
        self._limits = limits
        self._keys: dict[Any, Hashable] = {}
        self._is_own = not self._ray.is_initialized()
        # None starts a cluster on this machine, unless the variable is set.
        self._address = address or os.environ.get("RAY_ADDRESS")
        if self._is_own:
            self._connect()
        self.in_flight_max = limits.in_flight or self._default_in_flight()
        self._warn_if_no_node_fits()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._stop()
        finally:
            if self._is_own:
                self._ray.shutdown()

    @property
    def is_full(self) -> bool:
        return len(self._keys) >= self.in_flight_max

    @property
    def is_empty(self) -> bool:
        return not self._keys

    def submit(self, key: Hashable, task: Callable[..., Any], *arguments: Any) -> Any:
        """Starts a task and returns the reference to its result, which can be an argument of another one."""
        remote = self._ray.remote(task).options(
            name=f"dwell {task.__name__}",
            num_cpus=self._limits.cpus_per_task,
            memory=self._limits.memory_bytes,
            max_retries=self._limits.retries,
            retry_exceptions=[Interrupted],
            scheduling_strategy="SPREAD",
        )
        reference = remote.remote(self._settings, *arguments)
        self._keys[reference] = key
        return reference

    def wait(self) -> list[tuple[Hashable, Any]]:
        """The tasks that are done, with references to their results; none if a short while has passed."""
        done, _ = self._ray.wait(list(self._keys), num_returns=1, timeout=_WAIT_S, fetch_local=False)
        return [(self._keys.pop(reference), reference) for reference in done]

    def result(self, reference: Any) -> Any:
        """What a task returned, or a `Failure` if its workers died too often or cannot run it."""
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            is_repeated = isinstance(error.cause, Interrupted)
            return Failure(f"the task failed{self._times if is_repeated else ''}: {error.cause}")
        except self._ray.exceptions.RayError as error:
            return Failure(f"the worker of the task died{self._times}: {_last_line(error)}")

    @property
    def _times(self) -> str:
        return f" {self._limits.retries + 1} times" if self._limits.retries else ""

    def _connect(self) -> None:
        try:
            self._ray.init(address=self._address, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise DwellError(
                f"connecting to a Ray cluster at {self._address or 'this machine'} failed: {_last_line(error)}",
                ["start one with `ray start --head`, and pass the address that it prints"],
            ) from error

    def _default_in_flight(self) -> int:
        cpus = self._ray.cluster_resources().get("CPU", 1.0)
        return max(2, int(2 * cpus / max(self._limits.cpus_per_task, 0.1)))

    def _warn_if_no_node_fits(self) -> None:
        if not self._nodes_for_tasks():
            cpus = f"{self._limits.cpus_per_task:g}"
            print(f"warning: no node has {cpus} CPUs; tasks wait until one joins", file=sys.stderr)

    def _nodes_for_tasks(self) -> list[str]:
        """The nodes on which tasks may run. A head is often without CPUs."""
        alive = [node for node in self._ray.nodes() if node["Alive"]]
        return [node["NodeID"] for node in alive if node["Resources"].get("CPU", 0.0) >= self._limits.cpus_per_task]

    def _stop(self) -> None:
        """Ends what runs, and removes scratch files from all nodes: those kept for later tasks, and those that killed
        workers left."""
        running = list(self._keys)
        self._keys.clear()
        if not running:
            self._sweep(wait_s=0.0)
        elif self._is_own:
            # Ray ends the tasks of a process that leaves. `ray.cancel` would do it one by one, and version 2.60 aborts
            # this process if a task completes at that moment ("Tried to complete task that was not pending").
            self._ray.shutdown()
            self._settings.scratch().sweep(_GRACE_S)
            if self._address not in (None, "local"):
                self._connect()
                self._sweep(_GRACE_S)
        else:
            self._cancel(running)
            self._sweep(_GRACE_S)

    def _cancel(self, running: list[Any]) -> None:
        """Cancels tasks on a connection that is not ours. They get time to remove their files."""
        for is_forced in (False, True):
            for reference in running:
                self._ray.cancel(reference, force=is_forced)
            _, running = self._ray.wait(running, num_returns=len(running), timeout=_GRACE_S, fetch_local=False)
            if not running:
                return

    def _sweep(self, wait_s: float) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        references = [
            self._ray.remote(sweep)
            .options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
            .remote(self._settings, wait_s)
            for node in self._nodes_for_tasks()
        ]
        # A node that does not answer is swept by the next analysis on it.
        if references:
            self._ray.wait(references, num_returns=len(references), timeout=wait_s + _GRACE_S)


def _import_ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError as error:
        raise DwellError(
            "analysing on a cluster needs the module ray, which is not installed", ["pip install 'dwell[cluster]'"]
        ) from error
    return ray


def _last_line(error: BaseException) -> str:
    """Ray's messages have traces of several processes; the last line says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
