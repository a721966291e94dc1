"""The two ways to begin a capture."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dwell.analysis import analyze_activations, analyze_activations_with_tokens
from dwell.config import InstrumentationConfig
from dwell.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

    from dwell.capture import Capture

__all__ = ["InstrumentationFramework", "analyze_activations_with_tokens", "capture_activations"]


class InstrumentationFramework:
    """A configuration, and the models that it is used on."""

    def __init__(self, config: InstrumentationConfig | None = None) -> None:
        self.config = InstrumentationConfig.balanced() if config is None else config
        self._models: list[nn.Module] = []

    def instrument_model(self, model: nn.Module) -> None:
        """Names a model whose activations captures hold from now on. Hooks exist only while a capture runs."""
        if not any(known is model for known in self._models):
            self._models.append(model)

    def capture_activations(
        self,
        output_path: str | PathLike[str],
        track_per_token: bool = False,
        checkpoint_interval_tokens: int | None = None,
        checkpoint_path: str | PathLike[str] | None = None,
        resume_from_checkpoint: bool = False,
    ) -> AbstractContextManager[Capture]:
        """Captures while a `with` block lasts; see `dwell.capture_activations`."""
        if not self._models:
            raise UsageError("capturing before a model was named", ["call framework.instrument_model(model) first"])
        from dwell.capture import Capture

        return Capture(
            self._models,
            output_path,
            self.config,
            track_per_token=track_per_token,
            checkpoint_interval_tokens=checkpoint_interval_tokens,
            checkpoint_path=checkpoint_path,
            resume_from_checkpoint=resume_from_checkpoint,
        )

    def analyze_activations(self, stream_path: str | PathLike[str]) -> dict[str, Any]:
        """What a stream holds; see `dwell.analyze_activations`."""
        return analyze_activations(stream_path)


def capture_activations(
    model: nn.Module,
    output_path: str | PathLike[str] | None = None,
    output_dir: str | PathLike[str] = "./captures",
    preset: str | None = None,
    config: InstrumentationConfig | None = None,
    auto_timestamp: bool = True,
    prefix: str = "",
    include_metadata: bool = True,
    *,
    track_per_token: bool = False,
    checkpoint_interval_tokens: int | None = None,
    checkpoint_path: str | PathLike[str] | None = None,
    resume_from_checkpoint: bool = False,
) -> AbstractContextManager[Capture]:
    """Captures activations of a model while a `with` block lasts.

    `preset` names a configuration and wins over `config`; without either it is `balanced`. Without `output_path` the
    file gets a name in `output_dir` from `prefix`, the model and the preset (`include_metadata`) and the time
    (`auto_timestamp`). With `track_per_token`, `record_token` marks where tokens end; `checkpoint_interval_tokens`
    makes everything durable every so many tokens, and `resume_from_checkpoint` goes on from there.

        with dwell.capture_activations(model, preset="balanced", output_path="out.tensors") as capture:
            model.generate(ids, max_new_tokens=32)
    """
    if preset is not None:
        config = InstrumentationConfig.preset(preset)
    framework = InstrumentationFramework(config)
    framework.instrument_model(model)
    if output_path is None:
        about = [prefix]
        if include_metadata:
            about += [_label(model), preset or framework.config.compression_algorithm]
        if auto_timestamp:
            about.append(datetime.now().strftime("%Y%m%d_%H%M%S"))
        name = "_".join(re.sub(r"[^\w-]", "_", part) for part in about if part) or "capture"
        Path(output_dir).mkdir(parents=True, exist_ok=True)
        output_path = Path(output_dir) / f"{name}.tensors"
        number = 2
        while auto_timestamp and output_path.exists():
            output_path = Path(output_dir) / f"{name}_{number}.tensors"
            number += 1
    return framework.capture_activations(
        output_path, track_per_token, checkpoint_interval_tokens, checkpoint_path, resume_from_checkpoint
    )


def _label(model: nn.Module) -> str:
    declared = getattr(getattr(model, "config", None), "model_type", None)
    return declared if isinstance(declared, str) else type(model).__name__.lower()
