"""Which forward pass of a model a thread is in."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["OfThread", "Passes"]


class OfThread(threading.local):
    """Where a thread is."""

    depth = 0
    step: int | None = None
    """The pass that it is in; `None` outside of one."""


class Passes:
    """Counts the forward passes of one model; threads that run it at once are in different passes."""

    def __init__(self, first_step: int, on_end: Callable[[], None]) -> None:
        self.begun = 0
        self.here = OfThread()
        self._next_step = first_step
        self._on_end = on_end
        self._lock = threading.Lock()

    def close(self) -> None:
        """Nobody is told of ends any more."""
        self._on_end = _nothing
        self.here.step = None

    def __deepcopy__(self, memo: object) -> Passes:
        """A copy of a model is counted, and captured, with it."""
        return self

    def step(self) -> int:
        """The pass that this thread is in; outside of one, that which began last."""
        step = self.here.step
        return step if step is not None else max(0, self._next_step - 1)

    def begin(self, *_: object) -> None:
        """A forward pass begins; given to the model as a hook."""
        here = self.here
        here.depth += 1
        if here.depth == 1 and self._on_end is not _nothing:
            with self._lock:
                here.step = self._next_step
                self._next_step += 1
                self.begun += 1

    def end(self, *_: object) -> None:
        """A forward pass ends, with a result or an exception."""
        here = self.here
        if here.depth == 0:
            # The capture began within the pass.
            return
        here.depth -= 1
        if here.depth == 0:
            here.step = None
            self._on_end()


def _nothing() -> None:
    pass
