"""Token boundaries."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Token", "tokens_path"]


@dataclass(frozen=True)
class Token:
    """A token that was recorded; tensors before `packet` belong to it or to an earlier one."""

    token_index: int
    token_id: int
    token_text: str
    packet: int | None = None
    """The number of the first tensor after it; `None` while its capture runs."""
    timestamp_ns: int | None = None


def tokens_path(stream_path: str | Path) -> Path:
    """Where the tokens of a stream are told, beside it: `gen_tokens.json` for `gen.tensors`."""
    path = Path(stream_path)
    stem = path.stem if path.suffix in (".tensors", ".stream") else path.name
    return path.with_name(f"{stem}_tokens.json")
