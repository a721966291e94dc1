"""What a capture says when it ends: what could not be captured, and what it could not keep up with."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

from dwell.errors import CaptureError, CaptureWarning

__all__ = ["Failures", "warn", "warn_of_slowness"]

# A capture that made the model wait for less than this part of its time has not slowed it down.
WAITED_SHARE = 0.02


class Failures:
    """Tensors that could not be captured, counted by name and reason."""

    def __init__(self, is_strict: bool) -> None:
        self._is_strict = is_strict
        self._counts: Counter[tuple[str, str]] = Counter()
        self._first: Exception | None = None

    def add(self, name: str, error: Exception) -> None:
        """Counts a tensor of this name; raises at once in a strict capture."""
        if self._is_strict:
            raise error
        self._first = self._first or error
        self._counts[name, str(getattr(error, "message", error))] += 1

    def sum(self) -> CaptureError | None:
        """All of them as one error, if there are any."""
        if not self._counts:
            return None
        total = self._counts.total()
        (name, message), _ = next(iter(self._counts.items()))
        others = f", and {len(self._counts) - 1} more of the kind" if len(self._counts) > 1 else ""
        failure = CaptureError(
            f"{total} {'tensor' if total == 1 else 'tensors'} could not be captured; "
            f"capturing the output of {name!r} found {message}{others}",
            getattr(self._first, "hints", ()),
        )
        failure.__cause__ = self._first
        return failure


def warn(message: str, hint: str) -> None:
    """Warns whoever wrote the `with` block that ends."""
    warnings.warn(f"{message}\nhint: {hint}", CaptureWarning, stacklevel=4)


def warn_of_slowness(path: str, target_gbps: float | None, summary: dict[str, Any] | None) -> None:
    """Warns if a capture stored less than it should have and held the model up, or dropped tensors."""
    if target_gbps is None or summary is None or not summary["duration_s"]:
        return
    waited = summary["producers_waited_s"] / summary["duration_s"]
    rate = (summary["raw_bytes"] - summary["dropped_bytes"]) / summary["duration_s"] / 1e9
    if rate < target_gbps and (waited > WAITED_SHARE or summary["dropped_packets"]):
        dropped = f", {summary['dropped_packets']} tensors were dropped" if summary["dropped_packets"] else ""
        warn(
            f"the capture {path!r} stored {rate:.2f} GB/s of {target_gbps:g} GB/s; "
            f"the model waited {waited:.0%} of the time{dropped}",
            "capture less (targets, layers, slice), store it smaller (with_compression), or write to a faster disk",
        )
