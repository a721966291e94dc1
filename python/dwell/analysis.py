"""What a stream holds, in numbers."""

from __future__ import annotations

import json
from bisect import bisect_right
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from dwell.reader import TensorFile
from dwell.tokens import tokens_path

__all__ = ["analyze_activations", "analyze_activations_with_tokens"]


def analyze_activations(stream_path: str | PathLike[str]) -> dict[str, Any]:
    """What a stream holds.

    `packets`, `total_compressed_bytes`, `total_raw_bytes`, `compression_ratio`, `compression` (the codecs met),
    `steps`, `dropped_packets`, `is_finished`, and `per_layer`: for each name `count`, `bytes` as stored, `raw_bytes`,
    `dtype`.
    """
    file = TensorFile(stream_path)
    stats = file.stats()
    total = stats.pop("")
    stored, raw, last_step = total["stored_bytes"], total["raw_bytes"], total["max_step"]
    return {
        "stream_path": fspath(stream_path),
        "compression": ", ".join(total["codecs"]) or None,
        "packets": len(file),
        "total_compressed_bytes": stored,
        "total_raw_bytes": raw,
        "compression_ratio": raw / stored if stored else None,
        "steps": 0 if last_step is None else last_step + 1,
        "dropped_packets": total["dropped_packets"],
        "is_finished": file.is_finished,
        "per_layer": {name: _of_name(figures) for name, figures in stats.items()},
    }


def _of_name(figures: dict[str, Any]) -> dict[str, Any]:
    return {
        "count": figures["packets"],
        "bytes": figures["stored_bytes"],
        "raw_bytes": figures["raw_bytes"],
        "dtype": ", ".join(figures["dtypes"]),
    }


def analyze_activations_with_tokens(stream_path: str | PathLike[str], framework: object = None) -> dict[str, Any]:
    """What a stream holds, in all and per token.

    Beyond `analyze_activations`: `token_metadata`, `packets_per_token` and `bytes_per_token` (means over the tokens),
    and exactly, from the boundaries in the stream, `packets_of_token` and `bytes_of_token`: what was computed for each
    token, with a last entry for what came after the last one. `framework` is not needed; scripts may give it.
    """
    file = TensorFile(stream_path)
    analysis = analyze_activations(stream_path)
    tokens = file.tokens
    if not tokens:
        return analysis
    boundaries = [token.packet or 0 for token in tokens]
    packets_of, bytes_of = [0] * (len(tokens) + 1), [0] * (len(tokens) + 1)
    for tensor in file:
        place = bisect_right(boundaries, tensor.packet)
        packets_of[place] += 1
        bytes_of[place] += tensor.stored_bytes
    analysis["token_metadata"] = _token_metadata(stream_path, file)
    analysis["packets_per_token"] = analysis["packets"] / len(tokens)
    analysis["bytes_per_token"] = analysis["total_compressed_bytes"] / len(tokens)
    analysis["packets_of_token"] = packets_of
    analysis["bytes_of_token"] = bytes_of
    return analysis


def _token_metadata(stream_path: str | PathLike[str], file: TensorFile) -> dict[str, Any]:
    beside = tokens_path(Path(stream_path))
    if beside.exists():
        told: dict[str, Any] = json.loads(beside.read_text(encoding="utf-8"))
        return told
    tokens = [
        {"token_index": it.token_index, "token_id": it.token_id, "token_text": it.token_text} for it in file.tokens
    ]
    return {"total_tokens": len(tokens), "tokens": tokens}
