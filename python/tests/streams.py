"""Streams without a model."""

from __future__ import annotations

from dwell import _core


def options(codec: str, **changes: object) -> _core.Options:
    """Settings of a stream with one worker."""
    values = {
        "codec": codec,
        "pressure": "block",
        "max_memory_bytes": 64 << 20,
        "flush_bytes": None,
        "flush_interval_s": None,
        "workers": 1,
        "direct_io": "auto",
        "spill_dir": None,
        "max_spill_bytes": None,
        "checkpoint_path": None,
        "metadata": {},
    }
    return values | changes  # type: ignore[return-value]
