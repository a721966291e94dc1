"""The command `dwell`, which the wheel brings along: finding it, and errors from what it prints."""

from __future__ import annotations

import shutil
import sysconfig

from dwell.errors import DwellError, NotFoundError

__all__ = ["error_of", "find_command"]


def find_command() -> str:
    """The command of this Python environment, or else the one on the PATH."""
    found = shutil.which("dwell", path=sysconfig.get_path("scripts")) or shutil.which("dwell")
    if found is None:
        raise NotFoundError("looking for the command dwell found none on the PATH", ["pip install dwell"])
    return found


def error_of(printed: str, otherwise: str) -> DwellError:
    """What the command printed to standard error before it exited with 2; `otherwise` if it printed nothing."""
    lines = [line for line in printed.strip().splitlines() if not line.startswith("warning: ")] or [otherwise]
    hints = [line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")]
    messages = [line.removeprefix("error: ") for line in lines if not line.startswith("hint: ")]
    return DwellError("\n".join(messages), hints)
