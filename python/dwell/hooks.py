"""Which modules are captured, and which tensors are in what they return."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import torch
from torch import nn

from dwell import _core
from dwell.architectures import EXPERTS, UNKNOWN, blocks_of, family_of, head_of, named_parts, unwrapped
from dwell.config import HookConfig, HookGranularity, InstrumentationConfig
from dwell.errors import UsageError

__all__ = ["HookConfig", "HookGranularity", "Index", "Target", "select_modules", "tensors_of"]

Index = tuple[int | slice | EllipsisType | None, ...]


@dataclass(frozen=True)
class Target:
    """A module whose output is captured."""

    name: str
    module: nn.Module
    layer: int | None


def select_modules(model: nn.Module, config: InstrumentationConfig) -> list[Target]:
    """The modules of a model whose outputs are captured, in the order in which the model lists them.

    Raises if there is none: a capture of nothing is never what was meant.
    """
    model = unwrapped(model)
    family = family_of(model, config.architecture)
    blocks = blocks_of(model, family)
    modules = dict(named_parts(model))
    everywhere = dict(named_parts(model, remove_duplicate=False))
    if config.targets is not None:
        named = {glob: set(_core.matching(glob, list(modules))) for glob in config.targets}
        names = [name for name in modules if any(name in found for found in named.values())]
        missing = [glob for glob, found in named.items() if not found]
        if missing:
            raise UsageError(
                f"targets {missing}, and no module of {type(model).__name__} has such a name", _name_hints(modules)
            )
    elif config.granularity is HookGranularity.ATTENTION_ONLY:
        names = _outermost(modules, blocks, family.is_attention) or _outermost(modules, blocks, UNKNOWN.is_attention)
    elif config.granularity is HookGranularity.MLP_ONLY:
        names = _outermost(modules, blocks, family.is_mlp) or _outermost(modules, blocks, UNKNOWN.is_mlp)
        names = [name for name in names if not any(map(family.is_attention, name.split(".")))]
        names = [name for name in modules if name in names or _is_expert_of(name, names, modules)]
    else:
        names = list(blocks) or [""]
        head = head_of(model)
        if head is not None and head not in names and config.granularity is not HookGranularity.RESIDUAL:
            names.append(head)
    if not names:
        what = config.granularity.value
        raise UsageError(f"capturing {what} found no such module in {type(model).__name__}", _name_hints(modules))
    targets = [Target(name or type(model).__name__, everywhere[name], _layer_of(name, blocks)) for name in names]
    return targets if config.target_layers is None else _of_layers(targets, config.target_layers, blocks)


def enclosing_modules(model: nn.Module, config: InstrumentationConfig) -> list[nn.Module]:
    """The model, and the modules in it that hold all blocks: what may be called in place of the model."""
    if isinstance(model, nn.DataParallel) and len(model.device_ids) > 1:
        # Its copies of the inner model run in threads, and are one pass.
        return [model]
    inner = unwrapped(model)
    blocks = blocks_of(inner, family_of(inner, config.architecture))
    holders = [
        module
        for name, module in named_parts(inner)
        if name and blocks and all(block.startswith(f"{name}.") for block in blocks)
    ]
    return [model, *([] if inner is model else [inner]), *holders]


def _outermost(modules: Mapping[str, nn.Module], blocks: Mapping[str, int], is_one: Callable[[str], bool]) -> list[str]:
    """Modules of a kind that lie in a block and in no other of their kind."""
    found: list[str] = []
    for name in modules:
        if _layer_of(name, blocks) is None or name in blocks or not is_one(name.rpartition(".")[2]):
            continue
        if not (found and name.startswith(f"{found[-1]}.")):
            found.append(name)
    return found


def _is_expert_of(name: str, mlps: list[str], modules: Mapping[str, nn.Module]) -> bool:
    parent, _, last = name.rpartition(".")
    if isinstance(modules[name], nn.ModuleList):
        return False
    in_list = (
        isinstance(modules.get(parent), nn.ModuleList) and EXPERTS.fullmatch(parent.rpartition(".")[2]) is not None
    )
    is_expert = EXPERTS.fullmatch(last) is not None or in_list
    return is_expert and any(name.startswith(f"{mlp}.") for mlp in mlps)


def _layer_of(name: str, blocks: Mapping[str, int]) -> int | None:
    path = name
    while path:
        if path in blocks:
            return blocks[path]
        path = path.rpartition(".")[0]
    return None


def _of_layers(targets: list[Target], layers: Sequence[int], blocks: Mapping[str, int]) -> list[Target]:
    count = max(blocks.values(), default=-1) + 1
    wanted = {layer + count if layer < 0 else layer for layer in layers}
    if unknown := sorted(layer for layer in wanted if not 0 <= layer < count):
        raise UsageError(f"layers {unknown}, and the model has {count}", [f"layers are 0 to {count - 1}"])
    chosen = [target for target in targets if target.layer in wanted]
    if not chosen:
        raise UsageError(f"layers {sorted(wanted)}, and no selected module lies in one of them")
    return chosen


def _name_hints(modules: Mapping[str, nn.Module]) -> list[str]:
    names = [name for name in modules if name]
    some = ", ".join(names[:: max(1, len(names) // 6)][:8])
    return [
        f"modules are named like: {some}",
        'name them with targets=["…"]; print all with `for n, _ in model.named_modules(): print(n)`',
    ]


def tensors_of(output: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors in what a module returned, each once, with what their names add to the module's.

    The first entry of a tuple is the module's output and adds nothing; other entries add their number, those of a
    dict or a `ModelOutput` their key.
    """
    seen: set[int] = set()
    for suffix, tensor in _walk("", output):
        if id(tensor) not in seen:
            seen.add(id(tensor))
            yield suffix, tensor


def _walk(suffix: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield suffix, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _walk(f"{suffix}.{key}", entry)
    elif isinstance(value, (tuple, list)):
        for number, entry in enumerate(value):
            yield from _walk(f"{suffix}.{number}" if number else suffix, entry)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _walk(f"{suffix}.{field.name}", getattr(value, field.name, None))


def index_of(config: InstrumentationConfig) -> Index | None:
    """What is kept of each tensor; `None` for all."""
    if config.slice is not None:
        return _core.parse_slice(config.slice)
    if config.granularity is HookGranularity.SAMPLED_SLICES and config.sampling_rate < 1.0:
        return (..., slice(None, None, max(1, round(1 / config.sampling_rate))))
    return None
