"""Names of `dwell.config`."""

from dwell.config import InstrumentationConfig

__all__ = ["InstrumentationConfig"]
