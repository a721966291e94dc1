"""What is captured, and how it is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from dwell import _core
from dwell.errors import UsageError

__all__ = ["HookConfig", "HookGranularity", "InstrumentationConfig"]

PRESSURES = ("block", "drop", "spill")


class HookGranularity(Enum):
    """Which outputs of a model are captured."""

    FULL_TENSOR = "full_tensor"
    """The whole output of every block, and the logits."""
    SAMPLED_SLICES = "sampled_slices"
    """The same modules; of each tensor every k-th element of the last dimension, k = 1 / `sampling_rate`."""
    ATTENTION_ONLY = "attention_only"
    """The output of every attention module."""
    MLP_ONLY = "mlp_only"
    """The output of every MLP, and of the experts within one."""
    RESIDUAL = "residual"
    """The output of every block, which is the residual stream after it."""


@dataclass
class HookConfig:
    """Which tensors are captured, apart from how they are stored."""

    granularity: HookGranularity = HookGranularity.FULL_TENSOR
    sampling_rate: float = 1.0
    """The part of the last dimension that `SAMPLED_SLICES` keeps, above 0 and at most 1."""
    target_layers: Sequence[int] | None = None
    """Numbers of blocks; negative ones count from the last. `None` for all."""
    compression_enabled: bool = True
    """Without, tensors are stored as they are."""
    async_enabled: bool = True
    """Without, each tensor is in the file before its module returns. Slow; for debugging."""
    targets: Sequence[str] | None = None
    """Globs on module names, such as `model.layers.*.mlp.down_proj`; they replace what `granularity` selects."""
    slice: str | None = None
    """What is kept of each tensor, as between brackets: `":, -1, ::4"`."""

    def __post_init__(self) -> None:
        _check_granularity(self.granularity)
        _check_rate(self.sampling_rate)
        if isinstance(self.targets, str):
            self.targets = [self.targets]


@dataclass
class InstrumentationConfig:
    """What is captured, and how it is stored.

    The builders (`with_…`) change the configuration and return it, so that they can be chained.
    """

    granularity: HookGranularity = HookGranularity.FULL_TENSOR
    compression_algorithm: str = "float"
    """`none`, `lz4`, `zstd`, `zstd:1` to `zstd:19`, `float`, or with loss `bounded:nmse:1e-3` and the like."""
    target_throughput_gbps: float | None = None
    """GB/s of elements that the capture should keep up with; a capture that could not warns at its end."""
    max_memory_gb: float | None = None
    """GB of host memory for tensors on their way to the file, half of the machine's at most; 1 GiB if `None`."""
    sampling_rate: float = 1.0
    target_layers: Sequence[int] | None = None
    targets: Sequence[str] | None = None
    slice: str | None = None
    pressure: str = "block"
    """What happens to a tensor that finds the memory full: `block`, `drop`, `spill`."""
    architecture: str | None = None
    """How the model names its parts, as `detect_model_architecture` says it; found out if `None`."""
    strict: bool = False
    """Whether a tensor that cannot be captured raises within the forward pass, not at the end of the capture."""
    synchronous: bool = False
    """Whether each tensor is in the file before its module returns."""
    defer_copies: bool = True
    """Whether small tensors of a GPU that stay as they are until their forward pass ends are copied only then."""
    flush_interval_s: float | None = None
    flush_mb: float | None = None
    workers: int | None = None
    direct_io: str = "auto"
    spill_dir: str | None = None
    max_spill_gb: float | None = None

    PRESETS: ClassVar[tuple[str, ...]] = (
        "fast_capture",
        "balanced",
        "max",
        "max_compression",
        "attention_analysis",
        "mlp_analysis",
    )

    def __post_init__(self) -> None:
        if isinstance(self.targets, str):
            self.targets = [self.targets]
        self.check()

    def check(self) -> None:
        """Raises if a value cannot be meant."""
        _check_granularity(self.granularity)
        _core.parse_codec(self.compression_algorithm)
        _check_rate(self.sampling_rate)
        for name in ("target_throughput_gbps", "max_memory_gb", "flush_mb", "max_spill_gb"):
            _check_positive(name, getattr(self, name))
        if self.targets is not None and not self.targets:
            raise UsageError("targets=[], which selects no module", ["None for what the granularity selects"])
        if self.pressure not in PRESSURES:
            raise UsageError(
                f"pressure={self.pressure!r}, and no such value is known", [f"one of: {', '.join(PRESSURES)}"]
            )

    @classmethod
    def fast_capture(cls) -> InstrumentationConfig:
        """Nothing is computed on the way: elements are stored as they are."""
        return cls(compression_algorithm="none", target_throughput_gbps=4.0, max_memory_gb=4.0)

    @classmethod
    def balanced(cls) -> InstrumentationConfig:
        """Lossless, smaller, and fast: the default."""
        return cls(compression_algorithm="float", target_throughput_gbps=2.0, max_memory_gb=2.0)

    @classmethod
    def max(cls) -> InstrumentationConfig:
        """Lossless, with memory for long bursts."""
        return cls(compression_algorithm="float", target_throughput_gbps=6.0, max_memory_gb=8.0)

    @classmethod
    def max_compression(cls) -> InstrumentationConfig:
        """The smallest files. Lossy: the cosine between each vector and its stored form is at least 0.9994."""
        return cls(compression_algorithm="bounded:nmse:1e-3", target_throughput_gbps=1.0, max_memory_gb=2.0)

    @classmethod
    def attention_analysis(cls) -> InstrumentationConfig:
        """As `balanced`, the outputs of attention modules."""
        return cls.balanced().with_granularity(HookGranularity.ATTENTION_ONLY)

    @classmethod
    def mlp_analysis(cls) -> InstrumentationConfig:
        """As `balanced`, the outputs of MLPs."""
        return cls.balanced().with_granularity(HookGranularity.MLP_ONLY)

    @classmethod
    def preset(cls, name: str) -> InstrumentationConfig:
        """The preset of this name."""
        if name not in cls.PRESETS:
            raise UsageError(f"the preset {name!r}, and no such preset is known", [f"one of: {', '.join(cls.PRESETS)}"])
        make: Callable[[], InstrumentationConfig] = getattr(cls, name)
        return make()

    def with_compression(self, algorithm: str) -> InstrumentationConfig:
        """Stores tensors with this codec."""
        return self._with({"compression_algorithm": algorithm})

    def with_memory_limit(self, gigabytes: float) -> InstrumentationConfig:
        """Holds at most this much in memory on the way to the file; `pressure` says what happens then."""
        return self._with({"max_memory_gb": gigabytes})

    def with_throughput(self, gigabytes_per_s: float) -> InstrumentationConfig:
        """Warns at the end if the capture slowed the model down and stored less than this."""
        return self._with({"target_throughput_gbps": gigabytes_per_s})

    def with_granularity(self, granularity: HookGranularity) -> InstrumentationConfig:
        """Captures these outputs."""
        return self._with({"granularity": granularity})

    def with_targets(self, targets: str | Iterable[str]) -> InstrumentationConfig:
        """Captures the outputs of modules whose names match one of these globs."""
        return self._with({"targets": [targets] if isinstance(targets, str) else list(targets)})

    def with_layers(self, layers: Iterable[int]) -> InstrumentationConfig:
        """Captures these blocks only."""
        return self._with({"target_layers": list(layers)})

    def with_slice(self, text: str | None) -> InstrumentationConfig:
        """Keeps this part of each tensor."""
        return self._with({"slice": text})

    def with_sampling(self, rate: float) -> InstrumentationConfig:
        """Keeps this part of the last dimension, evenly spread."""
        return self._with({"granularity": HookGranularity.SAMPLED_SLICES, "sampling_rate": rate})

    def with_pressure(self, pressure: str) -> InstrumentationConfig:
        """Does this with a tensor that finds the memory full: `block`, `drop` or `spill`."""
        return self._with({"pressure": pressure})

    def with_hooks(self, hooks: HookConfig) -> InstrumentationConfig:
        """Captures what a `HookConfig` selects."""
        return self._with(
            {
                "granularity": hooks.granularity,
                "sampling_rate": hooks.sampling_rate,
                "target_layers": hooks.target_layers,
                "targets": hooks.targets,
                "slice": hooks.slice,
                "synchronous": not hooks.async_enabled,
                **({} if hooks.compression_enabled else {"compression_algorithm": "none"}),
            }
        )

    def _with(self, values: Mapping[str, object]) -> InstrumentationConfig:
        before = {name: getattr(self, name) for name in values}
        for name, value in values.items():
            setattr(self, name, value)
        try:
            self.check()
        except Exception:
            for name, value in before.items():
                setattr(self, name, value)
            raise
        return self


def _check_granularity(value: object) -> None:
    if not isinstance(value, HookGranularity):
        names = ", ".join(f"HookGranularity.{member.name}" for member in HookGranularity)
        raise UsageError(f"the granularity {value!r}, and a HookGranularity is needed", [f"one of: {names}"])


def _check_rate(rate: float) -> None:
    if not 0.0 < rate <= 1.0:
        raise UsageError(f"a sampling rate of {rate}, and one above 0 and at most 1 is needed")


def _check_positive(name: str, value: float | None) -> None:
    if value is not None and not 0 < value < float("inf"):
        raise UsageError(f"{name}={value}, and a number above 0 is needed")
