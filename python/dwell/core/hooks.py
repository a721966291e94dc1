"""Names of `dwell.config`."""

from dwell.config import HookConfig, HookGranularity

__all__ = ["HookConfig", "HookGranularity"]
