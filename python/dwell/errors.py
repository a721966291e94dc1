"""Errors of dwell: what was being done, what was found, what was needed; and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["CaptureError", "CaptureWarning", "DwellError", "NotFoundError", "StorageError", "UsageError"]


class DwellError(Exception):
    """An error of dwell. `message` says what happened, `hints` what to do about it, best first."""

    def __init__(self, message: str, hints: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hints = list(hints)

    def __str__(self) -> str:
        return "\n".join([self.message, *(f"hint: {hint}" for hint in self.hints)])


class UsageError(DwellError, ValueError):
    """An argument that cannot be meant."""


class NotFoundError(DwellError, FileNotFoundError):
    """A file that is not there."""


class StorageError(DwellError, OSError):
    """The operating system refused: disk full, no permission, a broken disk."""


class CaptureError(DwellError):
    """Tensors that could not be captured. The forward pass itself went on."""


class CaptureWarning(UserWarning):
    """A capture that ended, with something to know about it."""
