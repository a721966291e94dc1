"""How far a job is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

__all__ = ["Progress", "bytes_text"]

_BAR_CHARS = 24
# Lines in a log, and drawings of a bar, are at least so far apart.
_LINE_INTERVAL_S = 5.0
_BAR_INTERVAL_S = 0.1


class Progress:
    """Counts tasks and runs, and says so on standard error."""

    def __init__(self, runs: int, tasks: int, is_shown: bool = True, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._is_shown = is_shown
        self._is_terminal = self._stream.isatty()
        self._runs, self._tasks = runs, tasks
        self._runs_done = self._tasks_done = self._failed = 0
        self._began_s = time.monotonic()
        self._said_s = 0.0
        self._said = ""

    def task_done(self) -> None:
        self._tasks_done += 1
        self.show()

    def run_done(self, is_failed: bool) -> None:
        self._runs_done += 1
        self._failed += is_failed
        self.show(is_last=self._runs_done == self._runs)

    def show(self, is_last: bool = False) -> None:
        """Says how far it is, if that is due."""
        now_s = time.monotonic()
        interval_s = _BAR_INTERVAL_S if self._is_terminal else _LINE_INTERVAL_S
        if self._is_shown and (is_last or now_s - self._said_s >= interval_s):
            self._said_s = now_s
            self._say(self._text(now_s - self._began_s))

    def note(self, text: str) -> None:
        """A line of its own, above the bar."""
        if self._is_shown:
            clear = "\r\x1b[K" if self._is_terminal else ""
            print(f"{clear}{text}", file=self._stream, flush=True)
            self._said = ""

    def close(self) -> None:
        """Leaves the bar as it is."""
        if self._is_shown and self._is_terminal and self._said:
            print(file=self._stream, flush=True)
            self._said = ""

    def _text(self, elapsed_s: float) -> str:
        failed = f", {self._failed} failed" if self._failed else ""
        counts = f"{self._runs_done} of {self._runs} runs{failed}, {self._tasks_done} of {self._tasks} tasks"
        return f"{counts}, {elapsed_s:.0f} s"

    def _say(self, text: str) -> None:
        if self._is_terminal:
            filled = _BAR_CHARS * self._tasks_done // max(self._tasks, 1)
            bar = "#" * filled + "-" * (_BAR_CHARS - filled)
            print(f"\r\x1b[K[{bar}] {text}", end="", file=self._stream, flush=True)
        elif text != self._said:
            print(text, file=self._stream, flush=True)
        self._said = text


def bytes_text(count: int) -> str:
    """A number of bytes for people."""
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    value, unit = float(count), units[0]
    for unit in units:
        if value < 1024 or unit == units[-1]:
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}"
